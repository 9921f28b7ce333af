"""Stores that are damaged, or were made by a stranger, are refused before they are used."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from tests.campaigns import examples
from tests.conftest import make_random_graph
from tests.forging import alter_metadata, flip, forge
from typer.testing import CliRunner

from scr.cli import app
from scr.errors import GraphError, StoreError
from scr.graph import Graph, open_store
from scr.storage import _verified as verified


def typed_graph() -> Graph:
    """Every array that a store may have, but features of the target that are dense."""
    generator = np.random.default_rng(0)
    papers, authors, venues = 12, 5, 3
    return Graph.from_relations(
        {
            ("author", "writes", "paper"): generator.integers(0, [[authors], [papers]], (2, 20)),
            ("paper", "in", "venue"): generator.integers(0, [[papers], [venues]], (2, 12)),
        },
        features={
            "paper": sp.random_array((papers, 6), density=0.4, rng=generator, format="csr"),
            "author": generator.standard_normal((authors, 4)).astype(np.float16),
            "venue": sp.csr_array(np.eye(venues)),
        },
        weights={("author", "writes", "paper"): generator.random(20)},
        num_nodes={"paper": papers, "author": authors, "venue": venues},
        labels=np.arange(papers) % 2, train=[0, 1, 2], valid=[3, 4], test=[5, 6, 7],
        ids=[f"p{number}" for number in range(papers)], target="paper",
    )  # fmt: skip


def several_targets() -> Graph:
    labels = np.array([[0, 1], [1, 0], [1, 1], [0, -1], [-1, -1]])
    return Graph.from_edges(
        [[0, 1, 2], [1, 2, 3]], num_nodes=5, labels=labels, train=[0, 1, 2], valid=[3],
        features=np.eye(5, dtype=np.float32), ids=[5, 6, 7, 8, 9],
    )  # fmt: skip


GRAPHS = {"plain": make_random_graph, "typed": typed_graph, "targets": several_targets}


@pytest.fixture(scope="module", params=GRAPHS)
def stored(request, tmp_path_factory):
    """A store of each kind; damage is put into copies of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return GRAPHS[request.param]().save(tmp_path_factory.mktemp("stores") / request.param)


