import pickle

import numpy as np
import pytest
from tests.sources.readers.ogb_files import random_arrays, write_products

from scr.compute import resident_bytes
from scr.errors import GraphError, SourceError
from scr.sources import IngestOptions, load_graph

NODES = 30


@pytest.fixture
def store(tmp_path, random_graph):
    return random_graph(nodes=NODES).save(tmp_path / "store")


def write_features(path, dtype=np.float32, columns=6, nodes=NODES, seed=0):
    values = np.random.default_rng(seed).standard_normal((nodes, columns)).astype(dtype)
    np.save(path, values)
    return values


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_features_of_a_store_are_replaced_and_stay_on_disk_as_they_are(tmp_path, store, dtype):
    values = write_features(tmp_path / "x.npy", dtype)
    graph = load_graph(store, features=tmp_path / "x.npy")
    np.testing.assert_array_equal(graph.features, values)
    assert graph.features.dtype == dtype
    assert graph.features_file == (tmp_path / "x.npy").resolve()
    assert graph.steps[-1] == f"took features from x.npy: 30 x 6 of {np.dtype(dtype)}"
    plain = load_graph(store)
    assert plain.features_file is None
    np.testing.assert_array_equal(graph.train, plain.train)


def test_the_fingerprint_depends_on_the_features_alone(tmp_path, store):
    write_features(tmp_path / "x.npy", seed=0)
    write_features(tmp_path / "y.npy", seed=1)
    write_features(tmp_path / "again.npy", seed=0)
    graphs = [load_graph(store, features=tmp_path / f"{name}.npy") for name in ("x", "y", "again")]
    prints = [graph.fingerprint() for graph in graphs]
    assert prints[0] == prints[2]
    assert len({*prints, load_graph(store).fingerprint()}) == 3
    edges = {graph.fingerprint("edges", "labels", "splits") for graph in graphs}
    assert edges == {load_graph(store).fingerprint("edges", "labels", "splits")}


def test_features_and_splits_of_a_store_change_together(tmp_path, store):
    write_features(tmp_path / "x.npy")
    graph = load_graph(store, features=tmp_path / "x.npy", splits="per-class:2,2")
    assert graph.num_features == 6
    assert len(graph.train) == 6
    assert "took features" in graph.steps[-2]


def test_an_embedded_data_set_takes_other_features(tmp_path):
    write_features(tmp_path / "x.npy", nodes=1797)
    assert load_graph("digits", features=tmp_path / "x.npy").num_features == 6


def test_columns_may_come_first_on_disk(tmp_path, store):
    values = np.asfortranarray(np.arange(60.0, dtype=np.float32).reshape(NODES, 2))
    np.save(tmp_path / "x.npy", values)
    graph = load_graph(store, features=tmp_path / "x.npy")
    np.testing.assert_array_equal(graph.features, values)
    np.save(tmp_path / "c.npy", np.ascontiguousarray(values))
    same = load_graph(store, features=tmp_path / "c.npy")
    assert same.fingerprint() == graph.fingerprint()


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.bool_])
def test_whole_numbers_become_floats_and_still_know_their_file(tmp_path, store, dtype, monkeypatch):
    np.save(tmp_path / "x.npy", np.ones((NODES, 2), dtype))
    monkeypatch.chdir(tmp_path)
    graph = load_graph(store, features="x.npy")
    assert graph.features.dtype == np.float32
    assert graph.features_file == (tmp_path / "x.npy").resolve()
    assert graph.with_split(graph.train).features_file == graph.features_file


def test_the_name_of_the_file_is_not_part_of_the_fingerprint(tmp_path, store):
    np.save(tmp_path / "x.npy", np.asarray(load_graph(store).features))
    same = load_graph(store, features=tmp_path / "x.npy")
    assert same.fingerprint() == load_graph(store).fingerprint()


def test_the_features_of_an_ogb_folder_are_not_even_read(tmp_path):
    folder = write_products(tmp_path / "ogbn_products", random_arrays(nodes=NODES))
    (folder / "raw" / "node-feat.csv.gz").write_text("not gzip")
    values = write_features(tmp_path / "x.npy")
    options = IngestOptions(features=tmp_path / "x.npy")
    np.testing.assert_array_equal(load_graph(folder, options=options).features, values)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda p: np.save(p, np.ones((29, 2))), r"shape \(29, 2\); expected 30 rows"),
        (lambda p: np.save(p, np.ones(30)), r"shape \(30,\); expected 30 rows"),
        (lambda p: np.save(p, np.ones((30, 2, 2))), r"shape \(30, 2, 2\)"),
        (lambda p: np.save(p, np.ones((30, 0))), r"at least one column"),
        (lambda p: np.save(p, np.full((30, 1), "a")), r"holds <U1; expected numbers"),
        (lambda p: np.save(p, np.array([[{}]] * 30)), r"cannot be read as features"),
        (lambda p: p.write_bytes(pickle.dumps(np.ones((30, 2)))), r"not a .npy file"),
        (lambda p: p.write_text("1,2\n"), r"not a .npy file"),
        (lambda p: p.write_bytes(b"PK\x03\x04 an .npz under a wrong name"), r"not a .npy file"),
        (lambda p: p.write_bytes(b"\x93NUMPY\x01\x00"), r"cannot be read as features"),
        (lambda p: None, r"` does not exist; expected a .npy of features"),
    ],
)
def test_a_file_that_is_no_features_is_refused_in_one_sentence(tmp_path, store, write, message):
    path = tmp_path / "x.npy"
    write(path)
    with pytest.raises(SourceError, match=message) as caught:
        load_graph(store, features=path)
    assert "x.npy" in str(caught.value)


