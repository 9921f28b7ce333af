"""From a source to a store: through memory, or edge by edge through files where there are many.

Sorting edges in memory takes up to 90 bytes for each, which is 145 GB for ogbn-papers100M. Above
`LARGE_EDGES` they go through buckets on disk instead (`buckets.py`), and memory holds one bucket
and some tens of bytes per node. The store is the same, bit for bit.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.errors import StoreError
from scr.graph.artifact import ArtifactWriter
from scr.graph.buckets import EdgeBuckets
from scr.graph.edges import check_edges
from scr.graph.graph import Graph
from scr.graph.readers.raw import RawGraph
from scr.graph.sources import (
    IngestOptions,
    is_finished,
    make_graph,
    read_raw,
    read_source,
    reading_step,
)
from scr.graph.store import (
    KIND,
    SCHEMA,
    open_store,
    store_metadata,
    stored_type,
    storing_steps,
)

LARGE_EDGES = 1 << 26
"""From so many edges on, they are sorted on disk: in memory it would take 6 GB."""
_CHUNK = 1 << 22


def ingest(
    source: str | Path, store: str | Path, options: IngestOptions, *, overwrite: bool = False
) -> Graph:
    """Turn any supported source into a store, whole or not at all.

    Args:
        source: A path or a name, as for `load_graph`.
        store: The folder to make.
        options: What to do with the source.
        overwrite: Replace a store that is there already.

    Returns:
        The graph, in memory or as memory maps of the store.
    """
    if is_finished(source):
        graph = read_source(source, options)
    else:
        raw = read_raw(source, options)
        if _goes_through_disk(raw, options):
            return _stream(raw, options, source, Path(store), overwrite=overwrite)
        graph = make_graph(raw, options, source)
    graph.save(store, overwrite=overwrite)
    # What is handed back is what was stored.
    return open_store(store) if storing_steps(graph.features) else graph


def _goes_through_disk(raw: RawGraph, options: IngestOptions) -> bool:
    """Whether there are many edges, to be treated in the way that buckets do."""
    usual = options.symmetrize and options.drop_duplicates and options.drop_self_loops
    dense = raw.features is None or isinstance(raw.features, np.ndarray)
    many = raw.edges.shape[1] >= LARGE_EDGES
    return many and usual and dense and raw.weights is None


def _stream(
    raw: RawGraph, options: IngestOptions, source: str | Path, store: Path, *, overwrite: bool
) -> Graph:
    # Everything but the edges is checked, replaced and split as for any other source.
    nodes = make_graph(dataclasses.replace(raw, edges=raw.edges[:, :0]), options, source)
    try:
        with ArtifactWriter(store, kind=KIND, schema=SCHEMA, overwrite=overwrite) as writer:
            steps, stored = _write_edges(raw, writer)
            for name in ("features", "labels", "train", "valid", "test", "ids"):
                array: NDArray[Any] | None = getattr(nodes, name)
                if array is not None:
                    writer.write_array(name, array, stored_type(name, array))
            writer.metadata = store_metadata(
                name=nodes.name, nodes=nodes.num_nodes, edges=stored, features=nodes.num_features,
                class_names=nodes.class_names,
                steps=(
                    reading_step(raw), *nodes.steps[1:], *steps, *storing_steps(nodes.features)
                ),
            )  # fmt: skip
    except OSError as error:
        raise StoreError(f"`{store}` cannot be written: {error.strerror or error}") from error
    return open_store(store)


def _write_edges(raw: RawGraph, writer: ArtifactWriter) -> tuple[list[str], int]:
    """Write offsets and targets; returns what was done and the number of stored edges."""
    edges = raw.edges.shape[1]
    indptr = writer.create_array("indptr", (raw.num_nodes + 1,), np.int64)
    with EdgeBuckets(writer.path.parent, raw.num_nodes, edges) as buckets:
        for start in range(0, edges, _CHUNK):
            sources, targets = part = np.asarray(raw.edges[:, start : start + _CHUNK])
            if part.min() < 0 or part.max() >= raw.num_nodes:
                check_edges(raw.edges[0], raw.edges[1], raw.num_nodes)  # names the edge
            buckets.add(sources.astype(np.int32), targets.astype(np.int32))
        stored = buckets.merge(indptr)
        indices, start = writer.create_array("indices", (stored,), np.int32), 0
        for block in buckets.targets():
            indices[start : start + len(block)] = block
            start += len(block)
        loops = buckets.loops
    pairs = stored // 2
    steps = [
        f"dropped {loops:,} self-loops",
        f"merged {edges - loops - pairs:,} repeated edges",
        f"symmetrized: {pairs:,} edges became {stored:,} stored directions",
    ]
    return steps, stored
