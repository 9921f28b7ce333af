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
        return self.weight > 0 and self.activity.had_part(self.outcome.best_epoch)

    def summary(self) -> dict[str, Any]:
        """For `metrics.json`."""
        with_teacher = [
            record
            for record in self.outcome.history
            if record.get("teacher_valid_accuracy") is not None
        ]
        last = with_teacher[-1] if with_teacher else {}
        return {
            "acted": self.acted,
            "weight": self.weight,
            "weight_asked": self.asked.weight,
            **self.activity.summary(self.unlabeled),
            "student_valid_accuracy": last.get("valid_accuracy"),
            "teacher_valid_accuracy": last.get("teacher_valid_accuracy"),
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


def term_report(
    asked: ConsistencyConfig | None,
    used: ConsistencyConfig | None,
    unlabeled: int,
    outcome: TrainingOutcome,
) -> TermReport | None:
    """The report of a run; none where no term was asked for.

    Args:
        asked: The settings of the recipe.
        used: The same, as trust in pseudo labels left them.
        unlabeled: How many nodes may take part.
        outcome: Of all stages.
    """
    if asked is None or used is None or asked.weight == 0:
        return None
    return TermReport(asked, used.weight, unlabeled, outcome)


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
