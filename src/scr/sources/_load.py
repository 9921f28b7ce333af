"""One entry point for every source of graphs: recognize the format, read it, clean it, split it.

    load_graph("cora.npz")                                   a bundle, with its public split
    load_graph("tables/", splits="per-class:20,30")          tables, with a drawn split
    load_graph("actor.npz", split=3)                         the fourth of its public splits
    load_graph("ogbn-arxiv", features="X.all.xrt-emb.npy")   a data set, with other features

Formats are told apart by what is in the folder or file, never by running it. Every format gets the
same options (`IngestOptions`), and what was done is recorded in `Graph.steps`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scr.errors import GraphError, MemoryBudgetError, SourceError
from scr.features import replace_features
from scr.graph import Graph, apply_split, open_store
from scr.sources._digits import digits
from scr.sources._formats import format_of
from scr.sources._ogb_datasets import OGB_DATASETS, find_dataset
from scr.sources._options import IngestOptions
from scr.sources.readers import RawGraph, RawTypedGraph
from scr.storage import check_budget

_NODE_BYTES = 16
"""Of a graph, for each node, at least: where its edges begin, and its label."""
DATASETS = ("digits",)
"""Names of the embedded data; `_ogb_datasets.py` has those that are downloaded."""


def load_graph(
    source: str | Path,
    *,
    split: int | None = None,
    splits: str | Path | None = None,
    features: str | Path | None = None,
    options: IngestOptions | None = None,
) -> Graph:
    """Open a store, read any supported source, or take a data set by its name.

    Args:
        source: A path or a name.
        split: Which split, where the source or the file of splits has several.
        splits: `per-class:TRAIN,VALID`, `per-class:all`, `random:TRAIN,VALID`, or a file of splits;
            wins over the source's own.
        features: A `.npy` with one row of features per node, instead of the source's own; it stays
            on disk.
        options: Everything else about reading a source.

    Raises:
        SourceError: Nothing at the path is recognized; the message lists what would be.
    """
    given = {"split": split, "splits": splits, "features": features}
    given = {name: value for name, value in given.items() if value is not None}
    options = dataclasses.replace(options or IngestOptions(), **given)  # type: ignore[arg-type]
    graph = read_source(source, options)
    # Later, the source is read without options: with others than these it would be another graph.
    is_found_again = options == _changeable(options)
    return dataclasses.replace(graph, source=lasting_source(source) if is_found_again else None)


def lasting_source(source: str | Path) -> str:
    """How to find a source again from another folder: a full path, or a data set's name."""
    path = Path(source).expanduser()
    is_name = str(source) in (*DATASETS, *OGB_DATASETS) and not path.exists()
    return str(source) if is_name else str(path.resolve())


def read_source(source: str | Path, options: IngestOptions | None = None) -> Graph:
    """Read a source with all its options; see `load_graph`."""
    options = options or IngestOptions()
    if not is_finished(source):
        return make_graph(read_raw(source, options), options, source)
    if options != _changeable(options):
        raise SourceError(
            f"`{source}` is a finished graph, of which only the splits and the features can be "
            "changed",
            hint="leave out the other options, or read the source that it was made from",
        )
    path = find_source(source)
    if not path.exists():
        # Split i of the embedded data set is the one drawn with seed i.
        return _finish(digits(seed=options.own_split or 0), options, source)
    if options.own_split is not None:
        raise SourceError(
            f"`{path}` is a store, which has one split; split {options.split} was asked for",
            hint="give a file of splits (`splits`)",
        )
    with _named(source):
        return _finish(open_store(path), options, source)


def is_finished(source: str | Path) -> bool:
    """Whether a source is a graph already: embedded data or a store."""
    path = find_source(source)
    is_embedded = str(source) in DATASETS and not path.exists()
    return is_embedded or (path / "manifest.json").is_file()


