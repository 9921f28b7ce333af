"""Stream a synthetic graph to disk: as a store, or as raw shards for `scr ingest` to work on.

Nothing larger than a chunk of edges, a block of feature rows, one bucket of edges (see
`buckets.py`: about 0.4 GB) and 17 bytes per node (offsets, labels, splits) is in memory.
The store holds the same graph, bit for bit, as `synth_graph` and as ingesting the shards.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from scr.errors import StoreError
from scr.graph.artifact import ArtifactWriter
from scr.graph.buckets import EdgeBuckets
from scr.graph.store import KIND, SCHEMA, store_metadata
from scr.graph.synth import SynthConfig, draw_labels, draw_splits, edge_chunks, feature_blocks

SHARD_EDGES = 1 << 23
"""Edges in one shard: 64 MiB."""


def write_synth_store(config: SynthConfig, path: str | Path, *, overwrite: bool = False) -> Path:
    """Write a synthetic graph as a store, whole or not at all.

    Args:
        config: What to make.
        path: The folder to make.
        overwrite: Replace a store that is there already.
    """
    path = Path(path)
    with (
        _disk_errors(path),
        ArtifactWriter(path, kind=KIND, schema=SCHEMA, overwrite=overwrite) as writer,
    ):
        steps, stored = _write_edges(config, writer)
        labels = draw_labels(config, writer.create_array("labels", (config.nodes,), np.int64))
        for name, nodes in draw_splits(config, labels).items():
            writer.write_array(name, nodes)
        if config.features:
            shape = (config.nodes, config.features)
            _fill(
                writer.create_array("features", shape, config.dtype), feature_blocks(config, labels)
            )
        writer.metadata = store_metadata(
            name="synth", nodes=config.nodes, edges=stored, features=config.features,
            class_names=config.class_names(), steps=(config.step(), *steps),
        )  # fmt: skip
    return path


def _write_edges(config: SynthConfig, writer: ArtifactWriter) -> tuple[list[str], int]:
    """Write offsets and targets; returns what was done and the number of stored edges."""
    indptr = writer.create_array("indptr", (config.nodes + 1,), np.int64)
    with EdgeBuckets(writer.path.parent, config.nodes, config.edges) as buckets:
        for sources, targets in edge_chunks(config):
            buckets.add(sources, targets)
        stored = buckets.merge(indptr)
        _fill(writer.create_array("indices", (stored,), np.int32), buckets.targets())
        loops = buckets.loops
    merged = config.edges - loops - stored // 2
    steps = [f"dropped {loops:,} self-loops", f"merged {merged:,} repeated edges",
             f"symmetrized: {stored // 2:,} edges became {stored:,} stored directions"]  # fmt: skip
    return steps, stored


def _fill(array: NDArray[Any], blocks: Iterator[NDArray[Any]]) -> None:
    start = 0
    for block in blocks:
        array[start : start + len(block)] = block
        start += len(block)


def write_synth_shards(
    config: SynthConfig, folder: str | Path, *, kind: Literal["npy", "parquet"] = "npy"
) -> Path:
    """Write a synthetic graph as raw shards, edges as drawn: once each, with repeats and loops.

    Args:
        config: What to make.
        folder: The folder to make; it must not exist, or be empty.
        kind: Of the shards of edges; everything else is `.npy`.
    """
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StoreError(
            f"`{folder}` exists already; expected a new folder", hint="choose another name"
        )
    partial = folder.parent / f".{folder.name}.partial-{secrets.token_hex(4)}"
    with _disk_errors(folder):
        partial.mkdir(parents=True)
        try:
            _write_shards(config, partial, kind)
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return folder


def _write_shards(config: SynthConfig, folder: Path, kind: str) -> None:
    for number, edges in enumerate(edge_chunks(config, SHARD_EDGES)):
        file = folder / f"edges-{number:05}.{kind}"
        if kind == "npy":
            np.save(file, edges)
        else:
            table = pa.table({"source": edges[0], "target": edges[1]})
            pyarrow.parquet.write_table(table, file)
    labels = draw_labels(config, np.empty(config.nodes, np.int64))
    np.save(folder / "labels.npy", labels)
    for name, nodes in draw_splits(config, labels).items():
        if len(nodes):
            np.save(folder / f"{name}.npy", nodes)
    if config.features:
        shape = (config.nodes, config.features)
        header = {"descr": np.dtype(config.dtype).str, "fortran_order": False, "shape": shape}
        # Written as a stream: a full disk is then an error, and not a signal as under a map.
        with (folder / "features.npy").open("wb") as stream:
            np.lib.format.write_array_header_1_0(stream, header)
            for block in feature_blocks(config, labels):
                block.tofile(stream)


@contextmanager
def _disk_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"`{path}` cannot be written: {error.strerror or error}") from error
