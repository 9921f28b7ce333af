from __future__ import annotations

import json
import os

import numpy as np
import pytest
import scipy.sparse as sp

from scr.errors import StoreError
from scr.graph import Graph, open_store, write_store
from scr.storage import verify


def assert_same(found, expected):
    for name in ("indptr", "indices", "weights", "labels", "train", "valid", "test", "ids"):
        ours, theirs = getattr(found, name), getattr(expected, name)
        assert (ours is None) == (theirs is None), name
        if theirs is not None:
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs)
    for name in ("class_names", "name", "directed", "steps"):
        assert getattr(found, name) == getattr(expected, name)


def test_a_graph_comes_back_as_it_was(tmp_path, random_graph):
    graph = random_graph(weights=np.arange(200.0), class_names=["ä", "b", "c"])
    found = open_store(graph.save(tmp_path / "store"))
    assert_same(found, graph)
    np.testing.assert_array_equal(found.features, graph.features)
    assert found.path == tmp_path / "store"


@pytest.mark.parametrize("ids", [np.arange(60) * 10**10, [f"knoten-{i}-ß" for i in range(60)]])
def test_ids_come_back(tmp_path, random_graph, ids):
    graph = random_graph(ids=ids)
    assert open_store(graph.save(tmp_path / "store")).ids.tolist() == list(ids)


def test_sparse_features_stay_sparse_on_disk_and_back(tmp_path, random_graph):
    matrix = sp.random_array((60, 3000), density=0.01, format="csr", rng=np.random.default_rng(0))
    graph = random_graph(features=matrix)
    found = open_store(graph.save(tmp_path / "store"))
    assert isinstance(found.features, sp.csr_array)
    np.testing.assert_allclose(found.features.toarray(), matrix.toarray(), rtol=1e-6)
    assert not (tmp_path / "store" / "features.npy").exists()


def test_a_graph_without_features_labels_and_splits_comes_back(tmp_path):
    graph = Graph.from_edges([[0, 1, 2], [1, 2, 3]], undirected=False)
    found = open_store(graph.save(tmp_path / "store"))
    assert_same(found, graph)
    assert found.features is None


def test_arrays_are_memory_maps(tmp_path, random_graph):
    found = open_store(random_graph().save(tmp_path / "store"))
    assert isinstance(found.features, np.memmap)
    assert not found.indices.flags.writeable


@pytest.mark.parametrize("sparse", [False, True])
def test_the_fingerprint_is_that_of_the_graph_in_memory(tmp_path, random_graph, sparse):
    graph = random_graph()
    if sparse:
        graph = random_graph(features=sp.csr_array(graph.features))
    found = open_store(graph.save(tmp_path / "store"))
    assert found.fingerprint() == graph.fingerprint()
    other = found.with_split(found.train, found.valid)
    assert other.fingerprint() == graph.with_split(graph.train, graph.valid).fingerprint()


def test_the_fingerprint_of_a_store_reads_no_array(tmp_path, random_graph, monkeypatch):
    found = open_store(random_graph().save(tmp_path / "store"))
    monkeypatch.setattr("scr.graph._store.checksums", lambda _: pytest.fail("read an array"))
    found.fingerprint()


def test_a_changed_view_of_a_store_is_hashed_anew(tmp_path, random_graph):
    graph = random_graph()
    found = open_store(graph.save(tmp_path / "store"))
    object.__setattr__(found, "labels", found.labels[::-1])
    assert found.fingerprint() != graph.fingerprint()


def test_the_manifest_names_node_types_and_relations(tmp_path, random_graph):
    path = write_store(random_graph(), tmp_path / "store")
    metadata = json.loads((path / "manifest.json").read_text())["metadata"]
    assert [each["name"] for each in metadata["node_types"]] == ["node"]
    assert metadata["relations"][0]["source"] == metadata["target_type"] == "node"


def test_a_store_may_be_rewritten_from_itself(tmp_path, random_graph):
    path = random_graph().save(tmp_path / "store")
    graph = open_store(path)
    graph.with_split(graph.train, graph.valid).save(path, overwrite=True)
    assert len(open_store(path).test) == 0


def test_a_store_is_not_replaced_by_one_that_is_linked_to_its_features(tmp_path, random_graph):
    path = random_graph().save(tmp_path / "store")
    with pytest.raises(StoreError, match="is about to be replaced"):
        write_store(open_store(path), path, overwrite=True, link_features=True)
    verify(path)
    assert [each.name for each in tmp_path.iterdir()] == ["store"]


def test_a_truncated_store_is_told(tmp_path, random_graph):
    path = random_graph().save(tmp_path / "store")
    os.truncate(path / "indices.npy", 200)
    with pytest.raises(StoreError, match=r"indices\.npy` is truncated"):
        open_store(path)


