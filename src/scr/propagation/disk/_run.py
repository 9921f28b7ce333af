"""Hops on disk from start to end: plan, resume earlier work or begin, finish the artifact."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.compute import OnProgress, ProgressCount
from scr.engines import Engine
from scr.features import LazyFeatures
from scr.graph import Graph
from scr.propagation._hops import ARRAY, KIND, ROWS, SCHEMA, Hops
from scr.propagation._in_memory import hops_in_memory
from scr.propagation._kept_rows import rows_hash
from scr.propagation._plan import fast_block
from scr.propagation._walks import hop_settings
from scr.propagation.disk._out_of_core import OutOfCore
from scr.propagation.disk._pieces import RESULT, Pieces
from scr.propagation.disk._plan import DiskRequest
from scr.storage import (
    FAST,
    ArtifactWriter,
    as_bytes,
    checksums,
    ranges,
    region_of,
    release,
    stream_rows,
    work_bytes,
)

STEPS_VERSION = 4
"""Of the steps by which a block is computed, and of its pieces: work that other steps have left is
not resumed."""


def propagate_to_disk(
    request: DiskRequest,
    target: Path,
    overwrite: bool,
    on_progress: OnProgress | None,
    engine: Engine | None = None,
) -> Hops:
    """Make hops at `target`, resuming earlier work on the same.

    The engine runs the workers of `request.team`; where that is none, this process does all.

    Raises:
        EngineError: Workers are lost again and again; finished parts are kept then.
        StoreError: There is something already, or the disk is full; finished parts are kept then.
        MemoryBudgetError: The budget is too small.
    """
    graph = request.graph
    codes = graph.edge_types
    edges = graph.indices, graph.weights, codes
    for array in (graph.labels, graph.train, graph.valid, graph.test, *edges):
        release(array)
    ArtifactWriter(target, kind=KIND, overwrite=overwrite).check_target()
    with Pieces(target, _identity(request)) as work:
        before = {
            name: work.layout[name]
            for name in ("block_columns", "row_ranges")
            if name in work.layout
        }
        plan = request.plan(target, used_bytes=work_bytes(target), **before)
        result = work.file(RESULT)
        array, digests = None, list[str]()
        if plan.at_once:
            array = _hops_at_once(request, on_progress)
        else:
            if {"row_ranges": 1, **work.layout} != plan.layout:  # older ones have no ranges
                work.begin(plan.layout)
            made = OutOfCore(request, plan, work, on_progress, engine)
            digests = made.run(result / f"{ARRAY}.npy")
        for file in result.iterdir() if result.exists() else ():
            if array is not None or file.name != f"{ARRAY}.npy":
                file.unlink()
        with ArtifactWriter(
            target, kind=KIND, schema=SCHEMA, overwrite=overwrite, staging=result
        ) as writer:
            writer.metadata.update(hop_settings(request.config, request.subsets))
            if array is None:
                writer.take_array(ARRAY, digests)
            else:
                writer.write_array(ARRAY, array, like=FAST)
                del array
            if request.rows is not None:
                writer.write_array(ROWS, request.rows)
    return Hops.open(target)


def _hops_at_once(request: DiskRequest, on_progress: OnProgress | None) -> NDArray[Any]:
    """The whole result, in memory."""
    blocks = -(-request.columns // max(fast_block(request.columns, request.config.dtype), 1))
    products = len(request.walks) * request.config.hops * blocks
    progress = ProgressCount("Propagating", products, on_progress)
    return hops_in_memory(
        request.graph, request.config, request.source, kept=request.rows, subsets=None,
        width=request.columns, apart=True, threads=request.threads,
        on_hop=lambda: progress.add(1),
    )  # fmt: skip


def _identity(request: DiskRequest) -> str:
    """Hash all that decides the numbers."""
    parts = {
        "schema": SCHEMA,
        "steps": STEPS_VERSION,
        "edges": request.graph.fingerprint("edges"),
        "directed": request.graph.directed,
        "features": _features_identity(request.graph, request.source),
        "config": hop_settings(request.config, request.subsets),
        "rows": None if request.rows is None else rows_hash(request.rows),
    }
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def _features_identity(graph: Graph, source: Any) -> Any:
    """Hash features without reading those that a store knows the checksums of."""
    if isinstance(source, LazyFeatures):
        fitted = source.fitted
        arrays = {name: checksums(array) for name, array in sorted(fitted.arrays().items())}
        return [_features_identity(graph, source.source), fitted.settings(), arrays]
    if _is_same(graph.features, source):
        return graph.fingerprint("features")
    if isinstance(source, np.ndarray):
        return [list(source.shape), source.dtype.str, _digest(source)]
    parts = source.data, source.indices, source.indptr
    return [list(source.shape), *(checksums(np.asarray(part)) for part in parts)]


def _is_same(features: Any, source: Any) -> bool:
    if features is source:
        return True
    if not isinstance(features, np.ndarray) or not isinstance(source, np.ndarray):
        return False
    first, second = ((a.ctypes.data, a.shape, a.strides, a.dtype) for a in (features, source))
    return first == second


def _digest(array: NDArray[Any]) -> list[str]:
    if region_of(array) is None:
        return checksums(array)
    digest, step = hashlib.blake2b(digest_size=16), max((1 << 24) // max(array.shape[1], 1), 1)
    for (rows,) in stream_rows([array], ranges(len(array), step)):
        digest.update(as_bytes(rows))
    return [digest.hexdigest()]
