"""What the training loop is given, and what it says about itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from scr.consistency import ConsistencyConfig, confidence_mask, target_confidence
from scr.metrics import ACCURACY, Metric, effective_nodes
from scr.selection import KeptWeights, Score
from scr.training._config import TrainingConfig
from scr.training._objective import target_loss
from scr.training._rows import as_probabilities


class ValidationNodes:
    """Validation nodes, and the only place in training where their labels are held.

    The loop asks for numbers and gets numbers. It uses them to keep the best weights and to stop,
    never for a gradient, a weight or a choice of rows.
    """

    def __init__(self, nodes: Tensor, labels: Tensor, metric: Metric = ACCURACY) -> None:
        self.nodes = nodes
        self._labels = labels
        self._metric = metric

    def score(self, logits: Tensor) -> Score:
        """Accuracy, cross-entropy and the metric of logits for `nodes`, in their order."""
        is_multilabel = self._labels.ndim == 2
        if is_multilabel:
            accuracy = self._targets_right(logits > 0)
            loss = target_loss(logits, self._labels).item()
        else:
            accuracy = (logits.argmax(dim=-1) == self._labels).float().mean().item()
            loss = F.cross_entropy(logits, self._labels).item()
        if self._metric.name in ("accuracy", "log-loss"):
            return Score(accuracy, loss)
        probabilities = as_probabilities(logits, is_multilabel).cpu().numpy()
        value = self._metric.measure(self._labels.cpu().numpy(), probabilities)
        return Score(accuracy, loss, value)

    def _targets_right(self, predicted: Tensor, rows: Tensor | None = None) -> float:
        """Share of the known entries, of some rows, whose target is predicted right."""
        labels = self._labels if rows is None else self._labels[rows]
        right = (predicted if rows is None else predicted[rows]) == (labels == 1)
        return right[labels >= 0].float().mean().item()

    def reported(self, score: Score) -> float | None:
        """The metric of a score, for the history; none: it is accuracy."""
        return score.loss if self._metric.name == "log-loss" else score.metric

    @property
    def effective_nodes(self) -> int:
        """Of how many nodes accuracy would be as uncertain as the metric of these."""
        return effective_nodes(self._labels.cpu().numpy(), self._metric)

    def noise(self, value: float, logits: Tensor) -> float:
        """Standard error of the metric's value, which these logits for `nodes` have."""
        if self._metric.name == "log-loss":
            if self._labels.ndim == 2:
                rows = zip(logits, self._labels, strict=True)
                losses = torch.stack([target_loss(row, label) for row, label in rows])
            else:
                losses = F.cross_entropy(logits, self._labels, reduction="none")
            return losses.std(correction=0).item() / math.sqrt(len(losses))
        return math.sqrt(value * (1 - value) / max(self.effective_nodes, 1))

    def confident_accuracy(self, probabilities: Tensor, threshold: float) -> float | None:
        """Accuracy on the nodes that the confident set would take: for people, in the history."""
        is_multilabel = self._labels.ndim == 2
        sure = target_confidence(probabilities)[:, None] if is_multilabel else probabilities
        mask = confidence_mask(sure, threshold)
        if not bool(mask.any()):
            return None
        if is_multilabel:
            return self._targets_right(probabilities > 0.5, mask)
        right = probabilities[mask].argmax(dim=-1) == self._labels[mask]
        return right.float().mean().item()


NO_VALIDATION = ValidationNodes(
    torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64)
)


@dataclass(frozen=True)
class EpochRecord:
    """What one epoch did; those with an evaluation are kept in the history."""

    epoch: int
    supervised_loss: float
    consistency_loss: float
    learning_rate: float
    confident_nodes: int
    threshold: float | None
    seconds: float
    valid_accuracy: float | None = None
    valid_loss: float | None = None
    confident_valid_accuracy: float | None = None
    """Of the validation nodes that the confident set would take."""
    teacher_valid_accuracy: float | None = None
    """Of the averaged teacher, from the end of the warm-up on."""
    test_accuracy: float | None = None
    """Only for curves that a person looks at; nothing in training reads it."""
    stage: int = 1
    valid_metric: float | None = None
    """What counts, where that is not accuracy."""

    def table(self) -> dict[str, Any]:
        """As plain values; without `valid_metric` where there is none."""
        plain = asdict(self)
        if self.valid_metric is None:
            del plain["valid_metric"]
        return plain


@dataclass
class TermActivity:
    """What the term on unlabeled nodes did in a run, counted in the epochs as they happened."""

    epochs: int = 0
    """Epochs after the warm-up."""
    acting_epochs: int = 0
    """Those of them in which at least one node took part."""
    first_epoch: int = 0
    """The first of these, counted from 1; 0: there was none."""
    nodes: int = 0
    """Nodes that took part, summed over the epochs after the warm-up."""
    last_nodes: int = 0
    """Nodes that took part in the last epoch."""

    def add(self, epoch: int, nodes: int) -> None:
        """Count an epoch after the warm-up, in which so many nodes took part."""
        self.epochs += 1
        self.nodes += nodes
        self.last_nodes = nodes
        if nodes:
            self.acting_epochs += 1
            self.first_epoch = self.first_epoch or epoch

    @classmethod
    def joined(cls, stages: Sequence[TermActivity | None]) -> TermActivity | None:
        """All stages of a run; the weights that it keeps are of the last one."""
        present = [each for each in stages if each is not None]
        if not present:
            return None
        return cls(
            epochs=sum(each.epochs for each in present),
            acting_epochs=sum(each.acting_epochs for each in present),
            first_epoch=present[-1].first_epoch,
            nodes=sum(each.nodes for each in present),
            last_nodes=present[-1].last_nodes,
        )


