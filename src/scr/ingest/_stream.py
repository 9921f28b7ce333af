"""From a source to a store, part by part, where edges and features may be larger than memory.

Labels, splits and ids come first, then a look at all edges, then features, then the edges by row.
Each part is finished in the work folder before the next one begins, and all of
them become a store at once. The store is the one that the same source makes in memory, bit for bit.
"""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scr.compute import OnProgress, resident_bytes
from scr.errors import GraphError
from scr.features import features_step, open_features
from scr.graph import (
    KIND,
    SCHEMA,
    Graph,
    as_features,
    open_store,
    store_arrays,
    store_metadata,
    stored_feature_type,
    storing_steps,
)
from scr.ingest._features import FILE, check_linkable, store_features
from scr.ingest._plan import IngestPlan, IngestSize, too_little_memory
from scr.ingest._row_buckets import RowRules
from scr.ingest._row_writer import FILES, WrittenRows, count_rows, write_rows
from scr.sources import EdgeSource, IngestOptions, as_edge_source, make_graph, reading_step
from scr.sources.readers import RawGraph
from scr.storage import ArrayEntry, ArtifactWriter, WorkFolder, write_npy


@dataclasses.dataclass(eq=False, kw_only=True)
class Parts:
    """A source, taken apart so that what is finished can be let go."""

    nodes: RawGraph | None
    """Everything but the edges and the dense features; none once it is written."""
    edges: EdgeSource
    features: NDArray[Any] | None
    """Dense features as they are on disk or in memory, converted when they are written."""
    features_from: Path | None
    """The file that was given instead of the source's own features."""

    @property
    def linked_features(self) -> Any:
        """The features, if there are any, that could be linked."""
        if self.features is None and self.nodes is not None:
            return self.nodes.features
        return self.features


def take_apart(raw: RawGraph, options: IngestOptions, source: str | Path) -> Parts:
    """Set edges and dense features apart from everything else.

    Args:
        raw: What a reader gave.
        options: May name other features.
        source: What the user calls it, for messages.
    """
    given = None if options.features is None else Path(options.features).expanduser()
    if given is not None:
        features: Any = open_features(given, raw.num_nodes, f"`{source}`")
    else:
        features = raw.features
    if isinstance(features, np.ndarray) and features.dtype.kind not in "iufb":
        features = as_features(features)
    is_dense = isinstance(features, np.ndarray)
    nothing = np.zeros((2, 0), np.int64)
    nodes = dataclasses.replace(raw, edges=nothing, features=None if is_dense else features)
    return Parts(
        nodes=nodes,
        edges=as_edge_source(raw.edges),
        features=features if is_dense else None,
        features_from=given,
    )


def size_of(parts: Parts, options: IngestOptions, *, link: bool) -> IngestSize:
    """What a plan has to know of a source."""
    nodes, features = parts.nodes, parts.features
    if nodes is None:
        raise ValueError("the source is half written already")
    memory_only = None
    if nodes.weights is not None:
        memory_only = f"{parts.edges.num_edges:,} edges with weights, which works in memory only,"
    elif not options.drop_duplicates:
        memory_only = f"{parts.edges.num_edges:,} edges to count them, which works in memory only,"
    splits = (nodes.train, nodes.valid, nodes.test)
    stored = 8 * nodes.num_nodes + sum(8 * len(each) for each in splits if each is not None)
    size = 0 if features is None else features.size * stored_feature_type(features).itemsize
    is_mapped = isinstance(features, np.memmap)
    return IngestSize(
        nodes=nodes.num_nodes,
        edges=parts.edges.num_edges,
        both=options.symmetrize,
        edge_bytes=2 * parts.edges.dtype.itemsize,
        read_seconds=parts.edges.read_seconds,
        node_bytes=stored + (0 if nodes.ids is None else nodes.ids.nbytes),
        feature_source_bytes=features.nbytes if features is not None and is_mapped else 0,
        feature_store_bytes=0 if link else size,
        memory_only=memory_only,
    )


def stream_ingest(
    parts: Parts,
    options: IngestOptions,
    source: Path,
    store: Path,
    plan: IngestPlan,
    *,
    overwrite: bool = False,
    link: bool = False,
    bits: int | None = None,
    on_progress: OnProgress | None = None,
) -> Graph:
    """Write a store within the memory of a plan, whole or not at all.

    Args:
        parts: From `take_apart`; its nodes are let go once they are written.
        options: What to do with the source.
        source: Where it lies.
        store: The folder to make.
        plan: How much memory there is.
        overwrite: Replace a store that is there already.
        link: Leave the features where they are.
        bits: Rows of a unit, as a power of two; none: the usual.
        on_progress: Called in every step.
    """
    # Before hours of work, and once more when it is done.
    ArtifactWriter(store, kind=KIND, overwrite=overwrite).check_target()
    if link:
        check_linkable(parts.linked_features)
    rules = RowRules(
        num_nodes=_num_nodes(parts), both=options.symmetrize,
        keep_loops=not options.drop_self_loops, chunk_edges=plan.chunk_edges,
        **({} if bits is None else {"bits": bits}),
    )  # fmt: skip
    with WorkFolder(store, _identity(options, source, rules, link=link)) as work:
        described = _write_nodes(parts, options, source, work)
        count_rows(parts.edges, rules, work, on_progress)  # a bad edge shows before a long copy
        features = None
        if parts.features is not None:
            features = store_features(parts.features, work, link=link, on_progress=on_progress)
        rows = write_rows(
            parts.edges, rules, work,
            room=lambda chunk_edges: plan.room(resident_bytes(), chunk_edges),
            refuse=lambda needed: too_little_memory(needed, plan, resident_bytes()),
            on_progress=on_progress,
        )  # fmt: skip
        _assemble(work, described, features, rows, overwrite=overwrite)
    return open_store(store)


