"""A trainer in the middle of its run as a checkpoint, and back.

A resumed run ends in the weights of one that was never stopped. So a checkpoint has all that
decides the next step: weights, the optimizer's moments, averaged models and their steps, what the
regularizer remembers, the confident set, both random generators, and how far the run is.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from scr.selection import KeptWeights, Score
from scr.training._checkpoint import Checkpoint
from scr.training._records import Progress, TermActivity

if TYPE_CHECKING:
    from scr.training._loop import Trainer


class CheckpointFile:
    """The checkpoint of a trainer; without a path nothing is read or written."""

    def __init__(self, path: Path | None, identity: str) -> None:
        """Take the place.

        Args:
            path: The file, or none.
            identity: Names the run, so that no other run resumes from the file.
        """
        self.path, self.identity = path, identity
        self._saved = time.monotonic()

    def restore(self, trainer: Trainer) -> None:
        """Put a trainer, made with the same settings, where the file was written, if there is one.

        `save` counts from here.
        """
        self._saved = time.monotonic()
        if self.path is not None and self.path.exists():
            restore_trainer(trainer, Checkpoint.read(self.path, self.identity))

    def save(self, trainer: Trainer, *, every: float = 0.0) -> None:
        """Write the file, unless that was done less than `every` seconds ago."""
        if self.path is None or (every and time.monotonic() - self._saved <= every):
            return
        trainer_state(trainer).write(self.path)
        self._saved = time.monotonic()


def trainer_state(trainer: Trainer) -> Checkpoint:
    """Copy everything that decides what the next epoch of a trainer does."""
    state = Checkpoint(identity=trainer.checkpoint.identity)
    state.put("student", trainer.student.state_dict())
    state.put_optimizer(trainer.optimizer)
    trainer.term.put(state)
    for name, average in trainer.averages.items():
        state.put(name, average.model.state_dict())
        state.put(f"{name}_averages", average.averages)
        state.values[f"{name}_step"] = average.step
    for name, weights in trainer.states.items():
        state.put(name, weights)
    state.put("random", {"batches": trainer.generator.get_state(), "torch": torch.get_rng_state()})
    if trainer.rows.device.type == "cuda":
        state.put("random", {"cuda": torch.cuda.get_rng_state(trainer.rows.device)})
    state.values["progress"] = asdict(trainer.progress)
    return state


def restore_trainer(trainer: Trainer, state: Checkpoint) -> None:
    """Put a trainer, made with the same settings, where the state was taken."""
    trainer.student.load_state_dict(state.get("student"))
    state.load_optimizer(trainer.optimizer)
    trainer.term.load(state)
    for name, average in trainer.averages.items():
        average.model.load_state_dict(state.get(name))
        average.averages = state.get(f"{name}_averages")
        average.step = state.values[f"{name}_step"]
    trainer.states = {name: state.get(name) for name in ("best", "early")}
    random = state.get("random")
    trainer.generator.set_state(random["batches"])
    torch.set_rng_state(random["torch"])
    if "cuda" in random:
        torch.cuda.set_rng_state(random["cuda"], trainer.rows.device)
    trainer.progress = _progress(state.values["progress"])


def _progress(values: Mapping[str, Any]) -> Progress:
    """What `asdict` made plain tables of, as it was."""
    kept = {name: values["kept"][name] for name in ("best_epoch", "early_epoch")}
    weights = KeptWeights(
        best=_score(values["kept"]["best"]), early=_score(values["kept"]["early"]), **kept
    )
    extremes, activity = _score(values["extremes"]), TermActivity(**values["activity"])
    return Progress(**{**values, "kept": weights, "extremes": extremes, "activity": activity})


def _score(values: Mapping[str, float] | None) -> Score | None:
    return None if values is None else Score(**values)
