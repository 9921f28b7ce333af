"""Hops on disk from start to end: plan, resume earlier work or begin, finish the artifact."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.features import LazyFeatures
from scr.graph import Graph
from scr.propagation._config import PropagationConfig
from scr.propagation._hops import ARRAY, KIND, ROWS, SCHEMA, Hops
from scr.propagation._kept_rows import computed_rows, rows_hash
from scr.propagation._walks import Subsets, hop_settings
from scr.propagation.disk._out_of_core import OutOfCore, Progress
from scr.propagation.disk._pieces import RESULT, DamagedPieceError, Pieces
from scr.propagation.disk._plan import DiskPlan, plan_on_disk
from scr.storage import (
    ArtifactWriter,
    WorkFolder,
    as_bytes,
    checksums,
    region_of,
    release,
    stream_rows,
    work_bytes,
)


@dataclass(frozen=True, eq=False)
class DiskRequest:
    """What is to be propagated to disk, and within what."""

    graph: Graph
    config: PropagationConfig
    source: Any
    """X, as `check_features` returns it."""
    rows: NDArray[np.int64] | None = None
    """Sorted numbers of the nodes to keep; none: all of the target type."""
    memory: str | int = "auto"
    disk: str | int = "auto"
    threads: int | None = None
    subsets: Subsets = None
    """Subsets of relations that are walked apart, if they are."""

    def plan(
        self, target: Path, *, used_bytes: int = 0, block_columns: int | None = None
    ) -> DiskPlan:
        """How it fits; see `plan_on_disk`."""
        return plan_on_disk(
            self.graph, self.config, self.source, target, used_bytes=used_bytes,
            rows=None if self.rows is None else len(self.rows), memory=self.memory,
            disk=self.disk, block_columns=block_columns, threads=self.threads,
            subsets=self.subsets,
        )  # fmt: skip

    def identity(self) -> str:
        """Hash all that decides the numbers."""
        parts = {
            "schema": SCHEMA,
            "edges": self.graph.fingerprint("edges"),
            "directed": self.graph.directed,
            "features": _features_identity(self.graph, self.source),
            "config": hop_settings(self.config, self.subsets),
            "rows": None if self.rows is None else rows_hash(self.rows),
        }
        return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def propagate_to_disk(
    request: DiskRequest,
    target: Path,
    *,
    settings: Mapping[str, Any],
    overwrite: bool = False,
    on_progress: Progress | None = None,
) -> Hops:
    """Make hops at `target`, resuming earlier work on the same.

    Raises:
        StoreError: There is something already, or the disk is full; finished parts are kept then.
        MemoryBudgetError: The budget is too small.
    """
    graph = request.graph
    codes = graph.edge_types
    for array in (graph.labels, graph.train, graph.valid, graph.test, graph.indices, codes):
        release(array)
    ArtifactWriter(target, kind=KIND, overwrite=overwrite).check_target()
    request.plan(target, used_bytes=work_bytes(target))  # refuses before anything is written
    with WorkFolder(target, request.identity()) as work:
        _run(request, target, Pieces(work), settings, overwrite, on_progress)
    return Hops.open(target)


def _run(
    request: DiskRequest,
    target: Path,
    work: Pieces,
    settings: Mapping[str, Any],
    overwrite: bool,
    on_progress: Progress | None,
) -> None:
    width = work.layout.get("block_columns")
    plan = request.plan(target, used_bytes=work_bytes(target), block_columns=width)
    if width != plan.block_columns:
        work.restart(_layout(plan))
    folder = work.file(RESULT)
    run = OutOfCore(
        request.graph, request.config, plan, request.source,
        computed_rows(request.graph, request.rows), work, request.threads, on_progress,
        request.subsets,
    )  # fmt: skip
    try:
        run.run(folder / f"{ARRAY}.npy")
    except DamagedPieceError:  # the half-made result is gone, and with it rows of the parts
        work.restart(_layout(plan))
        run.run(folder / f"{ARRAY}.npy")
    for file in folder.iterdir():
        if file.name != f"{ARRAY}.npy":
            file.unlink()
    with ArtifactWriter(
        target, kind=KIND, schema=SCHEMA, overwrite=overwrite, staging=folder
    ) as writer:
        writer.metadata.update(settings)
        writer.take_array(ARRAY)
        if request.rows is not None:
            writer.write_array(ROWS, request.rows)


def _layout(plan: DiskPlan) -> dict[str, Any]:
    return {"block_columns": plan.block_columns, "slab_rows": plan.slab_rows}


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
    return (
        features.ctypes.data == source.ctypes.data
        and features.shape == source.shape
        and features.strides == source.strides
        and features.dtype == source.dtype
    )


def _digest(array: NDArray[Any]) -> list[str]:
    if region_of(array) is None:
        return checksums(array)
    digest, step = hashlib.blake2b(digest_size=16), max((1 << 24) // max(array.shape[1], 1), 1)
    ranges = [(at, min(at + step, len(array))) for at in range(0, len(array), step)]
    for (rows,) in stream_rows([array], ranges):
        digest.update(as_bytes(rows))
    return [digest.hexdigest()]
