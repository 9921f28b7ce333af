"""One small, valid source of every format that is read, for tests that damage them.

`CORPUS[name](folder)` writes the source into a new folder and returns what is to be read; `read`
reads it as the command line would. All are the same graph of six nodes or one like it.
"""

from __future__ import annotations

import gzip
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import scipy.sparse as sp
from tests.sources.readers.ogb_files import random_arrays, write_arxiv, write_mag, write_papers

from scr.graph import Graph
from scr.sources import load_graph
from scr.tables import read_table_graph

EDGES = np.array([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])
FEATURES = np.array([[1, 0, 2], [0, 2, 1], [3, 4, 0], [1, 1, 1], [0, 0, 5], [2, 0, 0]], np.float32)
LABELS = np.array([0, 1, 0, 1, 0, -1])
SPLIT = {"train": [0, 1], "val": [2, 3], "test": [4]}
_NODES = (
    "id,label,split,size,weight\n"
    "a,x,train,1.5,2\nb,y,train,2.5,3\nc,x,valid,1,1\nd,y,valid,0,5\ne,x,test,7,2\nf,,,4,4\n"
)
_EDGES = "source,target,weight\na,b,1\nb,c,2\nc,d,1\nd,e,0.5\ne,f,1\nf,a,1\n"
_TOML = """target = "paper"
[nodes.paper]
file = "papers.csv"
features = ["size"]
[nodes.author]
[[edges]]
source = "author"
name = "writes"
target = "paper"
[[edges]]
source = "paper"
name = "cites"
target = "paper"
file = "cites.parquet"
weight = "weight"
"""


def _sparse(prefix: str, matrix: Any, separator: str) -> dict[str, Any]:
    parts = {name: getattr(matrix, name) for name in ("data", "indices", "indptr")}
    return {f"{prefix}{separator}{k}": v for k, v in {**parts, "shape": matrix.shape}.items()}


def _adjacency() -> sp.csr_matrix:
    return sp.csr_matrix((np.ones(6, np.float32), tuple(EDGES)), shape=(6, 6))


def bundle(folder: Path, *, packed: bool = False) -> Path:
    """An `.npz` with plain arrays."""
    save = np.savez_compressed if packed else np.savez
    split = {f"{part}_idx": np.array(nodes) for part, nodes in SPLIT.items()}
    save(
        folder / "bundle.npz", edge_index=EDGES, x=FEATURES, y=LABELS, **split,
        label_names=np.array(["x", "y"]), node_names=np.array(list("abcdef")),
        directed=np.array([0]),
    )  # fmt: skip
    return folder / "bundle.npz"


def sparse_bundle(folder: Path) -> Path:
    """The same, compressed and with features in CSR parts."""
    np.savez_compressed(
        folder / "sparse.npz", edge_index=EDGES, y=LABELS,
        **_sparse("x", sp.csr_matrix(FEATURES), "_"),
    )  # fmt: skip
    return folder / "sparse.npz"


def typed_bundle(folder: Path) -> Path:
    """An `.npz` of two types."""
    np.savez_compressed(
        folder / "typed.npz", node_types=np.array(["paper", "author"]), num_nodes=np.array([6, 3]),
        target_type=np.array("paper"), y=LABELS, **{
            "rel:paper:cites:paper": EDGES,
            "rel:author:writes:paper": np.array([[0, 1, 2], [0, 3, 5]]),
            "x:paper": FEATURES,
        }, train_idx=np.array([0, 1]), val_idx=np.array([2, 3]), test_idx=np.array([4]),
    )  # fmt: skip
    return folder / "typed.npz"


def gnn_benchmark(folder: Path) -> Path:
    """An `.npz` of gnn-benchmark, with parts of matrices."""
    matrices = {
        **_sparse("adj", _adjacency(), "_"), **_sparse("attr", sp.csr_matrix(FEATURES), "_")
    }  # fmt: skip
    np.savez(folder / "benchmark.npz", **matrices, labels=LABELS)
    return folder / "benchmark.npz"