class Handover(NamedTuple):
    """What a finished stage hands to the next one."""

    nodes: Tensor
    """Reliable nodes, none of them a training node."""
    soft_labels: Tensor
    """Their tempered predictions, for `sle` made hard, shape (nodes, classes)."""
    confident: Tensor
    """Nodes for the consistency term of the next stage."""

    @classmethod
    def nothing(cls, classes: int) -> Handover:
        """What a stage is given that relies on no predictions."""
        no_nodes = torch.zeros(0, dtype=torch.int64)
        return cls(no_nodes, torch.zeros(0, classes), no_nodes)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage of a run, as a trainer is asked for it."""

    train: Tensor
    """Training nodes; one may come twice."""
    train_labels: Tensor
    """Their classes, or 0, 1 and -1 of several targets, shape (nodes, targets)."""
    unlabeled: Tensor
    """Nodes that may take part in the term on unlabeled nodes."""
    validation: ValidationNodes
    training: TrainingConfig
    consistency: ConsistencyConfig | None = None
    """Settings of the term; none trains on labels alone."""
    regularizer: str = "scr"
    """What the term is: `scr` (SCR-m, if `consistency` has a decay) or an alternative's name."""
    seed: int = 0
    """Decides batches and dropout."""
    reliable: Handover | None = None
    """Nodes that an earlier stage labeled, with a loss term of their own."""
    reliable_weight: float = 1.0
    """Factor of that term (gamma)."""
    watched: ValidationNodes = NO_VALIDATION
    """Nodes whose accuracy is written into the history and not used for any choice."""
    number: int = 1
    epochs_before: int = 0
    """Epochs of earlier stages; records count through all of them."""
    checkpoint: Path | None = None
    """File to resume from, if it exists, and to write to."""
    identity: str = ""
    """Names the run in its files, so that no other run resumes from them."""
    on_epoch: Callable[[EpochRecord], None] | None = None
    should_stop: Callable[[], bool] | None = None
    """Both are called after every epoch."""


@dataclass(frozen=True)
class TrainingOutcome:
    history: list[dict[str, Any]]
    best_epoch: int
    epochs: int
    valid_accuracy: float | None
    train_seconds: float
    stopped: str
    """Why training ended: `epochs`, `patience` or `interrupted`."""
    activity: TermActivity | None = None
    """Of the term on unlabeled nodes; none: there is no such term."""
    collapsed_to: float | None = None
    """Where weights from before `select_after` were kept: the best validation accuracy after it, or
    what counts in its place."""
    valid_metric: float | None = None
    """What counts, where that is not accuracy."""


@dataclass
class Progress:
    """What changes from epoch to epoch besides the weights."""

    epoch: int = 0
    kept: KeptWeights = field(default_factory=KeptWeights)
    hopeful_epoch: int = 0
    """The last one with an accuracy as high, or a loss as low, as any before."""
    extremes: Score | None = None
    """Highest accuracy and lowest loss so far."""
    activity: TermActivity = field(default_factory=TermActivity)
    seconds: float = 0.0
    history: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def restored(cls, values: Mapping[str, Any]) -> Progress:
        """What `asdict` turned into plain tables, as it was."""

        def score(plain: Mapping[str, float] | None) -> Score | None:
            return None if plain is None else Score(**plain)

        kept, activity = values["kept"], TermActivity(**values["activity"])
        scores = {"best": score(kept["best"]), "early": score(kept["early"])}
        tables = {"kept": KeptWeights(**{**kept, **scores}), "extremes": score(values["extremes"])}
        return cls(**{**values, **tables, "activity": activity})


ENOUGH_EPOCHS = 0.8
"""Share of the epochs after the warm-up in which some node should take part."""
_TAUGHT = "teacher_valid_accuracy"


@dataclass(frozen=True)
class TermReport:
    """The term on unlabeled nodes: what was asked of it and what it did.

    A regularizer may have had no part in the result: no node was confident, the weights that were
    kept are older than the term, or pseudo labels could not be trusted. Such a result is the
    base's, whatever it is called, so the run says so.
    """

    asked: ConsistencyConfig
    """As the recipe has it."""
    weight: float
    """What trust in pseudo labels left of the weight."""
    unlabeled: int
    """Nodes that may take part."""
    outcome: TrainingOutcome
    gain: Mapping[str, float] | None = None
    """Over the baseline, where one was trained beside it."""

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
            **(self.gain or {}),
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


def collapse_notes(outcome: TrainingOutcome, metric: Metric = ACCURACY) -> list[str]:
    """What should be known of a run whose validation accuracy, or other metric, collapsed."""
    if outcome.collapsed_to is None or outcome.valid_accuracy is None:
        return []
    reached = outcome.valid_accuracy
    if metric.higher_is_better and outcome.valid_metric is not None:
        reached = outcome.valid_metric
    title = metric.title if metric.higher_is_better else ACCURACY.title
    return [
        f"Validation {title} collapsed from {reached:.1%} in epoch "
        f"{outcome.best_epoch} to at most {outcome.collapsed_to:.1%} later on: the weights of that "
        "epoch were kept, although it is before training.select_after; a lower consistency.weight "
        "or a higher consistency.threshold may prevent it"
    ]