def content_of(path):
    """The bytes of every array of a store that opens."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = open_store(path)
    arrays = [getattr(graph, name) for name in ("indptr", "indices", "labels", "train", "valid")]
    return [np.asarray(array).tobytes() for array in arrays], graph.fingerprint()


@examples(60)
@given(data=st.data())
def test_damage_anywhere_is_refused_or_without_effect(stored, tmp_path_factory, data):
    expected = content_of(stored)
    path = shutil.copytree(stored, tmp_path_factory.mktemp("copy") / "store")
    file = data.draw(st.sampled_from(sorted(path.glob("*.npy"))))
    size = file.stat().st_size
    damage = data.draw(st.sampled_from(["flip", "flip data", "truncate", "swap"]))
    header = size - np.load(file).nbytes
    if damage == "flip":
        flip(file, data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, 7)))
    elif damage == "flip data" and size > header:
        flip(file, data.draw(st.integers(header, size - 1)), data.draw(st.integers(0, 7)))
    elif damage == "truncate":
        with file.open("r+b") as stream:
            stream.truncate(data.draw(st.integers(0, size - 1)))
    else:
        array = np.load(file)
        np.save(file, array[::-1].copy())
    problem = None
    try:
        found = content_of(path)
    except (StoreError, GraphError) as error:
        problem = error.message
    if problem is None:
        assert found == expected
    else:
        assert file.name in problem
        assert "\n" not in problem


def wrong_numbers(name, array):
    """Numbers that an array of a store may not hold; others are left out."""
    info = np.iinfo(array.dtype) if array.dtype.kind in "iu" else None
    stem = name.partition(".")[0]
    if stem in ("features", "features_data", "weights"):
        return [np.nan, np.inf, -np.inf] + ([-1] if stem == "weights" else [])
    if stem == "edge_types":
        return [4, info.max]
    if stem == "labels":
        return [-2, 3, info.max, info.min]
    return [info.max, info.min, -1]


@examples(80)
@given(data=st.data())
def test_a_number_out_of_range_is_refused_though_checksums_agree(stored, tmp_path_factory, data):
    names = sorted(file.stem for file in stored.glob("*.npy"))
    name = data.draw(st.sampled_from(names))
    array = np.load(stored / f"{name}.npy")
    if name == "ids" or array.size == 0:
        return
    position = data.draw(st.integers(0, array.size - 1))
    value = data.draw(st.sampled_from(wrong_numbers(name, array)))
    array.reshape(-1)[position] = value
    path = shutil.copytree(stored, tmp_path_factory.mktemp("copy") / "store")
    file = forge(path, name, array)
    place = f"at position {position}"
    if array.ndim == 2:
        row, column = divmod(position, array.shape[1])
        place = f"in row {row}, column {column}"
    # A number that is too small or too large also breaks the order; the range is named.
    shown = array.reshape(-1)[position]
    for _ in range(2):  # what was refused is refused again
        with pytest.raises(StoreError) as error:
            open_store(path)
        assert f"`{file}` holds {shown} {place}; expected a " in error.value.message
        assert "\n" not in error.value.message


def forged(tmp_path, name, change, graph=None):
    path = (graph or make_random_graph()).save(tmp_path / "store")
    array = np.load(path / f"{name}.npy")
    forge(path, name, change(array))
    return path


def with_item(position, value):
    def change(array):
        array[position] = value
        return array

    return change


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("indices", with_item(3, 60), "holds 60 at position 3; expected a number from 0 to 59"),
        ("indptr", with_item(0, 1), "holds 1 at position 0; expected 0"),
        ("indptr", with_item(7, 0), "holds 0 at position 7; expected at least"),
        ("indptr", with_item(-1, 0), "holds 0 at position 60; expected at least"),
        ("train", lambda a: a[[0, 0, *range(1, len(a))]], "at position 1; expected more than 0"),
        ("train", lambda a: a[::-1].copy(), "at position 1; expected more than"),
        ("labels", with_item(5, 3), "holds 3 at position 5; expected a number from -1 to 2"),
        ("labels", with_item(0, -1), "train.npy` holds node 0, whose label is unknown"),
        ("features", with_item((4, 2), np.nan), "holds nan in row 4, column 2; expected a finite"),
        ("labels", lambda a: a[:-1], "holds int64 of shape (59,); expected int64 or"),
        ("labels", lambda a: a.astype(np.float64), "holds float64 of shape (60,); expected int64"),
        ("labels", lambda a: a.astype(">i8"), "holds >i8 of shape (60,); expected int64"),
        ("features", lambda a: a[:, :-1].copy(), "of shape (60, 7); expected float32 or float16"),
        ("indices", lambda a: a[:-1].copy(), "indptr.npy` holds"),
        ("indices", lambda a: a[:, None], "of shape"),
        ("indptr", lambda a: a[:-1].copy(), "of shape (60,); expected int64 of shape (61,)"),
    ],
)
def test_a_forged_store_is_one_sentence(tmp_path, name, change, said):
    path = forged(tmp_path, name, change)
    with pytest.raises(StoreError) as error:
        open_store(path)
    assert said in error.value.message
    assert ".npy`" in error.value.message


def test_the_last_offset_is_the_number_of_edges(tmp_path):
    path = make_random_graph().save(tmp_path / "store")
    indptr, edges = np.load(path / "indptr.npy"), len(np.load(path / "indices.npy"))
    indptr[-1] -= 1
    forge(path, "indptr", np.minimum(indptr, indptr[-1]))
    with pytest.raises(StoreError, match=f"holds {edges - 1} at position 60; expected {edges}"):
        open_store(path)


def test_splits_that_share_a_node_are_refused(tmp_path):
    graph = make_random_graph()
    path = graph.save(tmp_path / "store")
    forge(path, "valid", np.union1d(graph.valid, graph.train[:1]))
    with pytest.raises(StoreError, match=r"valid\.npy` holds node 0, which is in the train split"):
        open_store(path)


def test_the_order_of_splits_is_compared_across_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(verified, "_PIECE_BYTES", 32)
    path = make_random_graph().save(tmp_path / "store")
    train = np.load(path / "train.npy")
    train[4] = train[3]  # the first number of the second piece
    forge(path, "train", train)
    with pytest.raises(StoreError, match="holds 3 at position 4; expected more than 3"):
        open_store(path)


def test_text_that_is_none_is_refused(tmp_path):
    graph = make_random_graph(ids=[f"n{number}" for number in range(60)])
    path = graph.save(tmp_path / "store")
    ids = np.load(path / "ids.npy")
    ids.view(np.uint32)[7] = 0x110000
    forge(path, "ids", ids)
    with pytest.raises(StoreError, match=r"ids\.npy` holds 1114112 at position 7"):
        open_store(path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("class_names", "abc"), ("class_names", [1, 2, 3]), ("steps", None),
        ("node_types", [{"name": "node", "nodes": -1, "features": 8, "sparse_features": False}]),
        ("node_types", [{"name": "node", "nodes": "many", "features": 8}]), ("node_types", 7),
        ("relations", [{"name": "e", "source": "x", "target": "y", "directed": False}]),
        ("target_type", None),
    ],
)  # fmt: skip
def test_metadata_that_describe_no_graph_are_refused(tmp_path, key, value):
    path = make_random_graph().save(tmp_path / "store")
    alter_metadata(path, **{key: value})
    with pytest.raises(StoreError, match="does not describe its node types and relations"):
        open_store(path)


def test_a_store_is_opened_without_reading_it_and_a_copy_is_read_once(
    stored, tmp_path, monkeypatch
):
    names, look_at = [], verified._look_at

    def counted(name, *rest):
        names.append(name)
        return look_at(name, *rest)

    monkeypatch.setattr(verified, "_look_at", counted)
    content_of(stored)
    assert names == []
    copy = shutil.copytree(stored, tmp_path / "copy")
    content_of(copy)
    arrays = json.loads((copy / "manifest.json").read_text())["arrays"]
    assert sorted(names) == sorted(name for name, each in arrays.items() if each["bytes"])
    names.clear()
    content_of(copy)
    assert names == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"indices": np.array([1, 9], np.int32)}, "`indices` of the graph holds 9 at position 1"),
        ({"features": np.full((2, 1), np.nan)}, "holds nan in row 0, column 0"),
        ({"features": np.full((2, 1), 1e300)}, "holds inf in row 0, column 0"),
        ({"labels": np.array([0, 5])}, "holds 5 at position 1"),
    ],
)
def test_a_graph_that_no_store_may_hold_is_not_written(tmp_path, changes, said):
    given = {"indptr": np.array([0, 1, 2]), "indices": np.array([1, 0], np.int32),
             "labels": np.zeros(2, np.int64), "class_names": ("a",)}  # fmt: skip
    with pytest.raises(GraphError, match=said):
        Graph(**(given | changes)).save(tmp_path / "store")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "is_forged"),
    [
        ("train", True), ("propagate", True),
        pytest.param("train", False, marks=pytest.mark.stress),
        pytest.param("train --encoder gcn", True, marks=pytest.mark.stress),
        pytest.param("train --encoder graphsage", True, marks=pytest.mark.stress),
    ],
)  # fmt: skip
def test_an_index_far_outside_is_an_error_and_not_a_crash(tmp_path, command, is_forged):
    path = make_random_graph().save(tmp_path / "store")
    indices = np.load(path / "indices.npy")
    indices[17] = 2**31 - 1
    if is_forged:
        forge(path, "indices", indices)
    else:
        np.save(path / "indices.npy", indices)
    name, *options = command.split()
    out = ["--out", str(tmp_path / "run")] if name == "train" else []
    program = "import sys; from scr.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, name, str(path), *options, *out],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    said = "holds 2147483647 at position 17; expected a number from 0 to 59"
    shown = " ".join(done.stderr.split())
    assert (said if is_forged else "has changed since it was written") in shown
    assert not (tmp_path / "run").exists()


def run(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


def test_verify_says_what_it_read(tmp_path):
    path = make_random_graph().save(tmp_path / "store")
    assert run("propagate", path, "--hops", 1).exit_code == 0
    assert run("propagate", path, "--hops", 1, "--rows", "labeled").exit_code == 0
    done = run("verify", path)
    assert done.exit_code == 0, done.output
    shown = " ".join(done.stdout.split())
    assert "store is intact: 7 arrays with every number in its range" in shown
    assert "every checksum agrees" in shown
    (hops,) = (path / "hops").iterdir()
    assert f"{hops.name} is intact: 1 arrays" in shown
    flip(hops / "hops.npy", -1)
    damaged = run("verify", path)
    assert damaged.exit_code == 2
    assert "hops.npy` has changed" in " ".join(damaged.stderr.split())


def test_verify_reads_though_nothing_changed(tmp_path):
    path = make_random_graph().save(tmp_path / "store")
    features = np.load(path / "features.npy")
    features[0] = np.nan
    forge(path, "features", features)
    verified.vouch(path)  # as if all were well
    done = run("verify", path)
    assert done.exit_code == 2
    assert "holds nan in row 0, column 0" in " ".join(done.stderr.split())
