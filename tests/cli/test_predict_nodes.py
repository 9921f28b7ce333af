"""`scr predict --nodes`: known nodes by their ids, and tables of new nodes."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from scr.classifier import NodeClassifier
from scr.cli import app
from scr.errors import GraphError, RunError, SCRError
from scr.graph import Graph
from scr.prediction import NodeIds, is_table_of_nodes, named_nodes
from scr.tables import TableOptions, read_table_graph

COLORS = ("red", "green", "blue")


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A run trained from two tables, as `scr fit` leaves it."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 3, 60)
    nodes = pd.DataFrame(
        {
            "id": [f"item{number}" for number in range(60)],
            "price": kinds * 2.0 + rng.random(60),
            "color": [COLORS[kind] for kind in kinds],
            "label": [("toy", "tool", "book")[kind] for kind in kinds],
        }
    )
    ends = rng.integers(0, 60, (150, 2))
    edges = pd.DataFrame(
        {"source": nodes["id"].to_numpy()[ends[:, 0]], "target": nodes["id"].to_numpy()[ends[:, 1]]}
    )
    nodes.to_csv("nodes.csv", index=False)
    edges.to_csv("edges.csv", index=False)
    read = read_table_graph("nodes.csv", "edges.csv", TableOptions())
    graph = read.graph.with_split(np.arange(20), np.arange(20, 40), np.arange(40, 60))
    store = graph.save("shop-store")
    classifier = NodeClassifier(
        {"name": "sign", "hidden": 8}, "none", preset="none", epochs=20
    ).fit(graph)  # fmt: skip
    run = classifier.save("run", source=str(store))
    read.preparation.save(run)
    pd.DataFrame(
        {
            "id": ["kite", "saw"],
            "color": ["red", "green"],
            "price": [0.5, 2.5],
            "shelf": [1, 2],
        }
    ).to_csv("new.csv", index=False)
    pd.DataFrame(
        {"source": ["kite", "item3", "saw"], "target": ["item0", "kite", "kite"]}
    ).to_csv("new_edges.csv", index=False)  # fmt: skip
    return classifier, read


def run_command(*arguments):
    result = CliRunner().invoke(app, ["predict", "run", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def expected_of_new(classifier, read):
    """From the features of both tables in one graph, made by hand."""
    table = pd.read_csv("new.csv")[["price", "color"]]
    features = read.preparation.transform(pa.Table.from_pandas(table, preserve_index=False))
    graph = read.graph
    sources = np.repeat(np.arange(60), np.diff(graph.indptr))
    known = np.stack([sources, graph.indices])
    pairs = np.array([[60, 60, 61], [0, 3, 60]])
    whole = Graph.from_edges(
        np.concatenate([known, pairs], axis=1),
        features=np.concatenate([graph.features, features]),
    )
    return classifier.predict_proba([60, 61], graph=whole)


def test_tables_of_new_nodes_are_prepared_as_the_run_was(shop):
    output = run_command("--nodes", "new.csv", "--edges", "new_edges.csv", "--out", "new.parquet")
    table = pq.read_table("new.parquet").to_pydict()
    assert table["id"] == ["kite", "saw"]
    expected = expected_of_new(*shop)
    names = shop[1].graph.class_names
    found = np.column_stack([table[f"probability_{name}"] for name in names])
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert "2 new nodes" in output
    assert "shelf" in output  # a column that the model does not know


def test_the_suffix_names_the_format(shop):
    run_command("--nodes", "new.csv", "--edges", "new_edges.csv", "--out", "new.csv.json")
    rows = json.loads(Path("new.csv.json").read_text(encoding="utf-8"))
    assert [row["id"] for row in rows] == ["kite", "saw"]


def test_changed_nodes_are_added(shop):
    output = run_command(
        "--nodes", "new.csv", "--edges", "new_edges.csv", "--changed", "--out", "a.parquet"
    )
    ids = pq.read_table("a.parquet")["id"].to_pylist()
    assert ids[:2] == ["kite", "saw"]
    assert "item0" in ids
    assert f"{len(ids) - 2:,} known ones" in output


def test_new_nodes_without_edges_and_with_sets(shop):
    run_command("--nodes", "new.csv", "--coverage", "0.8", "--out", "a.parquet")
    assert pq.read_table("a.parquet").num_rows == 2
    assert "prediction_set" in pq.read_table("a.parquet").column_names


@pytest.mark.parametrize(
    ("name", "content"),
    [("ids.txt", "item7\nitem3\n"), ("ids.csv", "id\nitem7\nitem3\n"), (None, "item7,item3")],
)
def test_known_nodes_are_named_by_their_ids(shop, tmp_path, name, content):
    if name is not None:
        (tmp_path / name).write_text(content, encoding="utf-8")
    run_command("--nodes", name or content, "--out", "known.parquet")
    table = pq.read_table("known.parquet")
    assert table["id"].to_pylist() == ["item7", "item3"]
    np.testing.assert_allclose(
        table["confidence"], shop[0].predict_proba(["item7", "item3"]).max(axis=1), atol=1e-6
    )


def test_numbers_in_a_file_stay(shop):
    np.save("some.npy", np.array([5, 9]))
    run_command("--nodes", "some.npy", "--out", "known.parquet")
    assert pq.read_table("known.parquet")["id"].to_pylist() == ["item5", "item9"]


WRONG = {
    "unknown id": (["--nodes", "item1,item99"], "The id `item99` is not one of the graph"),
    "no file": (["--nodes", "missing.csv"], "There is no file `missing.csv`"),
    "edges alone": (["--edges", "new_edges.csv"], "a table of new nodes"),
    "changed alone": (["--nodes", "item1", "--changed"], "expected a table of new nodes"),
    "columns": (["--nodes", "new_edges.csv"], "has no column `id`"),
    "a graph too": (["--nodes", "new.csv", "--graph", "shop-store"], "neither `--graph`"),
    "suffix": (["--nodes", "item1", "--out", "out.xls"], "ends in one of"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_is_said_in_a_sentence_and_nothing_is_written(shop, tmp_path, name):
    arguments, message = WRONG[name]
    out = [] if "--out" in arguments else ["--out", "out.parquet"]
    result = CliRunner().invoke(app, ["predict", "run", *arguments, *out])
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
    assert "Traceback" not in result.output
    assert not list(tmp_path.glob("out.*"))


def test_a_run_without_tables_says_so(shop, tmp_path):
    (tmp_path / "run" / "preparation.json").unlink()
    result = CliRunner().invoke(app, ["predict", "run", "--nodes", "new.csv", "--out", "o.parquet"])
    assert result.exit_code == 2
    assert "does not know how columns of a table become features" in result.output


def test_python_takes_the_same_tables(shop):
    classifier = NodeClassifier.load("run")
    expected = expected_of_new(*shop)
    frame, edges = pd.read_csv("new.csv"), pd.read_csv("new_edges.csv")
    for nodes, listed in (("new.csv", "new_edges.csv"), (frame, edges), (frame, edges.to_numpy())):
        made = classifier.predict_new(nodes, listed)
        np.testing.assert_allclose(made.probabilities, expected, atol=1e-5)
    with pytest.raises(SCRError, match="columns of the tables"):
        classifier.predict_new(frame, edges, ids=["a", "b"])
    with pytest.raises(RunError, match="features as numbers"):
        shop[0].predict_new(frame, edges)


def test_ids_of_numbers_are_read_from_text():
    ids = NodeIds(np.array([10, 30, 20]), 3, np.zeros(0, np.int64))
    assert ids.numbers(["20", 10]).tolist() == [2, 0]
    assert ids.lookup(["020", "2e1", 20.5, True, None, 10**30]).tolist() == [-1] * 6
    with pytest.raises(GraphError, match="The ids `1`, `2`, `3`, `4`, `5` and 2 more are not ids"):
        ids.numbers(range(1, 8))


def test_a_heading_is_no_id_unless_it_is_one(tmp_path):
    file = tmp_path / "list.csv"
    file.write_text("node\na\n", encoding="utf-8")
    for known, expected in ((["a", "b"], [0]), (["a", "node"], [1, 0])):
        ids = NodeIds(np.array(known), 2, np.zeros(0, np.str_))
        assert named_nodes(str(file), ids).tolist() == expected
    assert not is_table_of_nodes(str(file))
    for line in ("id,price", "id;price", "id\tprice"):
        file.write_text(f"{line}\n", encoding="utf-8")
        assert is_table_of_nodes(str(file))
    file.write_text("\n", encoding="utf-8")
    with pytest.raises(SCRError, match="names no nodes"):
        named_nodes(str(file), ids)
