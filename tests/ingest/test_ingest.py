import dataclasses

import numpy as np
import pytest
from tests.sources.readers.ogb_files import random_arrays, write_papers, write_products

from scr.errors import GraphError, MemoryBudgetError, SourceError
from scr.graph import open_store
from scr.ingest import _plan as ingest_plan
from scr.ingest import ingest, plan_of
from scr.sources import IngestOptions, load_graph
from scr.storage import verify as verify_store


@pytest.fixture
def through_disk(monkeypatch):
    monkeypatch.setattr(ingest_plan, "LARGE_EDGES", 1)
    monkeypatch.setattr(ingest_plan, "LARGEST_CHUNK", 16)


@pytest.mark.parametrize("write", [write_products, write_papers])
@pytest.mark.parametrize("splits", [None, "per-class:2,2"])
def test_edges_through_disk_make_the_store_that_memory_makes(tmp_path, monkeypatch, write, splits):
    folder = write(tmp_path / "ogbn_toy", random_arrays(unlabeled=3))
    options = IngestOptions(splits=splits)
    expected = ingest(folder, tmp_path / "memory", options)
    monkeypatch.setattr(ingest_plan, "LARGE_EDGES", 1)
    monkeypatch.setattr(ingest_plan, "LARGEST_CHUNK", 16)
    made = ingest(folder, tmp_path / "disk", options)
    assert made.fingerprint() == expected.fingerprint()
    assert made.class_names == expected.class_names
    assert made.steps == expected.steps
    assert made.steps[0] == "read 60 edges of 30 nodes"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["disk", "memory", "ogbn_toy"]
    verify_store(tmp_path / "disk")


def test_features_from_a_file_reach_the_store(tmp_path, through_disk):
    folder = write_products(tmp_path / "ogbn_toy", random_arrays())
    values = np.random.default_rng(0).standard_normal((30, 2)).astype(np.float16)
    np.save(tmp_path / "x.npy", values)
    ingest(folder, tmp_path / "store", IngestOptions(features=tmp_path / "x.npy"))
    np.testing.assert_array_equal(open_store(tmp_path / "store").features, values)


@pytest.mark.parametrize("name", ["symmetrize", "drop_self_loops"])
def test_options_of_edges_make_no_difference_to_it(tmp_path, through_disk, name):
    folder = write_products(tmp_path / "ogbn_toy", random_arrays())
    options = dataclasses.replace(IngestOptions(), **{name: False})
    made, expected = ingest(folder, tmp_path / name, options), load_graph(folder, options=options)
    assert made.fingerprint() == expected.fingerprint()
    assert made.steps == expected.steps
    assert made.directed is expected.directed


def test_counting_duplicates_goes_through_memory_or_is_refused(tmp_path, through_disk):
    folder = write_products(tmp_path / "ogbn_toy", random_arrays())
    options = IngestOptions(drop_duplicates=False)
    graph = ingest(folder, tmp_path / "store", options)
    assert graph.fingerprint() == load_graph(folder, options=options).fingerprint()
    with pytest.raises(MemoryBudgetError, match="to count them, which works in memory only"):
        ingest(folder, tmp_path / "other", options, memory="10MiB")


def test_bad_edges_and_finished_graphs_leave_nothing(tmp_path, through_disk):
    arrays = random_arrays()
    arrays.edges[0, 50] = 30
    folder = write_products(tmp_path / "ogbn_toy", arrays)
    with pytest.raises(GraphError, match=r"Edge 50 goes from node 30"):
        ingest(folder, tmp_path / "store", IngestOptions())
    with pytest.raises(SourceError, match="only the splits"):
        ingest("digits", tmp_path / "store", IngestOptions(symmetrize=False))
    assert [path.name for path in tmp_path.iterdir()] == ["ogbn_toy"]


@pytest.fixture
def typed_tables(tmp_path):
    """A folder of two types, with the features of papers in a file of their own."""
    folder = tmp_path / "tables"
    folder.mkdir()
    np.save(folder / "x.npy", np.arange(8, dtype=np.float32).reshape(4, 2))
    (folder / "graph.toml").write_text(
        'target = "paper"\n[nodes.paper]\nfeatures = "x.npy"\n[nodes.author]\n'
        '[[edges]]\nsource = "author"\nname = "writes"\ntarget = "paper"\n'
    )
    (folder / "nodes-paper.csv").write_text("id,label\na,x\nb,y\nc,x\nd,y\n")
    (folder / "edges-writes.csv").write_text("author,paper\n1,a\n1,b\n2,c\n2,d\n")
    return folder


@pytest.mark.parametrize("link", [False, True])
def test_typed_tables_become_a_store_with_features_copied_or_linked(tmp_path, typed_tables, link):
    options = IngestOptions(splits="per-class:1,0")
    made = ingest(typed_tables, tmp_path / "store", options, link=link)
    expected = load_graph(typed_tables, options=options)
    assert made.fingerprint() == open_store(tmp_path / "store").fingerprint()
    assert made.fingerprint() == expected.fingerprint()
    assert (tmp_path / "store" / "features.npy").exists() != link
    assert made.steps == expected.steps
    verify_store(tmp_path / "store")


def test_the_plan_of_a_typed_source_says_that_it_goes_through_memory(tmp_path, typed_tables):
    plan = plan_of(typed_tables, tmp_path / "store", IngestOptions())
    assert plan.method == "memory"
    assert plan.note.startswith("A graph of several types")
    assert f"{plan.memory_bytes:,} bytes" in plan.note
    with pytest.raises(
        MemoryBudgetError, match="4 edges of several relations, which works in memory"
    ):
        ingest(typed_tables, tmp_path / "store", IngestOptions(), memory="32MiB")
    assert not (tmp_path / "store").exists()


def test_features_of_a_typed_source_that_are_columns_cannot_be_linked(tmp_path, typed_tables):
    toml = (typed_tables / "graph.toml").read_text().replace('features = "x.npy"\n', "")
    (typed_tables / "graph.toml").write_text(toml)
    with pytest.raises(SourceError, match="cannot be linked: they are missing"):
        ingest(typed_tables, tmp_path / "store", IngestOptions(), link=True)
    given = IngestOptions(features=typed_tables / "x.npy")
    made = ingest(typed_tables, tmp_path / "store", given, link=True)
    np.testing.assert_array_equal(made.features, np.load(typed_tables / "x.npy"))