def test_values_that_are_not_finite_are_refused(tmp_path, store):
    values = write_features(tmp_path / "x.npy")
    values[3, 1] = np.nan
    np.save(tmp_path / "x.npy", values)
    with pytest.raises(GraphError, match="Feature 1 of node 3 is nan"):
        load_graph(store, features=tmp_path / "x.npy")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_hops_are_those_of_the_new_features(tmp_path, store, dtype):
    from scr.propagation import propagate

    values = write_features(tmp_path / "x.npy", dtype)
    graph = load_graph(store, features=tmp_path / "x.npy")
    hops = propagate(graph, 1, "row")
    degrees = graph.adjacency().sum(axis=1)
    expected = graph.adjacency() @ values.astype(np.float64) / np.maximum(degrees, 1)[:, None]
    np.testing.assert_allclose(hops.hop(1), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_store_holds_float64_as_float32_and_says_so(tmp_path, store, order):
    values = np.asarray(write_features(tmp_path / "x.npy", np.float64), order=order)
    np.save(tmp_path / "x.npy", values)
    graph = load_graph(store, features=tmp_path / "x.npy")
    again = load_graph(graph.save(tmp_path / "made"))
    assert again.features.dtype == np.float32
    np.testing.assert_array_equal(again.features, values.astype(np.float32))
    assert again.steps == (*graph.steps, "stored features as float32 instead of float64")
    assert again.fingerprint() == graph.fingerprint()
    assert load_graph(again.save(tmp_path / "copy")).steps == again.steps


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_store_holds_narrow_features_as_they_are(tmp_path, store, dtype):
    values = write_features(tmp_path / "x.npy", dtype)
    graph = load_graph(store, features=tmp_path / "x.npy")
    again = load_graph(graph.save(tmp_path / "made"))
    assert again.features.dtype == dtype
    np.testing.assert_array_equal(again.features, values)
    assert again.steps == graph.steps


def test_many_edges_make_no_difference_to_float64_features(tmp_path, monkeypatch):
    from scr.ingest import _ingest as ingesting

    folder = write_products(tmp_path / "ogbn_products", random_arrays(nodes=NODES))
    values = write_features(tmp_path / "x.npy", np.float64)
    options = IngestOptions(features=tmp_path / "x.npy")
    ingesting.ingest(folder, tmp_path / "usual", options)
    monkeypatch.setattr("scr.ingest._plan.LARGE_EDGES", 1)
    ingesting.ingest(folder, tmp_path / "streamed", options)
    for name in ("usual", "streamed"):
        graph = load_graph(tmp_path / name)
        assert graph.features.dtype == np.float32
        np.testing.assert_array_equal(graph.features, values.astype(np.float32))
        assert graph.steps[-1] == "stored features as float32 instead of float64"


def test_a_fingerprint_of_several_chunks_is_that_of_the_store(tmp_path, store, monkeypatch):
    from scr.storage import _manifest as manifest

    monkeypatch.setattr(manifest, "CHUNK_BYTES", 64)
    write_features(tmp_path / "x.npy", np.float64)
    graph = load_graph(store, features=tmp_path / "x.npy")
    assert load_graph(graph.save(tmp_path / "made")).fingerprint("features") == (
        graph.fingerprint("features")
    )


def test_numbers_too_large_for_float32_are_refused(tmp_path, store):
    values = write_features(tmp_path / "x.npy", np.float64)
    values[4, 2] = 1e300
    np.save(tmp_path / "x.npy", values)
    with pytest.raises(GraphError, match=r"Feature 2 of node 4 is 1e\+300; .*that fits float32"):
        load_graph(store, features=tmp_path / "x.npy")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_large_file_is_checked_and_hashed_without_being_held(tmp_path, random_graph, dtype):
    nodes = 1 << 14
    store = random_graph(nodes=nodes).save(tmp_path / "store")
    np.save(tmp_path / "x.npy", np.ones((nodes, 1 << 10), dtype))
    load_graph(store, features=tmp_path / "x.npy").fingerprint("features")  # whatever is imported
    before = resident_bytes()
    graph = load_graph(store, features=tmp_path / "x.npy")
    graph.fingerprint("features")
    assert resident_bytes() - before < graph.features.nbytes // 2
