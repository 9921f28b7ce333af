"""Stream a synthetic graph to disk: as a store, or as raw shards for `scr ingest` to work on.

Nothing larger than some chunks of edges, some blocks of feature rows, some buckets of edges (see
`scr.ingest`: about 0.4 GB on two cores) and 17 bytes per node (offsets, labels, splits) is in
memory. The store holds the same graph, bit for bit, as ingesting the shards.

A store appears whole or not at all. Shards do so too, and resume after a kill: edge e and block b
of the features do not depend on what came before them.
"""

from __future__ import annotations

import io
import shutil
from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from scr.compute import OnProgress, ProgressCount, map_in_order
from scr.graph import KIND, SCHEMA, store_metadata
from scr.ingest import RowRules, WrittenRows, write_rows
from scr.storage import (
    FILE,
    ArtifactWriter,
    Contents,
    RunningChecksums,
    SequentialWriter,
    WorkFolder,
    as_bytes,
    atomic_file,
    check_new_folder,
    check_replaced,
    publish_file,
    publish_folder,
    vouch,
)
from scr.synth._model import (
    EDGE_CHUNK,
    ROW_CHUNK,
    SynthConfig,
    SynthEdges,
    draw_nodes,
    feature_blocks,
)

SHARD_EDGES = 1 << 23
"""Edges in one shard: 64 MiB."""
_FEATURES = "Drawing features"
RECORD_BYTES = 1 << 28
"""Of features, written between two records: bringing them to the disk stops everything else."""
_SHARD_FILES: Contents = dict.fromkeys(
    ("edges-*.npy", "edges-*.parquet", "labels.npy", "train.npy", "valid.npy", "test.npy",
     "features.npy"),
    FILE,
)  # fmt: skip
_SHARDS = "shards"
"""Folder of the work folder that becomes the result."""


def write_synth_store(
    config: SynthConfig,
    path: str | Path,
    *,
    overwrite: bool = False,
    on_progress: OnProgress | None = None,
) -> Path:
    """Write a synthetic graph as a store, whole or not at all.

    After a kill, the same call resumes with the edges if they are finished, in a hidden folder
    beside `path`.
    """
    path = Path(path)
    ArtifactWriter(path, kind=KIND, overwrite=overwrite).check_target()
    rules = RowRules(num_nodes=config.nodes, chunk_edges=EDGE_CHUNK)
    with WorkFolder(path, {"store": asdict(config)}) as work:
        rows = write_rows(SynthEdges(config), rules, work, on_progress=on_progress)
        staging = work.file("store")
        shutil.rmtree(staging, ignore_errors=True)
        with ArtifactWriter(
            path, kind=KIND, schema=SCHEMA, overwrite=overwrite, staging=staging
        ) as writer:
            for name, entry in (("indptr", rows.indptr), ("indices", rows.indices)):
                writer.adopt_array(name, work.file(f"{name}.npy"), entry)
            _write_nodes(config, writer, rows, on_progress)
    vouch(path)  # again: removing other names of its files has changed their times
    return path


def _write_nodes(
    config: SynthConfig, writer: ArtifactWriter, rows: WrittenRows, on_progress: OnProgress | None
) -> None:
    """Write everything but the edges of a store."""
    nodes = draw_nodes(config)
    writer.write_array("labels", nodes.labels, np.int64)
    for name, part in nodes.splits.items():
        writer.write_array(name, part)
    if config.features:
        shape = (config.nodes, config.features)
        stream = writer.stream_array("features", shape, config.dtype)
        progress = ProgressCount(_FEATURES, config.nodes, on_progress)
        for block in feature_blocks(config, nodes.classes):
            stream.write(block)
            progress.add(len(block))
    stored = rows.indices.shape[0]
    merged = config.edges - rows.loops - stored // 2
    steps = [f"dropped {rows.loops:,} self-loops", f"merged {merged:,} repeated edges",
             f"symmetrized: {stored // 2:,} edges became {stored:,} stored directions"]  # fmt: skip
    writer.metadata = store_metadata(
        name="synth", nodes=config.nodes, edges=stored, features=config.features,
        class_names=config.class_names(), steps=(config.step(), *steps),
    )  # fmt: skip


def write_synth_shards(
    config: SynthConfig,
    folder: str | Path,
    *,
    kind: Literal["npy", "parquet"] = "npy",
    overwrite: bool = False,
    on_progress: OnProgress | None = None,
) -> Path:
    """Write a synthetic graph as raw shards, edges as drawn: once each, with repeats and loops.

    The folder must not exist, or be empty, or, with `overwrite`, hold such shards. `kind` is that
    of the shards of edges; everything else is `.npy`. After a kill or a full disk, the same call
    resumes with what is finished, in a hidden folder beside `folder`.
    """
    folder = Path(folder)
    identity = {**asdict(config), "kind": kind, "shard_edges": SHARD_EDGES}
    check = _check_shards if overwrite else check_new_folder
    check(folder)
    with WorkFolder(folder, identity) as work:
        work.file(_SHARDS).mkdir(exist_ok=True)
        _write_edge_shards(config, work, kind, on_progress)
        classes, labels, splits = draw_nodes(config)
        _save(work, "labels.npy", labels)
        for name, nodes in splits.items():
            if len(nodes):
                _save(work, f"{name}.npy", nodes)
        del labels, splits
        if config.features:
            _write_features(config, work, classes, on_progress)
        check(folder)
        publish_folder(work.file(_SHARDS), folder)
    return folder


