"""What a run says of its term on unlabeled nodes at the end, from what happened in it.

A regularizer may be named and have had no part in the result: the confident set stayed empty, the
weights that were kept are older than the term, or training labels said that pseudo labels cannot be
trusted. Such a result is the base's, whatever it is called, so the run says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scr.consistency import ConsistencyConfig
from scr.training._records import TermActivity, TrainingOutcome

ENOUGH_EPOCHS = 0.8
"""Share of the epochs after the warm-up in which some node should take part."""
_TAUGHT = "teacher_valid_accuracy"


@dataclass(frozen=True)
class TermReport:
    """The term on unlabeled nodes: what was asked of it and what it did."""

    asked: ConsistencyConfig
    """As the recipe has it."""
    weight: float
    """What trust in pseudo labels left of the weight."""
    unlabeled: int
    """Nodes that may take part."""
    outcome: TrainingOutcome

    @property
    def activity(self) -> TermActivity:
        """What was counted; nothing where there was no term."""
        return self.outcome.activity or TermActivity()

    @property
    def acted(self) -> bool:
        """Whether the term had a part in the weights that were kept."""
        return self.weight > 0 and 0 < self.activity.first_epoch <= self.outcome.best_epoch

    def summary(self) -> dict[str, Any]:
        """For `metrics.json`; shares are of the nodes that may take part."""
        taught = (each for each in reversed(self.outcome.history) if each.get(_TAUGHT) is not None)
        counts = self.activity
        last: dict[str, Any] = next(taught, {})
        possible = self.unlabeled * counts.epochs
        return {
            "acted": self.acted,
            "weight": self.weight,
            "weight_asked": self.asked.weight,
            "epochs": counts.epochs,
            "acting_epochs": counts.acting_epochs,
            "first_epoch": counts.first_epoch or None,
            "confident_share": round(counts.nodes / possible, 6) if possible else None,
            "confident_share_last": (
                round(counts.last_nodes / self.unlabeled, 6) if possible else None
            ),
            "student_valid_accuracy": last.get("valid_accuracy"),
            _TAUGHT: last.get(_TAUGHT),
        }

    def notes(self) -> list[str]:
        """Sentences where the term did not act, or hardly did."""
        activity, outcome = self.activity, self.outcome
        if self.weight == 0 or outcome.stopped == "interrupted":
            return []  # the note on trust says why there was no term
        if activity.epochs == 0:
            return [
                f"The term on unlabeled nodes never acted: its warm-up takes {self.asked.warmup} "
                f"epochs, and {outcome.epochs} were trained; set consistency.warmup lower"
            ]
        if activity.acting_epochs == 0:
            return [
                "The term on unlabeled nodes never acted: no node was confident enough in any "
                f"epoch after the warm-up, of {activity.epochs}; consistency.threshold is "
                f"{self.asked.threshold:g}, set it lower"
            ]
        if not self.acted:
            return [
                f"The weights that were kept are those of epoch {outcome.best_epoch}, before the "
                "term on unlabeled nodes first acted, in epoch "
                f"{activity.first_epoch or outcome.epochs}: it had no part in them"
            ]
        if activity.acting_epochs < ENOUGH_EPOCHS * activity.epochs:
            return [
                f"The term on unlabeled nodes acted in {activity.acting_epochs} of "
                f"{activity.epochs} epochs after the warm-up; in the others no node was confident "
                f"enough, consistency.threshold is {self.asked.threshold:g}"
            ]
        return []


def collapse_notes(outcome: TrainingOutcome) -> list[str]:
    """What should be known of a run whose validation accuracy collapsed."""
    if outcome.collapsed_to is None or outcome.valid_accuracy is None:
        return []
    return [
        f"Validation accuracy collapsed from {outcome.valid_accuracy:.1%} in epoch "
        f"{outcome.best_epoch} to at most {outcome.collapsed_to:.1%} later on: the weights of that "
        "epoch were kept, although it is before training.select_after; a lower consistency.weight "
        "or a higher consistency.threshold may prevent it"
    ]
