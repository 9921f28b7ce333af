"""Small files that ask for more than there is, and files that are none."""

import contextlib
import gzip
import os
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from tests.sources import corpus
from tests.sources.readers.ogb_files import random_arrays, write_arxiv, write_csv

from scr.compute import resident_bytes
from scr.errors import MemoryBudgetError, SCRError, SourceError
from scr.features import open_features
from scr.ingest import ingest
from scr.sources import IngestOptions, load_graph, read_arrow_file, read_parquet
from scr.storage import reading_within
from scr.tables import read_any_table, read_table_graph

pytestmark = pytest.mark.filterwarnings("ignore:.*no training label")

LARGE = 1 << 26
"""Bytes that no file here has, and that all of them declare."""


@pytest.fixture
def little_memory():
    """As many bytes free as a quarter of what the files declare."""
    with reading_within(resident_bytes() + LARGE // 4):
        yield


def tables(folder, **columns):
    nodes = pa.table(columns)
    pyarrow.parquet.write_table(nodes, folder / "nodes.parquet")
    (folder / "edges.csv").write_text("source,target\n0,1\n")
    return folder


def packed_text(path):
    path.write_bytes(gzip.compress(b"id,label\n" + b"0,x\n" * (LARGE // 4)))
    return path


def packed_table(path, write, rows=None):
    rows = pa.array(np.zeros(LARGE, np.uint8)) if rows is None else rows
    write(pa.table({"id": rows}), path)
    return path


def test_no_table_unpacks_beyond_the_memory(tmp_path, little_memory):
    zstd = {"compression": "zstd"}
    text = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(LARGE // 1000, np.int32)), ["x" * 1000]
    )  # which becomes one long column of text
    for path in (
        packed_text(tmp_path / "a.csv.gz"),
        packed_table(
            tmp_path / "a.feather", lambda t, p: pyarrow.feather.write_feather(t, p, **zstd)
        ),
        packed_table(tmp_path / "a.parquet", pyarrow.parquet.write_table),
        packed_table(tmp_path / "b.parquet", pyarrow.parquet.write_table, text),
    ):
        assert path.stat().st_size < 1 << 18
        with pytest.raises(MemoryBudgetError, match="the budget is"):
            read_any_table(path)


def test_a_small_npz_is_refused_under_a_small_memory(tmp_path):
    path = tmp_path / "bomb.npz"
    np.savez_compressed(
        path, edge_index=np.array([[0], [1]]), x=np.zeros((2, LARGE // 8), np.float32)
    )
    assert path.stat().st_size < 1 << 17
    before = resident_bytes()
    with pytest.raises(MemoryBudgetError, match=r"`x` in `.*bomb.npz` takes"):
        ingest(path, tmp_path / "store", IngestOptions(), memory=before + LARGE // 16)
    assert resident_bytes() < before + LARGE // 16
    assert not (tmp_path / "store").exists()


def test_counts_that_files_only_declare_allocate_nothing(tmp_path):
    folder = write_arxiv(tmp_path / "ogb", random_arrays())
    for file, message in (("num-node-list", "cannot have"), ("num-edge-list", "cannot have")):
        path = folder / "raw" / f"{file}.csv.gz"
        content = path.read_bytes()
        write_csv(path, [10**15])
        with pytest.raises(SourceError, match=message):
            load_graph(folder)
        path.write_bytes(content)
    (tmp_path / "typed").mkdir()
    path = corpus.typed_bundle(tmp_path / "typed")
    arrays = dict(np.load(path)) | {"num_nodes": np.array([6, 10**15])}
    np.savez(path, **arrays)
    with pytest.raises(MemoryBudgetError, match="nodes takes"):
        load_graph(path)
    np.savez(tmp_path / "far.npz", edge_index=np.array([[0], [2**50]]))
    with pytest.raises(MemoryBudgetError, match="nodes takes"):
        load_graph(tmp_path / "far.npz")


def test_a_sparse_matrix_that_declares_any_number_of_columns_is_refused(tmp_path):
    path = corpus.sparse_bundle(tmp_path)
    arrays = dict(np.load(path))
    for shape in ([6, 2**60], [6, -1], [-1, 3], [np.inf, 3]):
        np.savez(path, **(arrays | {"x_shape": np.array(shape)}))
        with pytest.raises(SCRError, match=r"columns|sparse matrix|shape"):
            load_graph(path)
    unsigned = arrays["x_indptr"].astype(np.uint64)
    unsigned[2], unsigned[3] = unsigned[3] + 1, unsigned[2]
    np.savez(path, **(arrays | {"x_indptr": unsigned}))
    with pytest.raises(SourceError, match="outside its shape"):
        load_graph(path)


@pytest.mark.parametrize("name", ["edge_index", "x", "y", "label_names", "node_names", "train_idx"])
@pytest.mark.parametrize(
    "value",
    [
        np.array(3), np.array("x"), np.zeros((0,)), np.zeros((2, 2, 2)), np.array([1 + 2j]),
        np.array(["a"]), np.array([b"\xff"]), np.array([np.datetime64("2020-01-01")]),
        np.array({"a": 1}, object), np.array([[1], [2, 3]], object), np.array([2**64 - 1]),
        np.array([True, False]), np.array([np.nan] * 6), np.zeros((6, 1), np.int64),
    ],
    ids=str,
)  # fmt: skip
def test_arrays_of_any_type_and_shape_in_a_bundle(tmp_path, name, value):
    path = corpus.bundle(tmp_path)
    np.savez(path, **(dict(np.load(path)) | {name: value}))
    with contextlib.suppress(SCRError):
        assert load_graph(path).num_nodes


@pytest.mark.parametrize("role", ["id", "label", "split", "size", "source", "weight"])
@pytest.mark.parametrize(
    "values",
    [
        pa.array([[1], [2], []]), pa.array([{"a": 1}, None, {"a": 2}]), pa.nulls(3),
        pa.array([b"\xff\xfe", b"b", b"c"]), pa.array([1, 2, 3], pa.decimal128(5, 2)),
        pa.array(["a", "b", None]).dictionary_encode(), pa.array([1, 2, 2**64 - 1], pa.uint64()),
        pa.array([1.5, float("nan"), float("inf")]), pa.array([2**62, 1, 2], pa.timestamp("us")),
        pa.array([1, 2, 3], pa.timestamp("us", "Europe/Berlin")), pa.array([True, False, None]),
        pa.array([1, 2, 3], pa.float16()), pa.array([1, 2, 3], pa.duration("s")),
        pa.array([1, 2, 3], pa.time32("s")), pa.array([b"ab", b"cd", b"ef"], pa.binary(2)),
        pa.array([[("a", 1)], [], None], pa.map_(pa.string(), pa.int32())),
    ],
    ids=lambda values: str(values.type),
)  # fmt: skip
def test_columns_of_any_type(tmp_path, role, values):
    nodes = {"id": ["a", "b", "c"], "label": ["x", "y", None], "split": ["train", "valid", None]}
    edges = {"source": ["a", "b", "c"], "target": ["b", "c", "a"], "weight": [1.0, 2.0, 3.0]}
    (nodes if role in ("id", "label", "split", "size") else edges)[role] = values
    nodes.setdefault("size", [1.0, 2.0, 3.0])
    for name, columns in (("nodes", nodes), ("edges", edges)):
        pyarrow.parquet.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
        pyarrow.feather.write_feather(pa.table(columns), tmp_path / f"{name}.feather")
    for attempt in (
        lambda: load_graph(tmp_path),
        lambda: read_table_graph(tmp_path / "nodes.parquet", tmp_path / "edges.parquet").graph,
        lambda: read_table_graph(tmp_path / "nodes.feather", tmp_path / "edges.feather").graph,
    ):
        with contextlib.suppress(SCRError):
            assert attempt().num_nodes >= 2


def test_offsets_inside_an_arrow_file_are_checked(tmp_path):
    table = pa.table({"id": ["first", "second", "third"]})
    pyarrow.feather.write_feather(table, tmp_path / "a.feather", compression="uncompressed")
    content = (tmp_path / "a.feather").read_bytes()
    offsets = struct.pack("<4i", 0, 5, 11, 16)
    assert content.count(offsets) == 1
    altered = content.replace(offsets, struct.pack("<4i", 0, 5, 2**30, 16))
    (tmp_path / "a.feather").write_bytes(altered)
    with pytest.raises(SourceError, match=r"a.feather` cannot be read as a table"):
        read_any_table(tmp_path / "a.feather")


def test_tables_are_what_arrow_itself_reads(tmp_path):
    rng = np.random.default_rng(0)
    table = pa.table({
        "text": pa.array(["x", None, "yy"] * 50), "long": pa.array(["a"] * 150, pa.large_string()),
        "number": rng.normal(size=150), "list": pa.array([[1], [], None] * 50),
        "kind": pa.array(["p", "q", "q"] * 50).dictionary_encode(), "bytes": [b"\xff"] * 150,
    })  # fmt: skip
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet", row_group_size=40)
    plain = table.set_column(4, "kind", table["kind"].cast(pa.string()))
    assert read_parquet(tmp_path / "a.parquet").equals(plain)
    for compression in ("lz4", "zstd", "uncompressed"):
        path = tmp_path / "a.feather"
        pyarrow.feather.write_feather(table, path, compression=compression, chunksize=40)
        assert read_arrow_file(path).equals(table)


def test_pipes_and_devices_are_never_opened(tmp_path):
    for name in ("bundle.npz", "nodes.csv", "features.npy", "ind.toy.x"):
        os.mkfifo(tmp_path / name)
    for attempt in (
        lambda: load_graph(tmp_path / "bundle.npz"),
        lambda: read_any_table(tmp_path / "nodes.csv"),
        lambda: read_any_table("/dev/zero"),
        lambda: open_features(tmp_path / "features.npy", 3, "x"),
        lambda: open_features("/dev/zero", 3, "x"),
        lambda: load_graph(tmp_path / "ind.toy"),
        lambda: load_graph("/dev/zero"),
    ):
        with pytest.raises(SCRError):
            attempt()
    (tmp_path / "ogb").mkdir()
    folder = write_arxiv(tmp_path / "ogb" / "arxiv", random_arrays())
    for file in ("edge.csv.gz", "node-feat.csv.gz", "num-node-list.csv.gz"):
        path = folder / "raw" / file
        content = path.read_bytes()
        path.unlink()
        os.mkfifo(path)
        with pytest.raises(SourceError, match="a pipe or a device"):
            load_graph(folder)
        path.unlink()
        path.write_bytes(content)


@pytest.mark.parametrize(
    "text",
    [
        "", "\n", "id", "id,label\n", "id,label\n\n", "\ufeffid,label\n1,x\n2,y\n",
        "id\tlabel\n1\tx\n",
        "id,label\n1,x\n1,y\n", "id,label\n99999999999999999999999,x\n2,y\n",
        "id,label\ninf,x\nnan,y\n",
        "id,label\n1,\0\n2,y\n", 'id,label\n"1,x\n2,y\n', "id,label\n1,x,3\n2\n",
        "id,id\n1,2\n", ",\n1,2\n",
        "id,label,a,a\n1,x,2,3\n2,y,4,5\n",
        "id,label\n" + "1" * 100_000 + ",x\n2,y\n", "id,label," + ",".join("a" * 300) + "\n",
    ],
)  # fmt: skip
def test_texts_of_any_form(tmp_path, text):
    (tmp_path / "edges.csv").write_text("source,target\n1,2\n")
    for encoding in ("utf-8", "utf-16", "utf-16-le", "utf-32"):
        (tmp_path / "nodes.csv").write_bytes(text.encode(encoding))
        for attempt in (
            lambda: load_graph(tmp_path),
            lambda: read_table_graph(tmp_path / "nodes.csv", tmp_path / "edges.csv").graph,
        ):
            with contextlib.suppress(SCRError):
                assert attempt().num_nodes


@pytest.mark.parametrize(
    "toml",
    [
        "", "target = 3", "nodes = 1", "nodes = []", "[nodes]\npaper = 1", "edges = 1",
        '[nodes.paper]\nfile = 1\n[[edges]]\nsource="paper"\nname="c"\ntarget="paper"',
        '[nodes.paper]\nfile = "."\n[[edges]]\nsource="paper"\nname="c"\ntarget="paper"',
        '[nodes.paper]\nfeatures = [1]\n[[edges]]\nsource="paper"\nname="c"\ntarget="paper"',
        '[nodes.paper]\nfeatures = 2020-01-01\n[[edges]]\nsource=[]\nname="c"\ntarget={}',
        "[[edges]]\n[nodes.x]", "a" * 1000, "[" * 5000, "x = " + "[" * 50_000, "\x00",
        'edges = [1]\n[nodes.p]', 'edges = [[]]\n[nodes.p]', '[nodes."../../etc"]\n[[edges]]',
        '[nodes.paper]\nfile="papers.csv"\n[[edges]]\nsource="paper"\nname="a\\u0000b"\ntarget="paper"',
    ],
)  # fmt: skip
def test_a_graph_toml_of_any_form(tmp_path, toml):
    folder = corpus.typed_tables(tmp_path)
    (folder / "graph.toml").write_text(toml)
    with pytest.raises(SCRError):
        load_graph(folder)
    (folder / "graph.toml").write_bytes(b"target = '\xff'")
    with pytest.raises(SourceError, match=r"graph.toml"):
        load_graph(folder)


@pytest.mark.parametrize("name", ["ogb", "ogb-binary", "ogb-typed", "shards", "planetoid"])
def test_every_file_of_a_folder_may_be_missing_empty_or_a_folder(tmp_path, name):
    path = corpus.CORPUS[name](tmp_path)
    for file in sorted(each for each in tmp_path.rglob("*") if each.is_file()):
        content = file.read_bytes()
        for change in (Path.unlink, Path.touch, Path.unlink, Path.mkdir):
            change(file)
            with contextlib.suppress(SCRError):
                assert corpus.read(name, path).num_nodes
        file.rmdir()
        file.write_bytes(content)
