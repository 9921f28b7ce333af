"""Two tables as people have them become a graph, and everything odd in them is said."""

import datetime
import decimal

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scr.errors import ConfigError, SCRError, SourceError
from scr.graph import open_store
from scr.tables import Preparation, TableOptions, read_any_table, read_new_nodes, read_table_graph

NODES = """id;label;age;colour
007;a;31;red
ben;;;blue
carla;b;44,5;red
;b;1;red
carla;b;44,5;red
dora;NA;20;blue
"""
EDGES = """src,dst,strength
007,ben,2
ben,carla,1.5
carla,zoe,3
carla,carla,1
ben,,1
carla,ben,1
"""


def tables(folder, nodes=NODES, edges=EDGES):
    (folder / "nodes.csv").write_text(nodes)
    (folder / "edges.csv").write_text(edges)
    return folder / "nodes.csv", folder / "edges.csv"


def says(notes, *parts):
    return any(all(part in note for part in parts) for note in notes)


def test_everything_odd_is_worked_around_and_said(tmp_path):
    result = read_table_graph(*tables(tmp_path))
    graph, notes = result.graph, result.notes
    assert graph.ids.tolist() == ["007", "ben", "carla", "dora"]
    assert graph.labels.tolist() == [0, -1, 1, -1]
    assert graph.class_names == ("a", "b")
    # 1.5 and 1 are two directions of one edge, of which the larger counts.
    expected = np.zeros((4, 4))
    expected[0, 1] = expected[1, 0] = 2
    expected[1, 2] = expected[2, 1] = 1.5
    np.testing.assert_array_equal(graph.adjacency().toarray(), expected)
    assert says(notes, "separated by semicolons")
    assert says(notes, "1 row of", "without `id` left out (row 4)")
    assert says(notes, "1 repeated row of", "(row 5)")
    assert says(notes, "2 of 4 nodes have a class in `label`")
    assert says(notes, "2 classes with a single node: `a`, `b`")
    assert says(notes, "column `strength` are the weights")
    assert says(notes, "1 edge without both ends dropped (row 5)")
    assert says(notes, "1 edge of", "to 1 node without a row (such as `zoe`, row 3) dropped")
    assert says(notes, "1 edge from a node to itself dropped (row 4)")
    assert says(notes, "Column age: number, comma before decimals, 1 missing")
    assert says(notes, "1 node without any edge")
    assert result.preparation.names == (
        "age",
        "age missing",
        "colour=blue",
        "colour=red",
        "colour=other",
    )


def test_nodes_that_only_edges_name_are_added_if_asked(tmp_path):
    paths = tables(tmp_path)
    added = read_table_graph(*paths, TableOptions(unknown_nodes="add"))
    assert added.graph.ids.tolist() == ["007", "ben", "carla", "dora", "zoe"]
    assert added.graph.adjacency()[2, 4] == 3
    by_name = dict(zip(added.preparation.names, added.graph.features[-1].tolist(), strict=True))
    assert by_name["age missing"] == by_name["colour missing"] == 1
    with pytest.raises(SourceError, match=r"1 edge of .* to 1 node without a row"):
        read_table_graph(*paths, TableOptions(unknown_nodes="error"))


def test_all_problems_are_listed_in_one_error(tmp_path):
    nodes = "id,label,age\n1,a,2\n1,b,3\n2,a,4\n"
    edges = "source,target,weight\n1,2,-1\n2,1,\n"
    options = TableOptions(label="class", columns={"size": "number", "age": "date"})
    with pytest.raises(SourceError) as error:
        read_table_graph(*tables(tmp_path, nodes, edges), options)
    text = error.value.message
    assert text.startswith("The tables have 5 problems:")
    assert "no column `class`; its columns are `id`, `label`, `age`" in text
    assert "1 row whose id has another row that differs, first `1` in rows 1, 2" in text
    assert "`weight`" in text
    assert "2 cells that are no weight" in text
    assert "`columns` names `size`" in text
    assert "`age` was to be a date" in text


@pytest.mark.parametrize(
    "header", ["source,target", "src,dst", "From,To", "a,b", "u,v", "date,source,target"]
)
def test_ends_of_edges_are_found(tmp_path, header):
    row = "x,1,2\n" if header.startswith("date") else "1,2\n"
    nodes = "id,label\n1,a\n2,b\n"
    graph = read_table_graph(*tables(tmp_path, nodes, f"{header}\n{row}")).graph
    assert graph.ids.tolist() == [1, 2]
    assert graph.num_undirected_edges == 1