def test_verify_finds_a_changed_byte(tmp_path, random_graph):
    path = random_graph().save(tmp_path / "store")
    verify(path)
    with (path / "features.npy").open("r+b") as stream:
        stream.seek(-1, os.SEEK_END)
        stream.write(b"\x7f")
    with pytest.raises(StoreError, match=r"features\.npy` has changed since it was written"):
        verify(path)
    with pytest.raises(StoreError, match=r"features\.npy` has changed since it was written"):
        open_store(path)


def test_a_store_with_two_types_of_one_name_is_refused(tmp_path, random_graph):
    path = random_graph().save(tmp_path / "store")
    content = json.loads((path / "manifest.json").read_text())
    content["metadata"]["node_types"] *= 2
    del content["metadata_checksum"]
    (path / "manifest.json").write_text(json.dumps(content))
    with pytest.raises(StoreError, match="does not describe its node types"):
        open_store(path)


AUTHOR_WRITES_PAPER = ("author", "writes", "paper")


def typed_graph(**changes):
    given = {
        "relations": {
            AUTHOR_WRITES_PAPER: [[0, 1, 1], [0, 0, 2]],
            ("paper", "cites", "paper"): [[0, 1, 2], [1, 2, 0]],
        },
        "features": {"paper": sp.csr_array(np.eye(3)), "author": np.arange(4.0).reshape(2, 2)},
        "num_nodes": {"author": 2, "paper": 3},
        "labels": ["x", "y", "x"], "train": [0], "valid": [1], "ids": ["p", "q", "r"],
        "target": "paper",
    }  # fmt: skip
    return Graph.from_relations(**(given | changes))


@pytest.mark.filterwarnings("ignore:.*no training label")
def test_a_typed_graph_comes_back_as_memory_maps_with_its_fingerprint(tmp_path, monkeypatch):
    graph = typed_graph(weights={AUTHOR_WRITES_PAPER: [1, 2, 3]})
    expected = graph.fingerprint()
    found = open_store(graph.save(tmp_path / "store"))
    assert_same(found, graph)
    assert isinstance(found.edge_types, np.memmap)
    np.testing.assert_array_equal(found.edge_types, graph.edge_types)
    assert found.relations == graph.relations
    assert list(found.node_types.items()) == [("paper", 3), ("author", 2)]
    assert isinstance(found.features, sp.csr_array)
    assert isinstance(found.other_features["author"], np.memmap)
    np.testing.assert_array_equal(found.other_features["author"], [[0, 1], [2, 3]])
    monkeypatch.setattr("scr.graph._store.checksums", lambda _: pytest.fail("read an array"))
    assert found.fingerprint() == expected
    verify(tmp_path / "store")


@pytest.mark.filterwarnings("ignore:.*no training label")
@pytest.mark.parametrize(
    "changes",
    [
        {  # another name
            "relations": {
                ("author", "edits", "paper"): [[0, 1, 1], [0, 0, 2]],
                ("paper", "cites", "paper"): [[0, 1, 2], [1, 2, 0]],
            }
        },
        {  # another order
            "relations": {
                ("paper", "cites", "paper"): [[0, 1, 2], [1, 2, 0]],
                AUTHOR_WRITES_PAPER: [[0, 1, 1], [0, 0, 2]],
            }
        },
        {  # an edge of another relation
            "relations": {
                AUTHOR_WRITES_PAPER: [[0, 1, 1], [0, 0, 2]],
                ("paper", "cites", "paper"): [[0, 1], [1, 2]],
                ("paper", "extends", "paper"): [[2], [0]],
            }
        },
        {"num_nodes": {"author": 3, "paper": 3}, "features": {}},
        {"features": {"paper": sp.csr_array(np.eye(3))}},
    ],
)
def test_fingerprints_of_typed_graphs_tell_them_apart(changes):
    plain = {"features": {}} if changes.get("features") == {} else {}
    assert typed_graph(**changes).fingerprint() != typed_graph(**plain).fingerprint()


@pytest.mark.filterwarnings("ignore:.*no training label")
def test_the_code_of_an_edge_is_part_of_the_fingerprint():
    graph = typed_graph()
    codes = graph.edge_types.copy()
    codes[0] = 1 - codes[0]
    other = typed_graph()
    object.__setattr__(other, "edge_types", codes)
    assert other.fingerprint("edges") != graph.fingerprint("edges")
    assert other.fingerprint("features") == graph.fingerprint("features")


@pytest.mark.filterwarnings("ignore:.*no training label")
@pytest.mark.parametrize(
    ("key", "value"),
    [("target_type", "author"), ("target_type", "book"), ("relations", [])],
)
def test_a_store_whose_types_do_not_fit_is_refused(tmp_path, key, value):
    path = typed_graph().save(tmp_path / "store")
    content = json.loads((path / "manifest.json").read_text())
    content["metadata"][key] = value
    del content["metadata_checksum"]
    (path / "manifest.json").write_text(json.dumps(content))
    with pytest.raises(StoreError, match="does not describe its node types"):
        open_store(path)
