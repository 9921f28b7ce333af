"""The interface of all methods that learn from unlabeled nodes: SCR, SCR-m, their alternatives.

A method is a module that is given the student's logits for the views of a batch and returns its
term of the loss, weight included. What it must remember from step to step is in its buffers, so
that a checkpoint of its `state_dict` is all that a stopped run needs. Names of methods are in
`_regularizers.py`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from scr.config import check
from scr.consistency._config import ConsistencyConfig
from scr.consistency._views import single_precision
from scr.errors import ConfigError

COMMON_SETTINGS = frozenset({"weight", "views", "warmup", "weight_ramp", "trust"})
"""What the training loop reads for every method."""
CONFIDENT_SET_SETTINGS = frozenset({"threshold", "threshold_end", "refresh", "refresh_sample"})
"""What the loop reads for methods that leave it to the confident set which nodes take part."""

RAMP_SHARPNESS = 5.0
"""Of the ramp in Laine and Aila 2017, Section 2: the first weight is exp(-5) of the last."""

SUM_TOLERANCE = 0.02
"""Of the sum of a row of probabilities: half precision with many classes is off by a percent."""


def weight_share_at(epoch: int, ramp: int) -> float:
    r"""How much of its weight a term has in one epoch: a Gaussian that rises to 1.

    Equation: Pi-model, ramp-up of the unsupervised weight (docs/equations.md#weight-ramp)
        exp(-5 (1 - t)^2), t = min(epoch / ramp, 1)

    Args:
        epoch: Counted from 0 at the first epoch that has the term.
        ramp: Epochs until the full weight; 0: at once.

    Examples:
        >>> [round(weight_share_at(epoch, 2), 4) for epoch in range(4)]
        [0.0067, 0.2865, 1.0, 1.0]
    """
    if epoch >= ramp:
        return 1.0
    return math.exp(-RAMP_SHARPNESS * (1 - epoch / ramp) ** 2)


class UnlabeledLoss(nn.Module):
    """One term of the loss that needs no labels; a method is a subclass with a `term`."""

    settings: ClassVar[frozenset[str]] = COMMON_SETTINGS | CONFIDENT_SET_SETTINGS
    """Fields of `ConsistencyConfig` that mean something to the method."""
    defaults: ClassVar[Mapping[str, Any]] = {}
    """Fields whose value in the method's paper is not the default of `ConsistencyConfig`."""
    least_views: ClassVar[int] = 1
    """Noisy views that the method cannot do without."""
    chooses_rows: ClassVar[bool] = False
    """Whether the method weighs the rows of each batch itself; else the confident set does."""
    needs_weak_view: ClassVar[bool] = False
    """Whether `pseudo_labels` must be given, by a prediction with less noise than the views."""
    drops_nodes: ClassVar[bool] = False
    """Whether views differ on the graph too, by random propagation; else by dropout alone."""
    classes: int | None = None
    """Classes that the method keeps averages of; none: it takes logits of any number."""
    takes_labeled: ClassVar[bool] = False
    """Whether views of labeled rows are compared too; such a method reads no pseudo labels."""

    def __init__(self, weight: float = 1.0) -> None:
        """Check and keep the weight, the factor of the term."""
        super().__init__()
        check(weight >= 0, "weight", weight, "a number of at least 0")
        self.weight = weight
        self.share = 1.0
        self._seen = self._chosen = 0.0

    @classmethod
    def from_config(cls, config: ConsistencyConfig, classes: int) -> Self:
        """Make the term as a recipe has it: arguments are settings of the same names."""
        given = {**vars(config), "classes": classes}
        names = inspect.signature(cls).parameters
        return cls(**{name: value for name, value in given.items() if name in names})

    def forward(
        self,
        logits: Tensor | Sequence[Tensor],
        pseudo_labels: Tensor | None = None,
        *,
        known: Tensor | None = None,
    ) -> Tensor:
        """The weighted term of one batch.

        Args:
            logits: Of the unlabeled rows, shape (views, nodes, classes) or (nodes, classes), or a
                list of views; half precision is computed in float32.
            pseudo_labels: Class probabilities, unsharpened, of a `MeanTeacher` (SCR-m) or of a weak
                view, shape (nodes, classes), without gradient; for methods that use them.
            known: Logits of the labeled rows, shape (views, labeled, classes), for methods that
                compare views of these too.

        Returns:
            A scalar; exactly 0, with a gradient of 0, where there are no unlabeled rows.
        """
        views = as_views(logits)
        if self.classes not in (None, views.shape[-1]):
            given = f"of {views.shape[-1]} classes"
            raise ConfigError("logits", given, f"{self.classes}, as `classes` of the loss has it")
        if views.shape[1] == 0 or len(views) < self.least_views:
            return views.sum() * 0
        if self.takes_labeled and known is not None:
            views = torch.cat([known, views], dim=1)
        return self.scale * self.term(views, None if self.takes_labeled else pseudo_labels)

    def term(self, views: Tensor, pseudo_labels: Tensor | None) -> Tensor:
        """The term of one batch before it is weighted, of logits of at least one node.

        Pseudo labels are as given to `forward`; see `as_pseudo_labels`.
        """
        raise NotImplementedError(f"`{type(self).__name__}` has neither a `term` nor a `forward`")

    @property
    def scale(self) -> float:
        """The weight at this moment of training."""
        return self.weight * self.share

    @property
    def threshold(self) -> float | None:
        """Confidence from which a row takes part in full; none where the method has no such bar."""
        return None

    @property
    def chosen_share(self) -> float:
        """Share of this epoch's unlabeled rows that took part, partial weights added up."""
        return self._chosen / self._seen if self._seen else 1.0

    def begin_epoch(self, epoch: int, epochs: int, *, share: float = 1.0) -> None:
        """Follow schedules; a loop of one's own may leave it out, and has none.

        Epochs are counted from 0; `share` is the part of the weight that the term has now.
        """
        self.share = share
        self._seen = self._chosen = 0.0

    def count(self, weights: Tensor) -> None:
        """Remember how many rows took part, for the record of the epoch."""
        self._seen += len(weights)
        self._chosen += float(weights.sum())

    def extra_repr(self) -> str:
        """Show the settings in the module's repr."""
        return f"weight={self.weight}"


def as_views(logits: Tensor | Sequence[Tensor]) -> Tensor:
    """Logits of shape (views, nodes, classes), in single precision or better.

    Given are logits of that shape, or one view of shape (nodes, classes), or a list of such views.
    """
    if isinstance(logits, (list, tuple)) and all(isinstance(view, Tensor) for view in logits):
        shapes = {tuple(view.shape) for view in logits}
        if len(shapes) != 1 or len(next(iter(shapes))) != 2:
            given = ", ".join(map(str, sorted(shapes))) or "no views"
            raise ConfigError("logits", given, "views of one shape, (nodes, classes)")
        logits = torch.stack(list(logits))
    if not isinstance(logits, Tensor):
        raise ConfigError(
            "logits", _kind(logits), "a tensor, or a list of one tensor per view",
            hint="give what the model returns: `[model(rows), model(rows)]`",
        )  # fmt: skip
    if logits.ndim not in (2, 3) or not logits.is_floating_point():
        raise ConfigError(
            "logits",
            f"{logits.dtype} of shape {tuple(logits.shape)}",
            "numbers of shape (views, nodes, classes) or (nodes, classes)",
            hint="stack the views: `torch.stack([model(rows), model(rows)])`",
        )
    if logits.ndim == 3 and len(logits) == 0:
        raise ConfigError("logits", f"of shape {tuple(logits.shape)}", "at least one view")
    return single_precision(logits.unsqueeze(0) if logits.ndim == 2 else logits)


def _kind(given: object) -> str:
    """What something is; of a list, what is in it."""
    if isinstance(given, (list, tuple)):
        other = next(each for each in given if not isinstance(each, Tensor))
        return f"a {type(given).__name__} with a {type(other).__name__}"
    return type(given).__name__


@torch.no_grad()
def as_pseudo_labels(pseudo_labels: Tensor | None, logits: Tensor) -> Tensor:
    """Pseudo labels in the precision and on the device of the views, without gradient.

    What is not one distribution per node is refused: logits are mistaken for probabilities.
    """
    if pseudo_labels is None:
        raise ConfigError(
            "pseudo_labels", None, "class probabilities",
            hint="give those of a weak view: `weak_view(model, rows)`",
        )  # fmt: skip
    if not isinstance(pseudo_labels, Tensor):
        raise ConfigError("pseudo_labels", _kind(pseudo_labels), "a tensor of class probabilities")
    if pseudo_labels.shape != logits.shape[1:]:
        raise ConfigError(
            "pseudo_labels", f"of shape {tuple(pseudo_labels.shape)}",
            f"{tuple(logits.shape[1:])}, one distribution per node of the logits",
            hint="take the same nodes of both, such as `teacher(x, edge_index)[nodes]`",
        )  # fmt: skip
    labels = single_precision(pseudo_labels.detach())
    sums, least = labels.sum(dim=-1), labels.amin(dim=-1)
    wrong = ((sums - 1).abs() > SUM_TOLERANCE) | (least < 0)
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        low, total = float(least[row]), float(sums[row])
        raise ConfigError(
            "pseudo_labels",
            f"numbers from {low:.3g} that add up to {total:.3g}, in row {row}",
            "class probabilities, of which none is below 0 and whose rows add up to 1",
            hint="take the softmax of logits; a `MeanTeacher` has done so already",
        )
    return labels.to(logits.device, logits.dtype)
