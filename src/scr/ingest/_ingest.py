"""From a source to a store, within a budget of memory and disk.

`_plan.py` decides whether all goes through memory, which takes about 110 bytes for each edge
(180 GB for ogbn-papers100M), or part by part (`_stream.py`). The store is the same, bit for
bit. Graphs of several types always go through memory.
"""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from scr.compute import (
    OnProgress,
    memory_budget,
    process_budget,
    readable_bytes,
    resident_bytes,
)
from scr.errors import SourceError
from scr.features import open_features
from scr.graph import Graph, open_store, stored_feature_type, storing_steps, write_store
from scr.ingest._features import check_linkable
from scr.ingest._plan import IngestPlan, IngestSize, plan_ingest
from scr.ingest._stream import stream_ingest, take_apart
from scr.sources import (
    IngestOptions,
    as_edge_source,
    find_source,
    is_finished,
    make_graph,
    read_raw,
    read_source,
)
from scr.sources.readers import RawGraph, RawTypedGraph
from scr.storage import discard_work, reading_within, work_bytes


def ingest(
    source: str | Path,
    store: str | Path,
    options: IngestOptions,
    *,
    overwrite: bool = False,
    memory: str | int = "auto",
    link: bool = False,
    on_progress: OnProgress | None = None,
) -> Graph:
    """Turn any supported source into a store, whole or not at all.

    Work that was interrupted resumes when the same source is ingested again. `memory` is the most
    that the process may use, such as ``4GiB``; ``auto``: 80 % of what is available. With `link`,
    the features stay in their `.npy` file, which the store then names.

    Returns:
        The graph, in memory or as memory maps of the store.

    Raises:
        MemoryBudgetError: The budget is too small; names the smallest that works.
    """
    store = Path(store)
    if is_finished(source):
        return _save(read_source(source, options), store, overwrite=overwrite, link=link)
    raw, features, plan = _read_and_plan(source, options, store, memory, link=link)
    if plan.method == "memory" or isinstance(raw, RawTypedGraph):
        graph = make_graph(raw, options, source)
        graph = _save(graph, store, overwrite=overwrite, link=link)
        discard_work(store)
        return graph
    parts = take_apart(raw, features)
    del raw, features  # what is written is let go
    return stream_ingest(
        parts, options, find_source(source), store, plan,
        overwrite=overwrite, link=link, on_progress=on_progress,
    )  # fmt: skip


def plan_of(
    source: str | Path,
    store: str | Path,
    options: IngestOptions,
    *,
    memory: str | int = "auto",
    link: bool = False,
) -> IngestPlan:
    """How `ingest` would go; nothing is written."""
    if is_finished(source):
        raise SourceError(f"`{source}` is a finished graph, for which there is nothing to plan")
    return _read_and_plan(source, options, Path(store), memory, link=link)[2]


def _read_and_plan(
    source: str | Path, options: IngestOptions, store: Path, memory: str | int, *, link: bool
) -> tuple[RawGraph | RawTypedGraph, Any, IngestPlan]:
    """A source, the features of its classified nodes (a file's, or its own), and the plan."""
    with reading_within(process_budget(memory)):
        raw = read_raw(source, options)
    if isinstance(raw, RawTypedGraph):
        num_nodes, features = raw.num_nodes[raw.target], raw.features.get(raw.target)
    else:
        num_nodes, features = raw.num_nodes, raw.features
    if options.features is not None:
        features = open_features(Path(options.features), num_nodes, f"`{source}`")
    if link:
        check_linkable(features)
    plan = plan_ingest(
        _size_of(raw, features, options, link=link), budget=memory_budget(memory),
        resident=resident_bytes(), free_disk=_free_disk(store), store=store,
    )  # fmt: skip
    if isinstance(raw, RawTypedGraph):
        note = (
            "A graph of several types of nodes or edges is read in memory, for which "
            f"{plan.memory_bytes:,} bytes ({readable_bytes(plan.memory_bytes)}) are needed."
        )
        plan = dataclasses.replace(plan, note=note)
    return raw, features, plan


def _size_of(
    raw: RawGraph | RawTypedGraph, features: Any, options: IngestOptions, *, link: bool
) -> IngestSize:
    """What a plan has to know of a source."""
    splits = [raw.train, raw.valid, raw.test] if options.splits is None else [raw.labels]
    per_node = [raw.labels, raw.ids, *splits]  # a drawn split has at most all nodes
    node_bytes = sum(each.nbytes for each in per_node if each is not None)
    stored = [] if link or features is None else [features]
    if isinstance(raw, RawTypedGraph):
        stored += [matrix for kind, matrix in raw.features.items() if kind != raw.target]
        edges = sum(each.shape[1] for each in raw.relations.values())
        # Beside the arrays of nodes: the code of each stored edge, and the weights if there are.
        edge_bytes = 10 if raw.weights or not options.drop_duplicates else 2
        return IngestSize(
            nodes=sum(raw.num_nodes.values()),
            edges=edges,
            node_bytes=node_bytes + edge_bytes * edges,
            feature_store_bytes=sum(_stored_bytes(matrix) for matrix in stored),
            memory_only=f"{edges:,} edges of several relations, which works in memory only,",
        )
    source, memory_only = as_edge_source(raw.edges), None
    if raw.weights is not None or not options.drop_duplicates:
        purpose = "to count them" if raw.weights is None else "with weights"
        memory_only = f"{source.num_edges:,} edges {purpose}, which works in memory only,"
    return IngestSize(
        nodes=raw.num_nodes,
        edges=source.num_edges,
        both=options.symmetrize,
        edge_bytes=2 * source.dtype.itemsize,
        read_seconds=source.read_seconds,
        node_bytes=node_bytes,
        feature_source_bytes=features.nbytes if isinstance(features, np.memmap) else 0,
        feature_store_bytes=sum(_stored_bytes(matrix) for matrix in stored),
        memory_only=memory_only,
    )


def _stored_bytes(matrix: Any) -> int:
    if isinstance(matrix, np.ndarray):
        return int(matrix.size) * stored_feature_type(matrix).itemsize
    return int(8 * matrix.nnz + 8 * matrix.shape[0])


def _free_disk(store: Path) -> int:
    """Disk that is free, or taken by what an interrupted ingest of the same store has finished."""
    existing = next(folder for folder in store.absolute().parents if folder.exists())
    return shutil.disk_usage(existing).free + work_bytes(store)


def _save(graph: Graph, store: Path, *, overwrite: bool, link: bool) -> Graph:
    if link:
        check_linkable(graph.features)
    write_store(graph, store, overwrite=overwrite, link_features=link)
    # What is handed back is what was stored.
    return open_store(store) if link or storing_steps(graph.features) else graph