def gnn_benchmark_pickled(folder: Path) -> Path:
    """An `.npz` of gnn-benchmark, with pickled matrices and names."""
    np.savez(
        folder / "pickled.npz", adj_matrix=np.array(_adjacency(), object),
        node_attr=np.array(sp.csr_matrix(FEATURES), object), node_label=LABELS,
        idx_to_class=np.array({0: "x", 1: "y"}, object),
        idx_to_node=np.array(dict(enumerate("abcdef")), object),
    )  # fmt: skip
    return folder / "pickled.npz"


def planetoid(folder: Path, *, protocol: int = 2) -> Path:
    """Eight files of Planetoid."""
    classes = np.eye(2, dtype=np.int32)[[0, 1, 0, 1, 0, 1]]
    parts: dict[str, Any] = {
        "x": sp.csr_matrix(FEATURES[:2]), "y": classes[:2], "allx": sp.csr_matrix(FEATURES[:4]),
        "ally": classes[:4], "tx": sp.csr_matrix(FEATURES[4:]), "ty": classes[4:],
        "graph": {node: [int(EDGES[1, node])] for node in range(6)},
    }  # fmt: skip
    for part, value in parts.items():
        (folder / f"ind.toy.{part}").write_bytes(pickle.dumps(value, protocol=protocol))
    (folder / "ind.toy.test.index").write_text("5\n4\n")
    return folder / "ind.toy"


def tables_csv(folder: Path) -> Path:
    """A folder of two CSV files."""
    (folder / "nodes.csv").write_text(_NODES)
    (folder / "edges.csv").write_text(_EDGES)
    return folder


def _arrow_tables() -> tuple[pa.Table, pa.Table]:
    nodes = pa.table({
        "id": list("abcdef"),
        "label": pa.array(["x", "y", "x", "y", "x", None]).dictionary_encode(),
        "split": ["train", "train", "valid", "valid", "test", None],
        "size": pa.array([1.5, 2.5, 1, 0, 7, 4]), "count": pa.array([1, 2, 3, 4, 5, 7], pa.int32()),
    })  # fmt: skip
    edges = pa.table({
        "source": list("abcdef"), "target": list("bcdefa"), "weight": pa.array([1, 2, 1, 0.5, 1, 1])
    })  # fmt: skip
    return nodes, edges


def tables_parquet(folder: Path) -> Path:
    """A folder of two Parquet files."""
    for name, table in zip(("nodes", "edges"), _arrow_tables(), strict=True):
        pyarrow.parquet.write_table(table, folder / f"{name}.parquet")
    return folder


def tables_features(folder: Path) -> Path:
    """A folder of two CSV files with whole numbers for ids, and a `features.npy`."""
    rows = zip(range(6), ["x", "y", "x", "y", "x", ""], strict=True)
    (folder / "nodes.csv").write_text("id,label\n" + "".join(f"{i},{y}\n" for i, y in rows))
    pairs = zip(*EDGES.tolist(), strict=True)
    (folder / "edges.csv").write_text("source,target\n" + "".join(f"{i},{j}\n" for i, j in pairs))
    np.save(folder / "features.npy", FEATURES)
    return folder


def typed_tables(folder: Path) -> Path:
    """A folder with a `graph.toml`."""
    (folder / "graph.toml").write_text(_TOML)
    (folder / "papers.csv").write_text(_NODES)
    (folder / "edges-writes.csv").write_text("author,paper\nanna,a\nben,b\nben,f\n")
    pyarrow.parquet.write_table(_arrow_tables()[1], folder / "cites.parquet")
    return folder


def shards(folder: Path) -> Path:
    """Edges in two `.npy` files and one of Parquet."""
    np.save(folder / "edges-00000.npy", EDGES[:, :2].astype(np.int32))
    np.save(folder / "edges-00001.npy", EDGES[:, 1:4])
    ends = pa.table({"source": EDGES[0, 3:], "target": EDGES[1, 3:]})
    pyarrow.parquet.write_table(ends, folder / "edges-00002.parquet")
    np.save(folder / "features.npy", FEATURES)
    np.save(folder / "labels.npy", LABELS)
    for part, nodes in {"train": [0, 1], "valid": [2, 3], "test": [4]}.items():
        np.save(folder / f"{part}.npy", np.array(nodes))
    return folder


