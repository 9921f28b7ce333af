"""The loss of one mixed batch: cross-entropy on labeled rows, consistency on confident ones.

In later stages of RLU, reliable rows add a term of their own: what the stage before said of them.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from scr.consistency import MeanTeacher, UnlabeledLoss, noisy_views, weak_view
from scr.encoders import HopBatch
from scr.networks import GraphBatch
from scr.training._batches import of_step


class BatchLoss(NamedTuple):
    """Both terms of the loss."""

    supervised: Tensor
    """On labels, those of the stage before included."""
    consistency: Tensor

    @property
    def total(self) -> Tensor:
        return self.supervised + self.consistency


def mixed_loss(
    student: nn.Module,
    batch: HopBatch | GraphBatch,
    targets: Tensor,
    consistency: UnlabeledLoss,
    *,
    views: int,
    teacher: MeanTeacher | None = None,
    teacher_dropout: bool = False,
    class_weights: Tensor | None = None,
    reliable: Tensor | None = None,
    reliable_weight: float = 1.0,
    unlabeled: int | None = None,
) -> BatchLoss:
    r"""Equation of the paper's loss, both terms averaged over the views.

    Equation: SCR, loss (docs/equations.md#loss)
        L = 1/(S N_L) sum_i sum_s CE(y_i, yhat_i^(s))
          + lambda/(S N_U) sum_i sum_s dist(ybar_i^(sharp), yhat_i^(s))

    Labeled and unlabeled rows share each forward pass, so that BatchNorm sees both. In a group,
    processes compute shares of the rows, and the loss is that of all: their logits are joined.

    Args:
        batch: Labeled rows first, then reliable ones, then the confident ones of the second term;
            in a group, the share of each.
        targets: Classes of the labeled rows, shape (labeled,).
        consistency: The second term; that of SCR and SCR-m is the paper's.
        views: S.
        teacher: Makes the pseudo labels (SCR-m); none: the mean of the views does (SCR).
        teacher_dropout: Leave dropout on in the teacher, or in a term's weak view.
        reliable: Soft labels of the reliable rows, shape (reliable, classes).
        reliable_weight: gamma.
        unlabeled: Confident rows, in a group those of all processes; none: what is left of the
            batch.
    """
    labeled, relied_on = len(targets), 0 if reliable is None else len(reliable)
    known = labeled + relied_on
    unlabeled = len(batch) - known if unlabeled is None else unlabeled
    counts = labeled, relied_on, unlabeled
    pseudo_labels = None
    if unlabeled and (teacher is not None or consistency.needs_weak_view):
        # Before the student, whose saved activations would otherwise lie beside the teacher's.
        judge = student if teacher is None else teacher.model
        pseudo_labels = weak_view(
            _OnUnlabeled(judge, counts), batch, dropout=teacher_dropout,
            batch_statistics=teacher is not None and teacher.statistics == "batch",
        )  # fmt: skip
    # What a term says of single rows could be weighed and added up, but thresholds that follow a
    # batch, or the fairness of its classes, need all of it; logits are few beside hidden layers.
    logits = of_step(
        lambda rows: noisy_views(student, rows, views), batch, counts, dim=1, learner=student
    )
    row_weights = None
    if isinstance(batch, GraphBatch) and batch.loss_weight is not None:
        row_weights = batch.loss_weight[:labeled]
    supervised = supervised_loss(logits[:, :labeled], targets, class_weights, row_weights)
    if reliable is not None and len(reliable):
        share = labeled / known
        extra = reliable_loss(logits[:, labeled:known], reliable)
        supervised = share * supervised + reliable_weight * (1 - share) * extra
    term = consistency(logits[:, known:], pseudo_labels, known=logits[:, :known])
    return BatchLoss(supervised, term)


class _OnUnlabeled(nn.Module):
    """A model that leaves the labeled and reliable rows of a step out."""

    def __init__(self, model: nn.Module, counts: tuple[int, int, int]) -> None:
        super().__init__()
        self.model, self.counts = model, counts

    def forward(self, batch: HopBatch | GraphBatch) -> Tensor:
        return of_step(self.model, batch, self.counts, first=2)


def supervised_loss(
    logits: Tensor,
    targets: Tensor,
    class_weights: Tensor | None = None,
    row_weights: Tensor | None = None,
) -> Tensor:
    """Cross-entropy of logits, shape (views, labeled, classes), averaged over views and rows.

    Of several targets (2-D `targets`), binary cross-entropy averaged over the known entries.
    Factors of each row's loss, `row_weights`, are not scaled to a mean of 1: they make up for how
    often a row is drawn.
    """
    if len(targets) == 0:  # of which the mean is not a number
        return logits.sum() * 0
    if targets.ndim == 2:
        return target_loss(logits, targets, row_weights)
    views = logits.shape[0]
    rows, classes = logits.flatten(0, 1), targets.repeat(views)
    if row_weights is None:
        return F.cross_entropy(rows, classes, weight=class_weights)
    losses = F.cross_entropy(rows, classes, weight=class_weights, reduction="none")
    return (losses * row_weights.repeat(views)).mean()


def target_loss(logits: Tensor, targets: Tensor, row_weights: Tensor | None = None) -> Tensor:
    """Binary cross-entropy of logits, shape (..., rows, targets), over known entries.

    Targets are 0, 1, or -1 where unknown, shape (rows, targets).
    """
    known = (targets >= 0).to(logits.dtype).expand_as(logits)
    truth = targets.clamp_min(0).to(logits.dtype).expand_as(logits)
    losses = F.binary_cross_entropy_with_logits(logits, truth, reduction="none") * known
    if row_weights is not None:
        losses = losses * row_weights[:, None]
    return losses.sum() / known.sum().clamp_min(1)


def reliable_loss(logits: Tensor, soft_labels: Tensor) -> Tensor:
    r"""Distance to the labels of the stage before, the surer ones counting more.

    Equation: GAMLP, reliable label utilization (docs/equations.md#rlu)
        1/n_R sum_i max_c(q_ic) KL(q_i || p_i), averaged over views

    Soft labels q, shape (nodes, classes), are tempered predictions of the stage before; logits have
    the shape (views, nodes, classes).
    """
    log_predictions = torch.log_softmax(logits, dim=-1)
    # xlogy is 0 where a soft label is 0, as the limit is.
    negative_entropy: Tensor = torch.xlogy(soft_labels, soft_labels).sum(dim=-1)
    divergence = negative_entropy - (soft_labels * log_predictions).sum(dim=-1)
    return (soft_labels.amax(dim=-1) * divergence).mean()


def balanced_class_weights(targets: Tensor, classes: int) -> Tensor:
    """Inverse class shares among training nodes, with mean 1 over the nodes; 1 if none is there."""
    counts = torch.bincount(targets, minlength=classes).float()
    present = (counts > 0).sum()
    return torch.where(counts > 0, len(targets) / (present * counts.clamp_min(1)), 1.0)
