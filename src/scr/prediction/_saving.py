"""Save a fitted model as a run directory, whole or not at all."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch

from scr import runs
from scr.errors import RunError
from scr.prediction._predictor import Predictor


def save_run(predictor: Predictor, path: Path, *, seed: int, source: str | None) -> Path:
    """Write a new run directory; see `NodeClassifier.save`."""
    if path.exists():
        raise RunError(
            f"`{path}` exists already; expected a new folder", hint="choose another path"
        )
    fitted, graph = predictor.fitted(), predictor.graph
    store = None if graph.path is None else str(graph.path.resolve())
    run = runs.describe_run(
        graph, fitted.recipe, seed=seed, source=source or graph.source or store, command=None,
        threads=torch.get_num_threads(),
    )  # fmt: skip
    temporary = path.with_name(f".{path.name}.partial")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        runs.start_run(temporary, run, resume=False)
        predictor.write_run(temporary, run)
        temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return path
