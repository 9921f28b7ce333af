"""What validation nodes say about a trained model's probabilities, kept with the model."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from scr.errors import RunError, StoreError
from scr.graph import Graph
from scr.prediction.calibration._conformal import score_limits, set_scores
from scr.prediction.calibration._temperature import (
    RANGE,
    apply_temperature,
    fit_temperature,
    log_probabilities,
)
from scr.report import classification_metrics
from scr.runs import CALIBRATION, RUN
from scr.storage import load_arrays, write_bytes
from scr.training import nodes_with_labels

MOST_NODES = 100_000
"""Validation nodes looked at; with as many, a coverage is known to a tenth of a point."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """A temperature, and the scores of validation nodes that prediction sets are made with."""

    temperature: float = 1.0
    scores: NDArray[np.float64] | None = None
    """Of the label of each validation node (`set_scores`); none: they were not kept."""
    labels: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Its class."""
    notes: tuple[str, ...] = ()
    """What was done, in sentences."""

    @classmethod
    def of(
        cls,
        probabilities: NDArray[np.float32],
        labels: NDArray[np.int64],
        method: Literal["temperature", "none"] = "temperature",
    ) -> Calibration:
        """Look at what a model says of labeled validation nodes.

        Args:
            probabilities: As the model gives them. Shape (nodes, classes).
            labels: Shape (nodes,).
            method: `none` leaves the probabilities as they are.
        """
        if not np.isfinite(probabilities).all():
            return cls()
        temperature = 1.0
        if method == "temperature":
            temperature = fit_temperature(log_probabilities(probabilities), labels)
        tempered = apply_temperature(probabilities, temperature)
        scores = set_scores(tempered)[np.arange(len(labels)), labels]
        notes = []
        if temperature != 1:
            before, after = (
                classification_metrics(labels, each)["calibration_error"]
                for each in (probabilities, tempered)
            )
            notes.append(
                f"Probabilities were tempered by {temperature:.3g}: calibration error on "
                f"validation nodes {before:.1%} -> {after:.1%}"
            )
        return cls(temperature, scores, labels, tuple(notes))

    def apply(self, probabilities: NDArray[np.float32]) -> NDArray[np.float32]:
        """Probabilities of the model, tempered."""
        return apply_temperature(probabilities, self.temperature)

    def limits(
        self, coverage: float, class_names: Sequence[str], *, per_class: bool = False
    ) -> NDArray[np.float64]:
        """The highest score of every class that belongs to a set."""
        if self.scores is None:
            raise RunError(
                "The run has no scores of validation nodes, which prediction sets are made with; "
                "expected a run of this version",
                hint="train it again",
            )
        return score_limits(self.scores, self.labels, coverage, class_names, per_class=per_class)


def calibration_nodes(graph: Graph) -> NDArray[np.int64]:
    """Labeled validation nodes, at most `MOST_NODES` of them, ascending."""
    nodes = nodes_with_labels(graph, "valid")
    if len(nodes) <= MOST_NODES:
        return nodes
    return np.sort(np.random.default_rng(0).choice(nodes, MOST_NODES, replace=False))


def write_calibration(path: Path, calibration: Calibration) -> None:
    """Write scores and classes of the validation nodes into a run directory."""
    if calibration.scores is None:
        return
    buffer = io.BytesIO()
    np.savez(buffer, scores=calibration.scores, labels=calibration.labels)
    write_bytes(path / CALIBRATION, buffer.getvalue())


def read_calibration(path: Path, run: Mapping[str, Any]) -> Calibration:
    """The calibration of a run directory with this `run.json`; older runs have none."""
    temperature, classes = run.get("temperature", 1.0), len(run["graph"]["class_names"])
    if not isinstance(temperature, int | float) or not RANGE[0] <= temperature <= RANGE[1]:
        raise StoreError(
            f"`{path / RUN}` has the temperature {temperature!r}; expected a number from "
            f"{RANGE[0]:g} to {RANGE[1]:g}"
        )
    file = path / CALIBRATION
    if not file.exists():
        return Calibration(float(temperature))
    arrays = load_arrays(file, what="a calibration", names=("scores", "labels"))
    scores, labels = arrays["scores"], arrays["labels"]
    is_whole = (
        scores.ndim == 1 and scores.shape == labels.shape
        and scores.dtype == np.float64 and labels.dtype == np.int64
        and bool(((scores >= 0) & (scores <= 1)).all())
        and bool(((labels >= 0) & (labels < classes)).all())
    )  # fmt: skip
    if not is_whole:
        raise StoreError(
            f"The calibration `{file}` is damaged; expected scores from 0 to 1 and classes from 0 "
            f"to {classes - 1}, one of each per validation node",
            hint="train the run again",
        )
    return Calibration(float(temperature), scores, labels)
