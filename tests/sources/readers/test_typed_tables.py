"""Folders of tables with a graph.toml, written by pandas or by hand."""

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.graph.typed_graphs import typed_inputs

from scr.errors import GraphError, SourceError
from scr.graph import Graph
from scr.sources import IngestOptions, load_graph

pytestmark = pytest.mark.filterwarnings("ignore:.*no training label")

TOML = """
target = "paper"

[nodes.paper]

[nodes.author]

[[edges]]
source = "author"
name = "writes"
target = "paper"

[[edges]]
source = "paper"
name = "cites"
target = "paper"
file = "citations.csv"
"""
PAPERS = "id,label,split,year,pages\np1,x,train,2001,5\np2,y,val,2002,7\np3,,,2003,9\n"
WRITES = "author,paper\nanna,p1\nben,p1\nben,p3\n"
CITATIONS = "source,target,weight\np1,p2,2\np2,p3,0.5\n"


def write(folder, toml=TOML, **files):
    tables = {"nodes-paper": PAPERS, "edges-writes": WRITES, "citations": CITATIONS} | files
    (folder / "graph.toml").write_text(toml)
    for name, text in tables.items():
        if text is not None:
            path = folder / f"{name}.csv"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
    return folder


def test_tables_are_read_whole(tmp_path):
    graph = load_graph(write(tmp_path))
    assert graph.ids.tolist() == ["p1", "p2", "p3"]
    assert list(graph.node_types.items()) == [("paper", 3), ("author", 2)]
    dense = np.zeros((5, 5))
    dense[0, 3] = dense[0, 4] = dense[2, 4] = 1  # anna is 3, ben 4: as edges name them
    dense[0, 1], dense[1, 2] = 2, 0.5
    np.testing.assert_array_equal(graph.adjacency().toarray(), dense + dense.T)
    np.testing.assert_array_equal(graph.features, [[2001, 5], [2002, 7], [2003, 9]])
    assert graph.labels.tolist() == [0, 1, -1]
    assert graph.class_names == ("x", "y")
    assert [graph.train.tolist(), graph.valid.tolist()] == [[0], [1]]
    assert graph.steps[0] == "read 5 edges of 2 relations between 3 paper, 2 author"


def test_a_table_says_the_order_and_the_features_of_its_type(tmp_path):
    authors = "id,h,name\nben,3,Ben\nanna,5,Anna\ncarla,1,Carla\n"
    toml = TOML.replace("[nodes.author]", '[nodes.author]\nfeatures = ["h"]')
    graph = load_graph(write(tmp_path, toml, **{"nodes/author": authors}))
    assert graph.node_types["author"] == 3
    np.testing.assert_array_equal(graph.other_features["author"], [[3], [5], [1]])
    assert graph.only("writes").adjacency().toarray()[0, 3:].tolist() == [1, 1, 0]
    assert "columns of author.csv left out: name" in graph.steps


def test_files_and_columns_may_have_other_names(tmp_path):
    toml = """
target = "paper"
[nodes.paper]
file = "all.parquet"
id = "key"
label = "kind"
split = "part"
features = "x.npy"
[[edges]]
source = "paper"
name = "cites"
target = "paper"
file = "citations.csv"
weight = "times"
[[edges]]
source = "paper"
name = "extends"
target = "paper"
"""
    np.save(tmp_path / "x.npy", np.arange(6, dtype=np.float32).reshape(3, 2))
    pd.DataFrame(
        {"key": [7, 5, 9], "kind": ["a", "b", None], "part": ["train", "test", None], "f": 1}
    ).to_parquet(tmp_path / "all.parquet")
    pd.DataFrame({"from": [7], "to": [9]}).to_parquet(tmp_path / "edges-extends.parquet")
    citations = "source,target,times\n5,7,3\n"
    graph = load_graph(write(tmp_path, toml, citations=citations))
    assert graph.ids.tolist() == [7, 5, 9]
    assert isinstance(graph.features.base, np.memmap) or isinstance(graph.features, np.memmap)
    np.testing.assert_array_equal(graph.features, [[0, 1], [2, 3], [4, 5]])
    assert [graph.train.tolist(), graph.test.tolist()] == [[0], [1]]
    assert graph.only("cites").adjacency().toarray().tolist() == [[0, 3, 0], [3, 0, 0], [0, 0, 0]]
    assert graph.only("extends").adjacency().toarray()[0].tolist() == [0, 0, 1]
    assert "columns of all.parquet left out: f" in graph.steps


