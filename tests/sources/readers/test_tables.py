import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scr.errors import GraphError, SourceError
from scr.sources import IngestOptions, load_graph

# The graphs here are too small for a training node of every class.
pytestmark = pytest.mark.filterwarnings("ignore:.*no training label")

EDGES = "source,target\na,b\nb,c\n"
NODES = "id,label,f1,f2,split\na,x,1,2.5,train\nb,y,3,4,val\nc,,5,6,\nd,x,7,8,test\n"


def write(folder, edges=EDGES, nodes=NODES):
    if edges is not None:
        (folder / "edges.csv").write_text(edges)
    if nodes is not None:
        (folder / "nodes.csv").write_text(nodes)
    return folder


def test_csv_tables_are_read_whole(tmp_path):
    graph = load_graph(write(tmp_path))
    assert graph.ids.tolist() == ["a", "b", "c", "d"]
    expected = [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
    np.testing.assert_array_equal(graph.adjacency().toarray(), expected)
    assert graph.labels.tolist() == [0, 1, -1, 0]
    assert graph.class_names == ("x", "y")
    np.testing.assert_array_equal(graph.features, [[1, 2.5], [3, 4], [5, 6], [7, 8]])
    assert [graph.train.tolist(), graph.valid.tolist(), graph.test.tolist()] == [[0], [1], [3]]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("ids", [[10, 7, 300], ["b", "a", "ä€"], ["01", "1", "001"]])
@pytest.mark.parametrize("classes", [[3, None, 10], ["x", None, "y"], [True, None, False]])
def test_pandas_tables_come_back(tmp_path, kind, ids, classes):
    labels = pd.array(classes) if isinstance(classes[0], int) else classes
    nodes = pd.DataFrame({"id": ids, "label": labels, "f": [0.5, 1.5, 2.5]})
    edges = pd.DataFrame({"source": [ids[0], ids[2]], "target": [ids[1], ids[1]]})
    for name, table in {"nodes": nodes, "edges": edges}.items():
        if kind == "csv":
            table.to_csv(tmp_path / f"{name}.csv", index=False)
        else:
            table.to_parquet(tmp_path / f"{name}.parquet")
    graph = load_graph(tmp_path)
    assert graph.ids.tolist() == ids
    expected = sorted(value for value in classes if value is not None)
    named = [None if n < 0 else graph.class_names[n].lower() for n in graph.labels]
    assert named == [None if value is None else str(value).lower() for value in classes]
    assert [name.lower() for name in graph.class_names] == [str(v).lower() for v in expected]
    np.testing.assert_array_equal(graph.adjacency().toarray(), [[0, 1, 0], [1, 0, 1], [0, 1, 0]])


def test_classes_that_are_numbers_sort_as_numbers(tmp_path):
    nodes = "id,label\n1,10\n2,9\n3,100\n4,-1\n5,\n"
    graph = load_graph(write(tmp_path, "a,b\n1,2\n", nodes))
    assert graph.class_names == ("9", "10", "100")
    assert graph.labels.tolist() == [1, 0, 2, -1, -1]


def test_whole_numbers_that_pandas_wrote_as_floats_are_whole_numbers(tmp_path):
    pd.DataFrame({"id": [1, 2, 3], "label": [4.0, np.nan, 11.0]}).to_csv(
        tmp_path / "nodes.csv", index=False
    )
    graph = load_graph(write(tmp_path, "source,target\n1,2\n", None))
    assert graph.class_names == ("4", "11")


def test_columns_have_the_names_that_were_given(tmp_path):
    nodes = "topic,weight_kg,key,part\nx,1,a,train\ny,2,b,test\n"
    options = IngestOptions(id_column="key", label_column="topic", split_column="part")
    graph = load_graph(write(tmp_path, "from,to\na,b\n", nodes), options=options)
    assert graph.ids.tolist() == ["a", "b"]
    assert graph.class_names == ("x", "y")
    assert graph.features.tolist() == [[1], [2]]
    assert graph.train.tolist() == [0]


def test_edge_weights_are_read(tmp_path):
    graph = load_graph(write(tmp_path, "source,target,weight\na,b,2.5\na,b,1\n"))
    assert graph.adjacency().toarray()[0, 1] == 3.5


def test_a_table_without_labels_is_read_if_said_so(tmp_path):
    write(tmp_path, nodes="id,f\na,1\nb,2\nc,3\n")
    graph = load_graph(tmp_path, options=IngestOptions(label_column="none"))
    assert graph.num_classes == 0
    assert graph.labels.tolist() == [-1, -1, -1]


def test_a_features_file_beside_the_tables_replaces_the_columns(tmp_path):
    matrix = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.save(tmp_path / "features.npy", matrix)
    text = NODES.replace("2.5", "some text")
    graph = load_graph(write(tmp_path, nodes=text))
    np.testing.assert_array_equal(graph.features, matrix)
    assert "node columns left out: f1, f2" in graph.steps
    np.save(tmp_path / "other.npy", matrix + 1)
    graph = load_graph(tmp_path, options=IngestOptions(features=tmp_path / "other.npy"))
    np.testing.assert_array_equal(graph.features, matrix + 1)


BAD_TABLES = {
    "unknown target": (EDGES + "c,zz\n", NODES, r"row 3: the target is `zz`"),
    "empty source": (EDGES + ",a\n", NODES, "row 3: the source is"),
    "duplicate id": (EDGES, NODES + "b,x,1,1,\n", "the id `b` twice, in rows 2 and 5"),
    "missing label": (
        EDGES,
        "id,f\na,1\nb,1\nc,1\n",
        "no column `label`; its columns are `id`, `f`",
    ),
    "one edge column": ("source\na\n", NODES, "its columns are `source`"),
    "text feature": (EDGES, NODES.replace("2.5", "tall"), "`f2` holds string such as 'tall'"),
    "missing feature": (EDGES, NODES.replace("2.5", ""), "row 1: `f2` is missing"),
    "unknown split": (EDGES, NODES.replace("val", "dev"), "row 2: the split is `dev`"),
    "empty file": ("", NODES, "cannot be read as a table"),
    "ragged rows": (EDGES + "a,b,c,d\n", NODES, "cannot be read as a table"),
    "no nodes": (EDGES, None, "no table of nodes"),
    "no edges": (None, NODES, "no table of edges"),
    "text weight": ("source,target,weight\na,b,heavy\n", NODES, "`weight` holds string"),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_bad_tables_are_refused_with_the_place(tmp_path, case):
    edges, nodes, message = BAD_TABLES[case]
    with pytest.raises(SourceError, match=message):
        load_graph(write(tmp_path, edges, nodes))


@pytest.mark.parametrize("nodes", [NODES.replace("2.5", "inf"), NODES.replace("c,,", "c,,1e60,")])
def test_features_that_are_not_finite_are_refused(tmp_path, nodes):
    with pytest.raises((GraphError, SourceError)):
        load_graph(write(tmp_path, nodes=nodes))


def test_a_features_file_of_the_wrong_length_is_refused(tmp_path):
    np.save(tmp_path / "features.npy", np.zeros((3, 2), np.float32))
    with pytest.raises(SourceError, match=r"shape \(3, 2\); expected 4 rows"):
        load_graph(write(tmp_path))


def test_a_features_file_with_pickles_is_refused(tmp_path):
    np.save(tmp_path / "features.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(SourceError, match="cannot be read as features"):
        load_graph(write(tmp_path))


def test_two_tables_of_edges_are_refused(tmp_path):
    write(tmp_path)
    pd.DataFrame({"source": ["a"], "target": ["b"]}).to_parquet(tmp_path / "edges.parquet")
    with pytest.raises(SourceError, match="has both"):
        load_graph(tmp_path)


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), min_size=1, max_size=5)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data(), kind=st.sampled_from(["csv", "parquet"]))
def test_any_ids_and_edges_come_back(tmp_path_factory, data, kind):
    folder = tmp_path_factory.mktemp("tables")
    some_ids = st.one_of(
        st.lists(st.integers(-(2**60), 2**60), unique=True, min_size=1, max_size=8),
        st.lists(TEXT, unique=True, min_size=1, max_size=8),
    )
    ids = data.draw(some_ids)
    node = st.integers(0, len(ids) - 1)
    pairs = data.draw(st.lists(st.tuples(node, node), min_size=1, max_size=12))
    tables = {
        "nodes": pd.DataFrame({"id": ids, "label": ["x"] * len(ids)}),
        "edges": pd.DataFrame(
            {"source": [ids[i] for i, _ in pairs], "target": [ids[j] for _, j in pairs]}
        ),
    }
    for name, table in tables.items():
        if kind == "csv":
            table.to_csv(folder / f"{name}.csv", index=False, quoting=2)
        else:
            table.to_parquet(folder / f"{name}.parquet")
    graph = load_graph(folder, options=IngestOptions(symmetrize=False, drop_self_loops=False))
    expected_ids = ids
    if all(isinstance(i, str) and re.fullmatch("0|-?[1-9][0-9]*", i) for i in ids):
        expected_ids = [int(i) for i in ids]  # text that is canonical numbers is numbers
    assert graph.ids.tolist() == expected_ids
    found = np.repeat(np.arange(len(ids)), np.diff(graph.indptr)), graph.indices
    assert sorted(set(pairs)) == list(zip(*(part.tolist() for part in found), strict=True))