def ogb(folder: Path) -> Path:
    """A folder with the layout of ogbn-arxiv."""
    return write_arxiv(folder / "ogbn_arxiv", random_arrays(nodes=9, edges=12, features=2))


def ogb_binary(folder: Path) -> Path:
    """A folder with the layout of ogbn-papers100M."""
    return write_papers(folder / "ogbn_papers", random_arrays(nodes=9, edges=12, features=2))


def ogb_typed(folder: Path) -> Path:
    """A folder with the layout of ogbn-mag."""
    return write_mag(folder / "ogbn_mag")[0]


def fit_texts(folder: Path, *, encoding: str = "utf-8", ending: str = "csv") -> Path:
    """Two files of text for `scr fit`, without a meaning of the columns."""
    separator = {"csv": ",", "tsv": "\t", "txt": ";"}[ending.removesuffix(".gz")]
    for name, text in (("nodes", _NODES), ("edges", _EDGES)):
        content = text.replace(",", separator).encode(encoding)
        if ending.endswith(".gz"):
            content = gzip.compress(content, mtime=0)
        (folder / f"{name}.{ending}").write_bytes(content)
    return folder


def fit_parquet(folder: Path) -> Path:
    """Two Parquet files for `scr fit`."""
    return tables_parquet(folder)


def fit_feather(folder: Path, *, compression: str = "lz4") -> Path:
    """Two feather files for `scr fit`."""
    for name, table in zip(("nodes", "edges"), _arrow_tables(), strict=True):
        pyarrow.feather.write_feather(table, folder / f"{name}.feather", compression=compression)
    return folder


def fit_stream(folder: Path) -> Path:
    """Two Arrow streams for `scr fit`."""
    for name, table in zip(("nodes", "edges"), _arrow_tables(), strict=True):
        with pa.ipc.new_stream(str(folder / f"{name}.arrow"), table.schema) as writer:
            writer.write_table(table)
    return folder


CORPUS: dict[str, Callable[[Path], Path]] = {
    "bundle": bundle,
    "bundle-packed": lambda folder: bundle(folder, packed=True),
    "bundle-sparse": sparse_bundle,
    "bundle-typed": typed_bundle,
    "gnn-benchmark": gnn_benchmark,
    "gnn-benchmark-pickled": gnn_benchmark_pickled,
    "planetoid": planetoid,
    "planetoid-0": lambda folder: planetoid(folder, protocol=0),
    "planetoid-5": lambda folder: planetoid(folder, protocol=5),
    "tables-csv": tables_csv,
    "tables-parquet": tables_parquet,
    "tables-features": tables_features,
    "tables-typed": typed_tables,
    "shards": shards,
    "ogb": ogb,
    "ogb-binary": ogb_binary,
    "ogb-typed": ogb_typed,
    "fit-csv": fit_texts,
    "fit-tsv-utf16": lambda folder: fit_texts(folder, encoding="utf-16", ending="tsv"),
    "fit-csv-gz": lambda folder: fit_texts(folder, ending="csv.gz"),
    "fit-parquet": fit_parquet,
    "fit-feather": fit_feather,
    "fit-feather-zstd": lambda folder: fit_feather(folder, compression="zstd"),
    "fit-feather-plain": lambda folder: fit_feather(folder, compression="uncompressed"),
    "fit-stream": fit_stream,
}
"""Writers by the name of the format; those that begin with `fit-` are pairs of any two tables."""


def read(name: str, path: Path) -> Graph:
    """Read a source of the corpus, damaged or not."""
    if not name.startswith("fit-"):
        return load_graph(path)
    nodes, edges = (sorted(path.glob(f"{each}.*"))[0] for each in ("nodes", "edges"))
    return read_table_graph(nodes, edges).graph