def _check_shards(folder: Path) -> None:
    check_replaced(folder, _SHARD_FILES, known_by="edges-*")


def _write_edge_shards(
    config: SynthConfig, work: WorkFolder, kind: str, on_progress: OnProgress | None
) -> None:
    """Write the shards that are missing; one is written while the next one is drawn."""
    names = [f"edges-{number:05}.{kind}" for number in range(-(-config.edges // SHARD_EDGES))]
    first = next((at for at, name in enumerate(names) if work.finished(name) is None), len(names))
    chunks = SynthEdges(config).chunks(SHARD_EDGES, first * SHARD_EDGES)
    written = map_in_order(
        lambda shard: _save(work, *shard, shards=len(names)),
        zip(names[first:], chunks, strict=True),
        threads=1, ahead=2,
    )  # fmt: skip
    progress = ProgressCount("Drawing edges", config.edges, on_progress, first * SHARD_EDGES)
    for _ in written:
        progress.add(SHARD_EDGES)


def _write_features(
    config: SynthConfig,
    work: WorkFolder,
    classes: NDArray[np.int64],
    on_progress: OnProgress | None,
) -> None:
    """Write the features as a stream, from the first block that is not recorded as written."""
    name = "features.npy"
    if work.finished(name) is not None:
        return
    dtype, shape = np.dtype(config.dtype), (config.nodes, config.features)
    header = _header(shape, dtype)
    block_bytes = ROW_CHUNK * config.features * dtype.itemsize
    known = work.finished(f"{name} so far") or {"blocks": 0, "checksums": []}
    # A stream and no memory map: a full disk is then an error, and not a signal.
    work.file(name).touch()
    with ExitStack() as stack:
        stream = stack.enter_context(work.file(name).open("r+b", buffering=0))
        stream.write(header)
        digests = _read_again(stream, known["blocks"] * block_bytes)
        start = known["blocks"]
        if digests.digests() != known["checksums"]:
            start, digests = 0, RunningChecksums()
        begin = len(header) + digests.bytes  # the last block may be a short one
        stream.truncate(begin)
        expected = config.nodes * config.features * dtype.itemsize
        writer = stack.enter_context(
            closing(SequentialWriter(work.file(name), stream.fileno(), begin, expected))
        )
        progress = ProgressCount(_FEATURES, config.nodes, on_progress, start * ROW_CHUNK)
        recorded = digests.bytes
        for number, block in enumerate(feature_blocks(config, classes, start), start + 1):
            data = as_bytes(block)
            writer.write(data)
            digests.update(data)
            if digests.bytes - recorded >= RECORD_BYTES:
                writer.sync()
                written = {"blocks": number, "checksums": digests.digests()}
                work.finish(f"{name} so far", written, changing=[name])
                recorded = digests.bytes
            progress.add(len(block))
        writer.sync()
    publish_file(work.file(name), work.file(f"{_SHARDS}/{name}"))
    work.finish(name, files=[f"{_SHARDS}/{name}"])


def _header(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    """What a `.npy` file of an array begins with, as `numpy.save` writes it."""
    stream = io.BytesIO()
    fields = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, fields)
    return stream.getvalue()


def _read_again(stream: BinaryIO, size: int) -> RunningChecksums:
    """Checksums of the next bytes of a file, or of those that there are."""
    digests = RunningChecksums()
    while digests.bytes < size and (data := stream.read(min(size - digests.bytes, 1 << 22))):
        digests.update(memoryview(data))
    return digests


def _save(work: WorkFolder, name: str, array: NDArray[Any], *, shards: int = 1) -> None:
    """Write a file of the result, as its name ends, and tell the journal, unless it is there.

    It is one of so many `shards` of its size.
    """
    if work.finished(name) is not None:
        return
    with atomic_file(work.file(f"{_SHARDS}/{name}"), partial=work.file(name)) as file:
        if file.suffix == ".npy":
            with file.open("w+b", buffering=0) as stream:
                stream.write(header := _header(array.shape, array.dtype))
                expected = shards * array.nbytes
                writer = SequentialWriter(file, stream.fileno(), len(header), expected)
                with closing(writer):
                    writer.write(as_bytes(np.ascontiguousarray(array)))
                    writer.sync()
        else:
            pyarrow.parquet.write_table(pa.table({"source": array[0], "target": array[1]}), file)
    work.finish(name, files=[f"{_SHARDS}/{name}"])