def test_columns_may_be_named_by_options(tmp_path):
    renamed = PAPERS.replace("id,label,split", "key,kind,part")
    options = IngestOptions(id_column="key", label_column="kind", split_column="part")
    graph = load_graph(write(tmp_path, **{"nodes-paper": renamed}), options=options)
    assert graph.ids.tolist() == ["p1", "p2", "p3"]
    assert graph.class_names == ("x", "y")
    none = IngestOptions(label_column="none", id_column="year")
    bare = "year,pages\np1,1\np2,2\np3,3\n"
    graph = load_graph(write(tmp_path, **{"nodes-paper": bare}), options=none)
    assert graph.num_classes == 0


def test_ids_are_of_their_type(tmp_path):
    graph = load_graph(
        write(
            tmp_path,
            **{
                "nodes-paper": "id,label\n1,x\n2,y\n",
                "edges-writes": "author,paper\n2,1\n1,2\n",
                "citations": "source,target\n1,2\n",
            },
        )
    )
    assert graph.ids.tolist() == [1, 2]
    # Author 2 is named first, so it is node 2, and author 1 node 3.
    assert graph.only("writes").adjacency().toarray()[:2, 2:].tolist() == [[1, 0], [0, 1]]


@settings(max_examples=15)
@given(
    inputs=typed_inputs(weighted=True),
    kind=st.sampled_from(["csv", "parquet"]),
    text=st.booleans(),
)
def test_tables_are_the_graph_of_their_rows(tmp_path_factory, inputs, kind, text):
    folder = tmp_path_factory.mktemp("tables")
    toml = [f'target = "{inputs.target}"']

    def name(node_type, number):
        return f"{node_type} {number}" if text else 1000 - 3 * int(number)

    def save(table, stem):
        if kind == "csv":
            table.to_csv(folder / f"{stem}.csv", index=False)
        else:
            table.to_parquet(folder / f"{stem}.parquet")

    for node_type, count in inputs.num_nodes.items():
        table = pd.DataFrame({"id": [name(node_type, number) for number in range(count)]})
        if node_type == inputs.target:
            table["label"] = [f"class {label}" for label in inputs.labels]
        for column, values in enumerate(inputs.features.get(node_type, np.zeros((count, 0))).T):
            table[f"f{column}"] = values
        save(table, f"nodes-{node_type}")
        toml.append(f"[nodes.{node_type}]")
    for (source, relation, target), edges in inputs.relations.items():
        table = pd.DataFrame(
            {
                "source": pd.Series([name(source, i) for i in edges[0]], dtype=None),
                "target": pd.Series([name(target, i) for i in edges[1]], dtype=None),
            }
        )
        if not len(table):
            table = table.astype(str if text else "int64")
        weights = inputs.weights.get((source, relation, target))
        if weights is not None:
            table["weight"] = weights
        save(table, f"edges-{relation}")
        ends = f'source = "{source}"\nname = "{relation}"\ntarget = "{target}"'
        toml.append(f"[[edges]]\n{ends}")
    (folder / "graph.toml").write_text("\n".join(toml))
    found = load_graph(folder)
    expected = Graph.from_relations(**vars(inputs))
    assert found.fingerprint() == expected.fingerprint()
    assert found.ids.tolist() == [
        name(inputs.target, number) for number in range(found.num_targets)
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"citations": "source,target\np1,p9\n"},
            "row 1: the target is `p9`, which is not an id in",
        ),
        ({"citations": "source,target\np1,\n"}, "row 1: the target is empty, which is not an id"),
        ({"edges-writes": "author,paper\n,p1\n"}, "row 1: the author is empty; expected the id"),
        ({"edges-writes": "author\nanna\n"}, "has no column `target`"),
        ({"edges-writes": None}, "no table of the relation author:writes:paper"),
        ({"nodes-paper": None}, "no table of the nodes `paper`"),
        ({"citations": None}, "There is no file .*citations.csv"),
        ({"nodes-paper": "id,label\np1,x\np1,y\n"}, "the id `p1` twice"),
        ({"nodes-paper": "id,year\np1,1\n"}, "has no column `label`"),
        ({"nodes-paper": PAPERS.replace("2001", "old")}, "column `year` holds string"),
        ({"citations": CITATIONS.replace("0.5", "")}, "row 2: `weight` is missing"),
    ],
)
def test_bad_tables_are_refused_in_one_sentence(tmp_path, change, message):
    with pytest.raises(SourceError, match=message) as caught:
        load_graph(write(tmp_path, **change))
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('target = "paper"\n\n[nodes.paper]', "[nodes.paper]", "`target` in .* is missing"),
        ('target = "paper"\n\n', 'target = "book"\n\n', "is 'book'; expected one of the types"),
        ('target = "paper"\n\n', "target = [1]\n\n", r"is \[1\]; expected one of the types"),
        ("[nodes.author]", "", "between unknown types: there is no type `author`"),
        ("[nodes.author]", "[nodes.author]\n[nodes.venue]", "`venue` has neither a table"),
        ("[nodes.author]", '[nodes.author]\nlabel = "x"', "there is no setting `label`"),
        ("[nodes.author]", '[nodes.author]\nid = "x"', "no table of the nodes `author`"),
        ("[nodes.author]", '[nodes.author]\nfile = "a.csv"', "There is no file .*a.csv"),
        ("[nodes.author]", "[nodes.author]\nfile = 3", "`file` is 3; expected text"),
        ("[nodes.paper]", '[nodes.paper]\nfeatures = "x.npy"', "There is no file .*x.npy"),
        ("[nodes.paper]", '[nodes.paper]\nfeatures = ["z"]', "has no column `z`"),
        ("[nodes.paper]", '[nodes.paper]\nid = "z"', "has no column `z`"),
        ("[nodes.paper]", "[nodes.paper]\nfeatures = 3", "`features` is 3; expected text"),
        ('name = "writes"', "", "a relation has no `name`"),
        ('name = "writes"', 'name = "writes"\nweight = "z"', "has no column `z`"),
        ('name = "writes"', 'name = "writes"\ncolor = "z"', "there is no setting `color`"),
        ("[[edges]]", "[[edges]", "cannot be read"),
        (re.search(r"\[\[edges.*", TOML, re.S)[0], "", "has no relations"),
        (re.search(r"\[nodes.*", TOML, re.S)[0], "", "has no types of nodes"),
        (
            "[[edges]]",
            '[[edges]]\nsource="author"\nname="writes"\ntarget="paper"\n[[edges]]',
            "author:writes:paper twice",
        ),
    ],
)
def test_bad_descriptions_are_refused_in_one_sentence(tmp_path, old, new, message):
    assert old in TOML
    with pytest.raises(SourceError, match=message):
        load_graph(write(tmp_path, TOML.replace(old, new, 1)))


def test_two_tables_of_one_type_are_refused(tmp_path):
    folder = write(tmp_path, **{"nodes/paper": PAPERS})
    with pytest.raises(SourceError, match="There are both"):
        load_graph(folder)


def test_a_type_of_which_nothing_is_known_is_refused(tmp_path):
    toml = TOML.replace("[nodes.author]", "[nodes.author]\n[nodes.venue]")
    with pytest.raises(GraphError, match="`venue` has neither features nor edges"):
        load_graph(write(tmp_path, toml, **{"nodes-venue": "id\nv1\n"}))


def test_a_number_of_a_split_is_refused(tmp_path):
    with pytest.raises(SourceError, match="no numbered splits"):
        load_graph(write(tmp_path), split=1)
