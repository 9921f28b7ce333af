"""The consistency term of SCR's loss, for our trainer and for anybody's torch model.

loss = cross_entropy(logits[:labeled], y) + ConsistencyLoss()([model(rows), model(rows)])
"""

from __future__ import annotations

import torch
from torch import Tensor

from scr.config import check
from scr.consistency._distance import DISTANCES, DistanceName
from scr.consistency._sharpening import sharpen
from scr.consistency._unlabeled import UnlabeledLoss, as_pseudo_labels
from scr.consistency._views import average_views
from scr.errors import ConfigError


class ConsistencyLoss(UnlabeledLoss):
    r"""Lambda times the mean distance of every view to the sharpened pseudo label.

    Equation: SCR, second term of the loss (docs/equations.md#loss)
        lambda / (S N_U) sum_i sum_s dist(sharpen(ybar_i), yhat_i^(s))
    """

    # Those of SCR-m's teacher are among them: a run of SCR has always recorded them too.
    settings = UnlabeledLoss.settings | {
        "temperature", "distance", "ramp", "teacher_dropout", "noise"
    }  # fmt: skip

    def __init__(
        self, weight: float = 0.5, temperature: float = 0.5, distance: DistanceName = "mse"
    ) -> None:
        """Check and keep the settings.

        Args:
            weight: lambda.
            temperature: T of the sharpening, in (0, 1].
            distance: A name of `DISTANCES`.
        """
        super().__init__(weight)
        if distance not in DISTANCES:
            raise ConfigError("distance", distance, f"one of {', '.join(DISTANCES)}")
        check(0 < temperature <= 1, "temperature", temperature, "a number in (0, 1]")
        self.temperature = temperature
        self.distance = DISTANCES[distance]

    def term(self, views: Tensor, pseudo_labels: Tensor | None) -> Tensor:
        """Mean distance to the pseudo labels, of a teacher (SCR-m) or, without, the views' mean."""
        with torch.no_grad():
            if pseudo_labels is None:
                target = average_views(views)
            else:
                target = as_pseudo_labels(pseudo_labels, views)
            target = sharpen(target, self.temperature)
        return self.distance(target, torch.log_softmax(views, dim=-1)).mean()

    def extra_repr(self) -> str:
        """Show the settings in the module's repr."""
        return f"weight={self.weight}, temperature={self.temperature}"
