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

from scr.compute import OnProgress
from scr.errors import GraphError
from scr.features import features_step
from scr.graph import (
    KIND,
    SCHEMA,
    Graph,
    as_features,
    open_store,
    store_arrays,
    store_metadata,
    storing_steps,
)
from scr.ingest._features import FILE, store_features
from scr.ingest._plan import IngestPlan
from scr.ingest._row_buckets import UNIT_BITS, RowRules
from scr.ingest._row_writer import FILES, WrittenRows, count_rows, write_rows
from scr.sources import EdgeSource, IngestOptions, as_edge_source, make_graph, reading_step
from scr.sources.readers import RawGraph
from scr.storage import ArrayEntry, ArtifactWriter, WorkFolder, vouch, write_npy


@dataclasses.dataclass(eq=False, kw_only=True)
class Parts:
    """A source, taken apart so that what is finished can be let go."""

    nodes: RawGraph
    """Everything but the edges and the dense features; deleted once it is written."""
    edges: EdgeSource
    features: NDArray[Any] | None
    """Dense features as they are on disk or in memory, converted when they are written."""
    steps: tuple[str, ...]
    """What the reader has done, in words."""


def take_apart(raw: RawGraph, features: Any) -> Parts:
    """Set edges and dense features, the source's own or another file's, apart from the rest."""
    if isinstance(features, np.ndarray) and features.dtype.kind not in "iufb":
        features = as_features(features)
    dense = features if isinstance(features, np.ndarray) else None
    nodes = dataclasses.replace(
        raw, edges=np.zeros((2, 0), np.int64), features=features if dense is None else None
    )
    steps = (reading_step(raw), *raw.notes)
    return Parts(nodes=nodes, edges=as_edge_source(raw.edges), features=dense, steps=steps)


def stream_ingest(
    parts: Parts,
    options: IngestOptions,
    source: Path,
    store: Path,
    plan: IngestPlan,
    *,
    overwrite: bool = False,
    link: bool = False,
    bits: int = UNIT_BITS,
    on_progress: OnProgress | None = None,
) -> Graph:
    """Write a store within the memory of a plan, whole or not at all; see `ingest`.

    The nodes of the parts are let go once they are written. A unit of rows has 2^bits of them.
    """
    # Before hours of work, and once more when it is done.
    ArtifactWriter(store, kind=KIND, overwrite=overwrite).check_target()
    rules = RowRules(
        num_nodes=parts.nodes.num_nodes, both=options.symmetrize,
        keep_loops=not options.drop_self_loops, chunk_edges=plan.chunk_edges, bits=bits,
    )  # fmt: skip
    with WorkFolder(store, _identity(options, source, rules, link=link)) as work:
        described = _write_nodes(parts, options, source, work)
        count_rows(parts.edges, rules, work, on_progress)  # a bad edge shows before a long copy
        features = None
        if parts.features is not None:
            features = store_features(parts.features, work, link=link, on_progress=on_progress)
        rows = write_rows(parts.edges, rules, work, plan, on_progress)
        _assemble(work, described, features, rows, overwrite=overwrite)
    vouch(store)  # again: removing other names of its files has changed their times
    return open_store(store)


def _identity(
    options: IngestOptions, source: Path, rules: RowRules, *, link: bool
) -> dict[str, Any]:
    """All that decides the content of the parts: settings, and names, sizes and times of files."""
    given = [Path(each).expanduser() for each in (options.features, options.splits) if each]
    # Planetoid files are named by what their names begin with.
    sources = [source] if source.exists() else sorted(source.parent.glob(f"{source.name}.*"))
    files = []
    for root in (*sources, *given):
        for file in sorted(root.rglob("*")) if root.is_dir() else [root]:
            is_hidden = any(part.startswith(".") for part in file.relative_to(root).parts)
            if file.is_file() and not is_hidden:
                status = file.stat()
                files.append([str(file.absolute()), status.st_size, status.st_mtime_ns])
    settings = {name: str(value) for name, value in dataclasses.asdict(options).items()}
    return {"files": files, "options": settings, "link": link, "bits": rules.bits}


def _write_nodes(
    parts: Parts, options: IngestOptions, source: Path, work: WorkFolder
) -> dict[str, Any]:
    """Check, split and write everything but edges and dense features; then let it go."""
    raw, features = parts.nodes, parts.features
    del parts.nodes
    known: dict[str, Any] | None = work.finished("nodes")
    if known is not None:
        return known
    if features is not None and (features.ndim != 2 or len(features) != raw.num_nodes):
        raise GraphError(
            f"Features have the shape {features.shape}; expected {raw.num_nodes:,} rows, one for "
            "each node, and columns"
        )
    graph = make_graph(raw, dataclasses.replace(options, features=None), source)
    after = graph.steps[len(parts.steps) :]
    if features is not None and options.features is not None:
        # Whole numbers of a file are floats by the time that a store would have to convert them.
        converted = storing_steps(features) if features.dtype.kind == "f" else ()
        after = (features_step(options.features, features), *after, *converted)
    known = {
        "arrays": {}, "name": graph.name, "nodes": graph.num_nodes, "before": parts.steps,
        "after": after, "class_names": graph.class_names, "directed": graph.directed,
        "features": graph.num_features if features is None else features.shape[1],
        "sparse_features": sp.issparse(graph.features),
    }  # fmt: skip
    files = {}
    for name, array in store_arrays(graph).items():
        if name not in ("indptr", "indices"):
            file = f"{name}.npy"
            files[file] = write_npy(work.file(file), array, target=work.target)
            known["arrays"][name] = files[file].as_json()
    work.finish("nodes", known, files)
    return known


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
            name=described["name"], nodes=described["nodes"], edges=rows.indices.shape[0],
            features=described["features"], class_names=described["class_names"],
            sparse_features=described["sparse_features"], directed=described["directed"],
            steps=(*described["before"], *rows.steps, *described["after"]),
        )  # fmt: skip