def read_raw(source: str | Path, options: IngestOptions) -> RawGraph | RawTypedGraph:
    """Read the files of a source that is not a finished graph."""
    path = find_source(source)
    chosen = format_of(path)
    if options.columns and not chosen.has_columns:
        raise SourceError(f"`{source}` is not a folder of tables, so no column of it can be named")
    if options.own_split is not None and not chosen.has_splits:
        raise SourceError(
            f"`{path}` has no numbered splits, so there is no split {options.split} in it",
            hint="give a file of splits (`splits`)",
        )
    try:
        with _named(source):
            raw = chosen.read(path, options)
    except MemoryError:
        raise MemoryBudgetError(f"Reading `{source}` takes more memory than there is") from None
    nodes = raw.num_nodes if isinstance(raw, RawGraph) else sum(raw.num_nodes.values())
    check_budget(f"A graph of {nodes:,} nodes", _NODE_BYTES * nodes, None)
    return raw


def make_graph(raw: RawGraph | RawTypedGraph, options: IngestOptions, source: str | Path) -> Graph:
    """Clean, check and split what `read_raw` gave; `source` is what the user calls it."""
    given = options.features is not None
    common: dict[str, Any] = {
        "labels": raw.labels,
        "undirected": options.symmetrize,
        "weights": raw.weights,
        "num_nodes": raw.num_nodes,
        "ids": raw.ids,
        "class_names": raw.class_names,
        "name": raw.name,
        "self_loops": "drop" if options.drop_self_loops else "keep",
        "duplicates": "merge" if options.drop_duplicates else "count",
        "steps": (reading_step(raw), *raw.notes),
    }
    if options.splits is None:
        common |= {"train": raw.train, "valid": raw.valid, "test": raw.test}
    with _named(source):
        if isinstance(raw, RawTypedGraph):
            kept = {k: matrix for k, matrix in raw.features.items() if not given or k != raw.target}
            graph = Graph.from_relations(raw.relations, kept, target=raw.target, **common)
        else:
            graph = Graph.from_edges(raw.edges, features=None if given else raw.features, **common)
    return _finish(graph, options, source)


@contextmanager
def _named(source: str | Path) -> Iterator[None]:
    """Name the source where a graph is refused by its numbers alone."""
    try:
        yield
    except GraphError as error:
        if str(source) in error.message:
            raise
        raise GraphError(f"In `{source}`: {error.message}", hint=error.hint) from None


def reading_step(raw: RawGraph | RawTypedGraph) -> str:
    """How much was read, in words: the first step of a graph."""
    if isinstance(raw, RawTypedGraph):
        count = sum(each.shape[1] for each in raw.relations.values())
        types = ", ".join(f"{nodes:,} {kind}" for kind, nodes in raw.num_nodes.items())
        return f"read {count:,} edges of {len(raw.relations)} relations between {types}"
    return f"read {raw.edges.shape[1]:,} edges of {raw.num_nodes:,} nodes"


def find_source(source: str | Path) -> Path:
    """The path of a source; a name that is not of a data set to download stays a path."""
    path = Path(source).expanduser()
    if str(source) in OGB_DATASETS and not path.exists():
        return find_dataset(str(source))
    return path


def _changeable(options: IngestOptions) -> IngestOptions:
    """What can be changed of a finished graph."""
    return IngestOptions(
        splits=options.splits, split=options.split, seed=options.seed, features=options.features
    )


def _finish(graph: Graph, options: IngestOptions, source: str | Path) -> Graph:
    """Give a graph the features and the split that were asked for."""
    if options.features is not None:
        graph = replace_features(graph, options.features, f"`{source}`")
    return draw_split(graph, options)


def draw_split(graph: Graph, options: IngestOptions) -> Graph:
    """Split a graph as `IngestOptions.splits` says; without it, the graph stays as it is."""
    if options.splits is None:
        return graph
    return apply_split(graph, options.splits, number=options.split or 0, seed=options.seed)
