"""Every format of graphs: how it is recognized, and what reads it.

A new format is a reader in `readers/` and an entry of `FORMATS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scr.errors import SourceError
from scr.sources.readers._bundle import is_bundle, read_bundle
from scr.sources.readers._gnn_benchmark import is_gnn_benchmark, read_gnn_benchmark
from scr.sources.readers._graph_toml import is_typed_tables
from scr.sources.readers._npz import NpzFile
from scr.sources.readers._ogb import is_ogb, read_ogb
from scr.sources.readers._planetoid import planetoid_prefix, read_planetoid
from scr.sources.readers._raw import RawGraph, RawTypedGraph
from scr.sources.readers._shards import is_shards, read_shards
from scr.sources.readers._tables import TableColumns, is_tables, read_tables
from scr.sources.readers._typed_bundle import is_typed_bundle, read_typed_bundle
from scr.sources.readers._typed_tables import read_typed_tables


@dataclass(frozen=True, kw_only=True)
class IngestOptions:
    """What to do with a source on its way to a graph."""

    symmetrize: bool = True
    """Store each edge in both directions."""
    drop_duplicates: bool = True
    """Merge repeated edges; otherwise how often an edge is listed becomes its weight."""
    drop_self_loops: bool = True
    """Drop edges from a node to itself."""
    id_column: str | None = None
    """Tables: the column of node ids, of the target type; none: `id`, else the first."""
    label_column: str | None = None
    """Tables: the column of classes; none: `label`; the word `none`: there are no labels."""
    split_column: str | None = None
    """Tables: the column that says train, valid or test; none: `split`, if there is one."""
    features: str | Path | None = None
    """A `.npy` with one row of features per target node, instead of the source's own features."""
    splits: str | Path | None = None
    """`per-class:TRAIN,VALID`, `random:TRAIN,VALID` or a file of splits; none: the source's own."""
    split: int | None = None
    """Which split, where there are several."""
    seed: int = 0
    """Of drawn splits."""

    @property
    def own_split(self) -> int | None:
        """Which of the source's own splits is asked for."""
        return self.split if self.splits is None else None

    @property
    def names_columns(self) -> bool:
        """Whether anything here only makes sense for tables."""
        return any((self.id_column, self.label_column, self.split_column))

    @property
    def columns(self) -> TableColumns:
        """Columns of tables that are not features."""
        return TableColumns(ids=self.id_column, label=self.label_column, split=self.split_column)

    @property
    def with_features(self) -> bool:
        """Whether the source's own features are wanted."""
        return self.features is None


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


def _folder(recognizes: Callable[[Path], bool]) -> Callable[[Path], bool]:
    return lambda path: path.is_dir() and recognizes(path)


FORMATS = (
    Format(
        looks_like="a bundle of several types (.npz with node_types and rel:SOURCE:NAME:TARGET)",
        recognizes=_npz(is_typed_bundle),
        read=lambda path, options: read_typed_bundle(
            path, split=options.own_split, with_features=options.with_features
        ),
        has_splits=True,
    ),
    Format(
        looks_like="a bundle (.npz with edge_index)",
        recognizes=_npz(is_bundle),
        read=lambda path, options: read_bundle(path, split=options.own_split),
        has_splits=True,
    ),
    Format(
        looks_like="a gnn-benchmark file (.npz with adj_data or adj_matrix)",
        recognizes=_npz(is_gnn_benchmark),
        read=lambda path, _: read_gnn_benchmark(path),
    ),
    Format(
        looks_like="Planetoid files (a folder with ind.NAME.*, or the prefix ind.NAME)",
        recognizes=lambda path: planetoid_prefix(path) is not None,
        read=lambda path, _: read_planetoid(planetoid_prefix(path) or path),
    ),
    # Before shards: its edges-NAME.parquet would pass for them.
    Format(
        looks_like="tables of several types (a folder with graph.toml)",
        recognizes=_folder(is_typed_tables),
        read=lambda path, options: read_typed_tables(
            path, columns=options.columns, with_features=options.with_features
        ),
        has_columns=True,
    ),
    Format(
        looks_like="shards (a folder with edges-*.npy or edges-*.parquet)",
        recognizes=_folder(is_shards),
        read=lambda path, _: read_shards(path),
    ),
    Format(
        looks_like="tables (a folder with edges.csv and nodes.csv, or .parquet)",
        recognizes=_folder(is_tables),
        read=lambda path, options: read_tables(
            path,
            columns=options.columns,
            features=None if options.features is None else Path(options.features),
        ),
        has_columns=True,
    ),
    Format(
        looks_like="an OGB node-property data set (a folder with raw/ and split/)",
        recognizes=_folder(is_ogb),
        read=lambda path, options: read_ogb(path, with_features=options.with_features),
    ),
)
"""In the order in which they are tried."""
RECOGNIZED = (
    "a store (folder with manifest.json)",
    *(each.looks_like for each in FORMATS),
    "a data set by name (digits, ogbn-products, ogbn-arxiv, ogbn-mag, ogbn-papers100M)",
)


def format_of(path: Path) -> Format:
    """The format of what is at a path.

    Raises:
        SourceError: No format recognizes it.
    """
    for each in FORMATS:
        if each.recognizes(path):
            return each
    if not path.exists():
        found = f"There is nothing at `{path}`, and it is not a data set's name"
    elif path.is_dir():
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