def test_edges_without_column_names_are_read_from_the_first_row(tmp_path):
    nodes = "id,label\n1,a\n2,b\n3,b\n"
    result = read_table_graph(*tables(tmp_path, nodes, "1\t2\n2\t3\n"))
    assert result.graph.num_undirected_edges == 2
    assert says(result.notes, "has no row of column names")


@pytest.mark.parametrize(
    ("edges", "pairs", "weights"),
    [
        ("0,1,1\n1,2,3\n", [(0, 1), (1, 2)], [1, 3]),
        ("0,0\n0,1\n2,1\n", [(0, 1), (1, 2)], None),
    ],
)
def test_a_first_row_of_equal_numbers_is_an_edge_too(tmp_path, edges, pairs, weights):
    paths = tables(tmp_path, "id,label\n0,a\n1,b\n2,b\n", edges)
    result = read_table_graph(*paths)
    upper = sp.triu(result.graph.to_scipy()).tocoo()
    assert list(zip(upper.row, upper.col, strict=True)) == pairs
    assert weights is None or upper.data.tolist() == weights
    assert says(result.notes, "has no row of column names")
    new = read_new_nodes(paths[0], paths[1], None, [7], TableOptions())
    assert len(new.edges.T) == 2 + (weights is None)


def test_names_of_columns_of_edges_that_repeat_are_refused(tmp_path):
    paths = tables(tmp_path, "id,label\n0,a\n1,b\n", "source,target,w,w\n0,1,1,1\n")
    with pytest.raises(
        SourceError, match="2 columns named `w`; expected one, since it is the weight"
    ):
        read_table_graph(*paths)


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        (
            "id,id,label\n0,0,a\n1,1,b\n",
            "source,target\n0,1\n",
            "`id`; expected one, since it is the id",
        ),
        ("id,label,label\n0,a,a\n1,b,b\n", "source,target\n0,1\n", "`label`; expected one"),
        ("id,label\n0,a\n1,b\n", "source,target,target\n0,1,1\n", "`target`; expected one"),
    ],
)
def test_a_column_with_a_meaning_must_be_there_once(tmp_path, nodes, edges, message):
    with pytest.raises(SourceError, match=f"2 columns named {message}"):
        read_table_graph(*tables(tmp_path, nodes, edges))


def test_other_columns_of_the_same_name_are_numbered_as_pandas_does(tmp_path):
    text = "id,label,x,x,x.1\n0,a,1,7,3\n1,b,2,9,5\n2,b,4,8,6\n"
    result = read_table_graph(*tables(tmp_path, text, "source,target\n0,1\n1,2\n"))
    # pandas.read_csv has the columns id, label, x, x.2 and x.1
    assert [column.name for column in result.preparation.columns] == ["x", "x.2", "x.1"]
    assert says(result.notes, "columns of the same name were numbered: `x`")


@pytest.mark.parametrize(
    ("cells", "is_used", "note"),
    [
        ([1.0, 2.0], True, "are the weights"),
        (["1.250,5", "2,25"], True, "are the weights"),
        ([1.0, -2.0], False, "1 cell that are no weight"),
        (["good", "bad"], False, "edges have no weights"),
    ],
)
def test_a_third_column_is_a_weight_if_it_can_be_one(cells, is_used, note):
    nodes = pa.table({"id": [1, 2, 3], "label": ["a", "b", ""]})
    edges = pa.table({"a": [1, 2], "b": [2, 3], "c": cells})
    result = read_table_graph(nodes, edges)
    assert (result.graph.weights is not None) is is_used
    assert says(result.notes, note)
    if cells == ["1.250,5", "2,25"]:
        assert sorted(result.graph.weights) == [2.25, 2.25, 1250.5, 1250.5]
    assert read_table_graph(nodes, edges, TableOptions(weight_column="none")).graph.weights is None


def test_ids_of_different_types_meet_as_text():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    nodes = pandas.DataFrame({"id": [10, 20, 30], "label": ["a", None, "b"], "x": [1.5, None, 2]})
    edges = polars.DataFrame({"source": ["10", "20"], "target": ["20", "30"]})
    graph = read_table_graph(nodes, edges).graph
    assert graph.ids.tolist() == [10, 20, 30]
    assert graph.num_undirected_edges == 2
    edges = pandas.DataFrame({"source": [10.0, 20.0, np.nan], "target": [20, 30, 10]})
    assert read_table_graph(nodes, edges).graph.num_undirected_edges == 2


def test_an_index_with_a_name_is_a_column():
    pandas = pytest.importorskip("pandas")
    nodes = pandas.DataFrame({"sku": ["a", "b", "c"], "label": ["x", "y", ""], "price": [1, 2, 9]})
    edges = pandas.DataFrame({"source": ["a", "b"], "target": ["b", "c"]})
    graph = read_table_graph(nodes.set_index("sku"), edges).graph
    assert graph.ids.tolist() == ["a", "b", "c"]