def _num_nodes(parts: Parts) -> int:
    if parts.nodes is None:
        raise ValueError("the source is half written already")
    return parts.nodes.num_nodes


def _identity(
    options: IngestOptions, source: Path, rules: RowRules, *, link: bool
) -> dict[str, Any]:
    given = [Path(each).expanduser() for each in (options.features, options.splits) if each]
    # Planetoid files are named by what their names begin with.
    files = [source] if source.exists() else sorted(source.parent.glob(f"{source.name}.*"))
    settings = {name: str(value) for name, value in dataclasses.asdict(options).items()}
    return {
        "files": source_identity(*files, *(file for file in given if file.exists())),
        "options": settings, "link": link, "bits": rules.bits,
    }  # fmt: skip


def source_identity(*sources: Path) -> list[list[Any]]:
    """Names, sizes and times of the files of some sources, hidden ones left out."""
    listed = []
    for source in sources:
        files = sorted(source.rglob("*")) if source.is_dir() else [source]
        for file in files:
            if file.is_file() and not any(
                part.startswith(".") for part in file.relative_to(source).parts
            ):
                status = file.stat()
                listed.append([str(file.absolute()), status.st_size, status.st_mtime_ns])
    return listed


def _write_nodes(
    parts: Parts, options: IngestOptions, source: Path, work: WorkFolder
) -> dict[str, Any]:
    """Check, split and write everything but edges and dense features; then let it go."""
    raw, features = parts.nodes, parts.features
    parts.nodes = None
    known: dict[str, Any] | None = work.finished("nodes")
    if raw is None or known is not None:
        return known or {}
    if features is not None:
        _check_shape(features, raw.num_nodes)
    graph = make_graph(raw, dataclasses.replace(options, features=None), source)
    before = (reading_step(raw, parts.edges.num_edges), *raw.notes)
    after = graph.steps[len(before) :]
    if features is not None and parts.features_from is not None:
        after = (features_step(parts.features_from, features), *after, *_converted(features))
    known = {
        "arrays": {}, "name": graph.name, "nodes": graph.num_nodes, "before": before,
        "after": after, "class_names": graph.class_names, "directed": graph.directed,
        "features": graph.num_features if features is None else features.shape[1],
        "sparse_features": sp.issparse(graph.features),
    }  # fmt: skip
    for name, array in store_arrays(graph).items():
        if name not in ("indptr", "indices"):
            known["arrays"][name] = write_npy(
                work.file(f"{name}.npy"), array, target=work.target
            ).as_json()
    work.finish("nodes", known, [f"{name}.npy" for name in known["arrays"]])
    return known


def _converted(features: NDArray[Any]) -> tuple[str, ...]:
    # Whole numbers of a file are floats by the time that a store would have to convert them.
    return storing_steps(features) if features.dtype.kind == "f" else ()


def _check_shape(features: NDArray[Any], num_nodes: int) -> None:
    if features.ndim != 2:
        raise GraphError(f"Features have the shape {features.shape}; expected (nodes, features)")
    if len(features) != num_nodes:
        raise GraphError(
            f"Features have {len(features):,} rows; expected {num_nodes:,}, one for each node"
        )


def _assemble(
    work: WorkFolder,
    described: dict[str, Any],
    features: ArrayEntry | None,
    rows: WrittenRows,
    *,
    overwrite: bool,
) -> None:
    staging = work.file("store")
    shutil.rmtree(staging, ignore_errors=True)
    with ArtifactWriter(
        work.target, kind=KIND, schema=SCHEMA, overwrite=overwrite, staging=staging
    ) as writer:
        for name, file, entry in zip(("indptr", "indices"), FILES, rows[:2], strict=True):
            writer.adopt_array(name, work.file(file), entry)
        for name, known in described["arrays"].items():
            writer.adopt_array(name, work.file(f"{name}.npy"), ArrayEntry.from_json(known))
        if features is not None:
            writer.adopt_array("features", work.file(FILE), features)
        writer.metadata = store_metadata(
            name=described["name"], nodes=described["nodes"], edges=rows.stored,
            features=described["features"], class_names=described["class_names"],
            sparse_features=described["sparse_features"], directed=described["directed"],
            steps=(*described["before"], *rows.steps, *described["after"]),
        )  # fmt: skip
