"""Embeddings of nodes from the relations alone, trained once for each store.

Beside a store, the result is an artifact, and so is the state after an epoch, from which a training
that was killed is resumed to the same numbers. Whoever asks for the same at the same time waits.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scr.compute import OnProgress, check_memory, process_budget, resident_bytes
from scr.features import FeatureConfig
from scr.graph import Graph
from scr.storage import ArtifactWriter, LockedFolder, discard_partial, open_array, read_manifest
from scr.typed_features._cache import cache_path, open_whole
from scr.typed_features._embedding_training import EmbeddingTraining

KIND, SCHEMA = "embeddings", 1
TRAINING_SETTINGS = tuple(
    name for name in vars(FeatureConfig())
    if name.startswith("embedding_") and name not in ("embedding_types", "embedding_width")
)  # fmt: skip
"""Settings that decide the numbers; the other two say whose embeddings are used, and how wide."""
_CHECKPOINT_SECONDS = 30.0
"""Between checkpoints, at least: short epochs are not worth writing each of them."""


def embed(
    graph: Graph,
    config: FeatureConfig,
    width: int,
    *,
    memory: str | int = "auto",
    on_progress: OnProgress | None = None,
    device: str = "cpu",
    checkpoint_seconds: float = _CHECKPOINT_SECONDS,
) -> NDArray[np.float32]:
    """Embeddings of all nodes of all types, found beside the store or trained.

    Shape (nodes, width), a memory map where there is a store. `config.missing` is the model, and
    another kind of device gives slightly other numbers. Other arguments are those of
    `complete_features`.
    """
    settings = {name: getattr(config, name) for name in TRAINING_SETTINGS}
    parts = {"graph": graph.fingerprint("edges"), "width": width, "device": device.split(":")[0],
             "model": config.missing, **settings}  # fmt: skip
    path = cache_path(graph, "embeddings-", {"schema": SCHEMA, **parts})
    if path is None:
        _check_memory(graph, width, memory)
        training = EmbeddingTraining(graph, config, width, device)
        return training.run(None, checkpoint_seconds, on_progress)
    with _alone(path):
        manifest = open_whole(path, KIND, SCHEMA)
        if manifest is None:
            _check_memory(graph, width, memory)
            training = EmbeddingTraining(graph, config, width, device)
            checkpoint = path.with_name(f"{path.name}.checkpoint")
            rows = training.run(checkpoint, checkpoint_seconds, on_progress)
            with ArtifactWriter(path, kind=KIND, schema=SCHEMA, overwrite=True) as writer:
                writer.write_array("nodes", rows)
                writer.metadata = {**parts, "best_epoch": training.best_epoch,
                                   "mean_rank": training.best_rank}  # fmt: skip
            shutil.rmtree(checkpoint, ignore_errors=True)
            manifest = read_manifest(path, KIND, schema=SCHEMA)
        return open_array(manifest, "nodes")


def _check_memory(graph: Graph, width: int, memory: str | int) -> None:
    # Embeddings, Adagrad's squares, and the best of them; then each edge in three arrays, twice.
    needed = resident_bytes() + 12 * graph.num_nodes * width + 24 * graph.num_edges
    what = f"Training embeddings of {graph.num_nodes:,} nodes needs"
    hint = 'use more memory, or `data.missing = "average"`'
    check_memory(what, needed, process_budget(memory), hint=hint)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Let one process at a time make what belongs at a path; others wait for it."""
    folder = LockedFolder(path.with_name(f".{path.name}.work"), path)
    folder.acquire(wait=True)
    try:
        discard_partial(path.parent)
        yield
    finally:
        folder.remove()