def test_ids_that_do_not_meet_at_all_are_refused_with_an_example_of_both():
    nodes = pa.table({"id": ["007", "008"], "label": ["a", "b"]})
    with pytest.raises(SourceError, match=r"such as `7`, those of the nodes such as `007`"):
        read_table_graph(nodes, pa.table({"source": [7], "target": [8]}))


def test_the_id_column_is_the_first_whose_values_differ():
    nodes = pa.table(
        {"label": ["a", "b"], "kind": ["x", "x"], "name": ["p", "q"], "nr": ["1", "2"]}
    )
    result = read_table_graph(nodes, pa.table({"source": ["p"], "target": ["q"]}))
    assert result.graph.ids.tolist() == ["p", "q"]
    assert says(result.notes, "ids of the nodes are in the column `name`")
    repeated = pa.concat_tables([nodes, nodes.slice(1)])
    result = read_table_graph(repeated, pa.table({"source": ["p"], "target": ["q"]}))
    assert result.graph.ids.tolist() == ["p", "q"]
    with pytest.raises(SourceError, match="no other whose values all differ"):
        read_table_graph(
            pa.table({"label": ["a", "b"], "kind": ["x", "x"]}),
            pa.table({"source": ["p"], "target": ["q"]}),
        )


def test_a_split_column_is_read_and_another_meaning_of_it_is_a_feature():
    edges = pa.table({"source": [1, 2], "target": [2, 3]})
    nodes = {"id": [1, 2, 3, 4], "label": ["a", "b", "a", ""]}
    split = pa.table({**nodes, "split": ["train", "train", "val", "test"]})
    result = read_table_graph(split, edges)
    assert (result.graph.train.tolist(), result.graph.valid.tolist()) == ([0, 1], [2])
    assert says(result.notes, "1 node of the test split without a class")
    other = pa.table({**nodes, "split": ["left", "right", "left", "right"]})
    assert read_table_graph(other, edges).preparation.names[:2] == ("split=left", "split=right")
    with pytest.raises(SourceError, match="says more than train, valid, test"):
        read_table_graph(other, edges, TableOptions(split_column="split"))


def test_many_columns_are_noted_by_kind():
    columns = {f"w{number}": [0, 0, 0, 0, number % 3 + 1, 0] for number in range(40)}
    nodes = pa.table({"id": [1, 2, 3, 4, 5, 6], "label": list("ababab"), **columns})
    result = read_table_graph(nodes, pa.table({"source": [1, 2], "target": [2, 3]}))
    assert says(result.notes, "40 columns (w0, w1, w2, ...): number")
    assert (
        result.graph.features.tolist()
        == nodes.drop_columns(["id", "label"]).to_pandas().values.tolist()
    )


ODD = {
    "half": pa.array(np.linspace(0, 1, 60), pa.float16()),
    "unsigned": pa.array(np.arange(60) % 5, pa.uint64()),
    "decimal": pa.array([decimal.Decimal(f"{number % 7}.25") for number in range(60)]),
    "dictionary": pa.array(["a", "b"] * 30).dictionary_encode(),
    "large": pa.array(["a", "b"] * 30, pa.large_string()),
    "binary": pa.array([b"\xff"] * 60),
    "list": pa.array([[number] for number in range(60)]),
    "time": pa.array([datetime.time(number % 24) for number in range(60)]),
    "duration": pa.array([datetime.timedelta(seconds=number % 9) for number in range(60)]),
    "zoned": pa.array([datetime.datetime(2020, 1, number % 9 + 1, tzinfo=datetime.UTC)
                       for number in range(60)]),
    "null": pa.nulls(60),
    "infinite": pa.array([np.inf, 1.0, 2.0] * 20),
    "extreme": pa.array([*(1e-200 * np.arange(59)), 1e300]),
    "missing": pa.array(["", "NA"] * 30),
}  # fmt: skip


def test_columns_of_every_type_are_features_or_left_out():
    nodes = pa.table({"id": list(range(60)), "label": ["a", "b"] * 30, **ODD})
    edges = pa.table({"source": list(range(59)), "target": list(range(1, 60))})
    result = read_table_graph(nodes, edges)
    assert np.isfinite(result.graph.features).all()
    kinds = {column.name: column.kind for column in result.preparation.columns}
    assert kinds == {
        "half": "number", "unsigned": "number", "decimal": "number", "dictionary": "category",
        "large": "category", "duration": "number", "zoned": "date", "infinite": "number",
        "extreme": "number",
    }  # fmt: skip
    assert set(result.preparation.dropped) == {"binary", "list", "time", "null", "missing"}


