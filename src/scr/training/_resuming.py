"""A trainer in the middle of its run as a checkpoint, and back.

A run that goes on from a checkpoint ends in the weights of one that was never stopped. So what is
kept is all that decides the next step: weights, the optimizer's moments, averaged models and their
steps, what the regularizer remembers, the confident set, both random generators, and how far the
run is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import torch

from scr.selection import KeptWeights, Score
from scr.training._checkpoint import Checkpoint
from scr.training._records import Progress, TermActivity

if TYPE_CHECKING:
    from scr.training._loop import Trainer


def trainer_state(trainer: Trainer) -> Checkpoint:
    """Copy everything that decides what the next epoch of a trainer does."""
    state = Checkpoint(identity=trainer.identity)
    state.put_module("student", trainer.student)
    state.put_optimizer(trainer.optimizer)
    if trainer.teacher is not None:
        state.put_module("teacher", trainer.teacher.model)
        state.put("teacher_averages", trainer.teacher.averages)
    if trainer.average is not None:
        state.put_module("average", trainer.average.model)
        state.put("average_averages", trainer.average.averages)
    state.put_module("regularizer", trainer.loss)
    state.put("best", trainer.best_state)
    state.put("early", trainer.early_state)
    state.put("random", {"batches": trainer.generator.get_state(), "torch": torch.get_rng_state()})
    if trainer.rows.device.type == "cuda":
        state.put("random", {"cuda": torch.cuda.get_rng_state(trainer.rows.device)})
    confident = trainer.confident
    if confident is not None and confident.nodes is not confident.candidates:
        # All candidates may be a hundred million, and are known.
        state.put("confident", {"nodes": confident.nodes})
    progress = asdict(trainer.progress)
    state.values = {
        "progress": progress,
        "threshold": None if trainer.confident is None else trainer.confident.threshold,
        "teacher_step": None if trainer.teacher is None else trainer.teacher.step,
        "average_step": None if trainer.average is None else trainer.average.step,
    }
    return state


def restore_trainer(trainer: Trainer, state: Checkpoint) -> None:
    """Put a trainer, made with the same settings, where the state was taken."""
    trainer.student.load_state_dict(state.get("student"))
    state.load_optimizer(trainer.optimizer)
    values = state.values
    if trainer.teacher is not None:
        trainer.teacher.model.load_state_dict(state.get("teacher"))
        trainer.teacher.averages = state.get("teacher_averages")
        trainer.teacher.step = values["teacher_step"]
    if trainer.average is not None:
        trainer.average.model.load_state_dict(state.get("average"))
        trainer.average.averages = state.get("average_averages")
        trainer.average.step = values["average_step"]
    trainer.loss.load_state_dict(state.get("regularizer"))
    trainer.best_state = state.get("best")
    trainer.early_state = state.get("early")
    random = state.get("random")
    trainer.generator.set_state(random["batches"])
    torch.set_rng_state(random["torch"])
    if "cuda" in random:
        torch.cuda.set_rng_state(random["cuda"], trainer.rows.device)
    if trainer.confident is not None:
        nodes = state.get("confident").get("nodes")
        if nodes is not None:
            trainer.confident.restore(nodes, values["threshold"])
    trainer.progress = _progress(values["progress"])


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
