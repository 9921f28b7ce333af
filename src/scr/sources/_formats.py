"""Every format of graphs: how it is recognized, and what reads it.

A new format is a reader in `readers/` and an entry of `FORMATS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scr.errors import SourceError
from scr.sources._options import IngestOptions
from scr.sources.readers._bundle import is_bundle, is_typed_bundle, read_bundle, read_typed_bundle
from scr.sources.readers._gnn_benchmark import is_gnn_benchmark, read_gnn_benchmark
from scr.sources.readers._graph_toml import is_typed_tables
from scr.sources.readers._npz import NpzFile
from scr.sources.readers._ogb import is_ogb, read_ogb
from scr.sources.readers._ogb_typed import is_ogb_typed, read_ogb_typed
from scr.sources.readers._planetoid import planetoid_prefix, read_planetoid
from scr.sources.readers._raw import RawGraph, RawTypedGraph
from scr.sources.readers._shards import is_shards, read_shards
from scr.sources.readers._tables import is_tables, read_tables
from scr.sources.readers._typed_tables import read_typed_tables


@dataclass(frozen=True, kw_only=True)
class Format:
    """One format of graphs on disk."""

    looks_like: str
    """For the message about a source that no format recognizes."""
    recognizes: Callable[[Path], bool]
    read: Callable[[Path, IngestOptions], RawGraph | RawTypedGraph]
    has_splits: bool = False
    """Whether it holds several numbered splits."""
    has_columns: bool = False
    """Whether columns can be named."""


def _npz(recognizes: Callable[[set[str]], bool]) -> Callable[[Path], bool]:
    """Whether a path is an `.npz` whose arrays are those of a format."""
    return lambda path: path.is_file() and path.suffix == ".npz" and recognizes(set(NpzFile(path)))


FORMATS = (
    Format(
        looks_like="a bundle of several types (.npz with node_types and rel:SOURCE:NAME:TARGET)",
        recognizes=_npz(is_typed_bundle), read=read_typed_bundle, has_splits=True,
    ),
    Format(
        looks_like="a bundle (.npz with edge_index)",
        recognizes=_npz(is_bundle), read=read_bundle, has_splits=True,
    ),
    Format(
        looks_like="a gnn-benchmark file (.npz with adj_data or adj_matrix)",
        recognizes=_npz(is_gnn_benchmark), read=lambda path, _: read_gnn_benchmark(path),
    ),
    Format(
        looks_like="Planetoid files (a folder with ind.NAME.*, or the prefix ind.NAME)",
        recognizes=lambda path: planetoid_prefix(path) is not None,
        read=lambda path, _: read_planetoid(planetoid_prefix(path) or path),
    ),
    # Before shards: its edges-NAME.parquet would pass for them.
    Format(
        looks_like="tables of several types (a folder with graph.toml)",
        recognizes=is_typed_tables, read=read_typed_tables, has_columns=True,
    ),
    Format(
        looks_like="shards (a folder with edges-*.npy or edges-*.parquet)",
        recognizes=is_shards, read=lambda path, _: read_shards(path),
    ),
    Format(
        looks_like="tables (a folder with edges.csv and nodes.csv, or .parquet)",
        recognizes=is_tables, read=read_tables, has_columns=True,
    ),
    Format(
        looks_like="an OGB node-property data set (a folder with raw/ and split/)",
        recognizes=is_ogb,
        read=lambda path, given: (read_ogb_typed if is_ogb_typed(path) else read_ogb)(path, given),
    ),
)  # fmt: skip
"""In the order in which they are tried."""
DATASET_NAMES = "digits, ogbn-products, ogbn-arxiv, ogbn-mag, ogbn-papers100M"
RECOGNIZED = (
    "a store (folder with manifest.json)",
    *(each.looks_like for each in FORMATS),
    f"a data set by name ({DATASET_NAMES})",
)


def format_of(path: Path) -> Format:
    """The format of what is at a path; a `SourceError` lists all if none recognizes it."""
    for each in FORMATS:
        if each.recognizes(path):
            return each
    if not path.exists():
        raise SourceError(
            f"`{path}` does not exist, and it is not a data set's name; expected a store, a source "
            "or a name",
            hint=f"data sets are {DATASET_NAMES}",
        )
    if path.is_dir():
        names = sorted(entry.name for entry in path.iterdir())
        shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
        found = (
            f"The folder `{path}` holds no graph that is recognized (it has: {shown or 'nothing'})"
        )
    elif path.suffix == ".npz":
        shown = ", ".join(sorted(NpzFile(path))[:8])
        found = f"`{path}` holds no graph that is recognized (its arrays: {shown})"
    else:
        found = f"`{path}` is not a graph that is recognized"
    raise SourceError("\n- ".join([f"{found}; expected one of:", *RECOGNIZED]))
