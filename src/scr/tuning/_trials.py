"""One member trained on some folds: its models, and what each says of the labels it was not shown.

A trial is a folder `trials/NAME`, with a folder for each finished fold, which has the files of a
run (`run.json`, `model.safetensors`, `split.npz`) and the probabilities of the held-out nodes,
`held_out.npy`, written last: a fold with it is finished.
"""

from __future__ import annotations

import io
import json
import shutil
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from scr import runs
from scr.errors import InactiveTermWarning, MemoryBudgetError, RunError, SCRError, StoreError
from scr.graph import Graph
from scr.prediction import write_model
from scr.storage import load_array, write_bytes
from scr.training import fit, prepare
from scr.tuning._portfolio import Member

HELD_OUT = "held_out.npy"
TIMES = "times.json"
TIMES_FIELDS: dict[str, Any] = {"seconds": float, "best_epoch": int}


@dataclass(frozen=True)
class Trial:
    """What is known of a member so far."""

    member: Member
    folder: Path
    folds: dict[int, NDArray[np.float32]] = field(default_factory=dict)
    """Probabilities of the nodes that each finished fold held out. Shape (nodes, classes)."""
    seconds: float = 0.0
    """That the finished folds took, with the preparation."""
    failed: str | None = None
    """Why there is no model."""

    @classmethod
    def read(cls, member: Member, folder: Path) -> Trial:
        """What earlier calls have left of these settings."""
        folds, seconds = {}, 0.0
        for path in sorted(folder.glob("fold-*")):
            if is_finished(member, path):
                folds[int(path.name.removeprefix("fold-"))] = read_held_out(path / HELD_OUT)
                seconds += float(runs.read_json(path / TIMES, TIMES_FIELDS)["seconds"])
        return cls(member, folder, folds, seconds)


def is_finished(member: Member, path: Path) -> bool:
    """Whether a fold was trained to its end, with the settings that the member has now."""
    if not (path / HELD_OUT).is_file():
        return False
    settings = json.loads(json.dumps(member.recipe.tables()))
    try:
        runs.verify_run(path)
        return bool(runs.read_run(path)["recipe"] == settings)
    except (StoreError, RunError):
        return False  # damaged: it is trained again


def read_held_out(path: Path) -> NDArray[np.float32]:
    """Probabilities that a fold has left."""
    array: NDArray[np.float32] = load_array(path, what="probabilities of a fold")
    if array.ndim != 2 or array.dtype != np.float32:
        raise StoreError(f"`{path}` is damaged; expected a row of probabilities for each node")
    return array


def run_trial(
    member: Member,
    graphs: Sequence[Graph],
    folds: Sequence[int],
    folder: Path,
    *,
    seed: int,
    device: str,
    deadline: float | None,
) -> Trial:
    """Train a member on the folds that it has not finished; one preparation serves them all.

    A fold that is not finished at the deadline is given up.
    """
    missing = [fold for fold in folds if not is_finished(member, folder / f"fold-{fold}")]
    started = time.perf_counter()
    try:
        prepared = prepare(graphs[0], member.recipe, device=device) if missing else None
        for fold in missing:
            graph = graphs[fold]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", InactiveTermWarning)
                fitted = fit(
                    graph, member.recipe, seed=seed + fold, device=device, prepared=prepared,
                    should_stop=None if deadline is None else lambda: time.time() > deadline,
                )  # fmt: skip
            if fitted.outcome.stopped == "interrupted":
                break
            path = folder / f"fold-{fold}"
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir(parents=True)
            run = runs.describe_run(
                graph, member.recipe, seed=seed + fold, source=None, command=None,
                threads=torch.get_num_threads(),
            )  # fmt: skip
            if prepared is not None and prepared.subsets is not None:
                run["subsets"] = prepared.subsets
            runs.write_json(path / runs.RUN, {**run, "notes": fitted.notes})
            runs.write_split(path / runs.SPLIT, graph)
            runs.write_history(path / runs.HISTORY, fitted.outcome.history)
            write_model(path / runs.MODEL, fitted)
            soft = fitted.probabilities(torch.from_numpy(np.asarray(graph.valid))).numpy()
            took, started = time.perf_counter() - started, time.perf_counter()
            times = {"seconds": took, "best_epoch": fitted.outcome.best_epoch}
            write_bytes(path / TIMES, json.dumps(times).encode())
            buffer = io.BytesIO()
            np.save(buffer, soft.astype(np.float32))
            runs.finish_files(path, HELD_OUT, buffer.getvalue())
    except MemoryBudgetError as error:
        return Trial(member, folder, failed=str(error))
    except SCRError as error:
        if not (folder / "fold-0").exists():
            return Trial(member, folder, failed=str(error))
        raise
    return Trial.read(member, folder)