@pytest.mark.parametrize("kind", ["number", "category", "text", "date", "boolean"])
@pytest.mark.parametrize("name", ODD)
def test_every_type_can_be_asked_to_be_every_kind(name, kind):
    table = read_any_table(pa.table({name: ODD[name]}))
    try:
        matrix = Preparation.fit(table, kinds={name: kind}).transform(table)
    except SourceError as error:
        assert f"`{name}` was to be a {kind}" in error.message  # noqa: PT017
    else:
        assert np.isfinite(matrix).all()


def test_a_graph_of_tables_can_be_stored_and_opened(tmp_path):
    graph = read_table_graph(*tables(tmp_path)).graph
    opened = open_store(graph.save(tmp_path / "store"))
    assert opened.fingerprint() == graph.fingerprint()


def test_new_nodes_are_numbered_after_the_known_ones(tmp_path):
    result = read_table_graph(*tables(tmp_path))
    nodes = pa.table({"more": [1, 2, 3], "colour": ["green", "red", "red"], "id": ["x", "ben", "y"],
                      "age": ["9,5", "", "1"]})  # fmt: skip
    edges = pa.table({"source": ["x", "y", "y"], "target": ["007", "x", "nobody"], "w": [1, 2, 3]})
    new = read_new_nodes(nodes, edges, result.preparation, result.graph.ids)
    assert new.ids.tolist() == ["x", "y"]
    assert new.edges.tolist() == [[4, 5], [0, 4]]
    assert new.weights.tolist() == [1, 2]
    by_name = dict(zip(result.preparation.names, new.features.T.tolist(), strict=True))
    assert by_name["colour=other"] == [1, 0]
    assert by_name["colour=red"] == [0, 1]
    assert says(new.notes, "1 row of nodes that the graph has already")
    assert says(new.notes, "ignored: `more`")
    assert says(new.notes, "`nobody`", "dropped")
    with pytest.raises(SourceError, match="no columns `age`, `colour`"):
        read_new_nodes(pa.table({"id": ["x"]}), None, result.preparation, result.graph.ids)


def test_new_nodes_have_their_ids_where_the_known_ones_had_them():
    nodes = pa.table({"sku": ["a", "b", "c"], "kind": ["x", "y", ""], "size": [1.0, 2.5, 4.0]})
    edges = pa.table({"source": ["a"], "target": ["b"]})
    result = read_table_graph(nodes, edges, TableOptions(label="kind"))
    new = pa.table({"kind": [""], "size": [3.0], "sku": ["z"]})
    read = read_new_nodes(new, None, result.preparation, result.graph.ids)
    assert read.ids.tolist() == ["z"]
    assert read.notes == ()
    with pytest.raises(SourceError, match="no column `sku`"):
        read_new_nodes(new.drop_columns("sku"), None, result.preparation, result.graph.ids)


def test_settings_are_checked():
    with pytest.raises(ConfigError, match=r"`columns.age` is 'money'"):
        TableOptions(columns={"age": "money"})
    with pytest.raises(ConfigError, match="`unknown_nodes`"):
        TableOptions(unknown_nodes="keep")


CELL = st.sampled_from(
    ["", "1", "2", "3.5", "x", "NA", "a b c", "2020-01-01", "yes", '"', "1,5", "é"]
)
ROW = st.lists(CELL, min_size=1, max_size=4)


@settings(max_examples=60, deadline=None)
@example(nodes=[["", "", "", ""]], edges=[], delimiter=",")
@given(
    nodes=st.lists(ROW, max_size=6),
    edges=st.lists(ROW, max_size=6),
    delimiter=st.sampled_from(",;"),
)
def test_any_cells_are_a_graph_or_one_error(tmp_path_factory, nodes, edges, delimiter):
    written = [
        "\n".join(delimiter.join(row) for row in rows)
        for rows in ([["id", "label", "x", "y"], *nodes], [["source", "target", "w"], *edges])
    ]
    paths = tables(tmp_path_factory.mktemp("fuzz"), *written)
    try:
        result = read_table_graph(*paths, TableOptions(unknown_nodes="add"))
    except SCRError:
        return
    assert result.graph.features.shape[0] == result.graph.num_nodes
    assert np.isfinite(result.graph.features).all()


def test_files_that_are_not_utf_8_are_read_and_that_is_said(tmp_path):
    nodes, edges = tables(tmp_path)
    nodes.write_bytes("id,label,colour\n1,Größe,grün\n2,,rot\n3,,grün\n".encode("cp1252"))
    edges.write_text("source,target\n1,2\n2,3\n")
    result = read_table_graph(nodes, edges)
    assert result.graph.class_names == ("Größe",)
    assert says(result.notes, "is not UTF-8 and was read as Windows-1252")
