"""The consistency term of SCR's loss, for our trainer and for anybody's torch model.

loss = cross_entropy(logits[:labelled], y) + ConsistencyLoss()(noisy_views(model, rows, 2))
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from scr.config import check
from scr.consistency.distance import DISTANCES, DistanceName
from scr.consistency.sharpening import sharpen
from scr.consistency.views import average_views
from scr.errors import ConfigError


class ConsistencyLoss(nn.Module):
    r"""Lambda times the mean distance of every view to the sharpened pseudo label.

    Equation: SCR, second term of the loss (docs/equations.md#loss)
        lambda / (S N_U) sum_i sum_s dist(sharpen(ybar_i), yhat_i^(s))
    """

    def __init__(
        self, weight: float = 0.5, temperature: float = 0.5, distance: DistanceName = "mse"
    ) -> None:
        """Check and keep the settings.

        Args:
            weight: lambda.
            temperature: T of the sharpening, in (0, 1].
            distance: `mse`, `kl` or `reverse-kl`.
        """
        super().__init__()
        if distance not in DISTANCES:
            raise ConfigError("distance", distance, f"one of {', '.join(DISTANCES)}")
        check(weight >= 0, "weight", weight, "a number of at least 0")
        check(0 < temperature <= 1, "temperature", temperature, "a number in (0, 1]")
        self.weight = weight
        self.temperature = temperature
        self.distance = DISTANCES[distance]

    def forward(self, logits: Tensor, pseudo_labels: Tensor | None = None) -> Tensor:
        """The weighted consistency term of one batch.

        Args:
            logits: Of the unlabelled rows, shape (views, nodes, classes) or (nodes, classes).
            pseudo_labels: Class probabilities, unsharpened, such as a `MeanTeacher` returns
                (SCR-m), shape (nodes, classes); none: the average of the views (SCR).

        Returns:
            A scalar; exactly 0, with a gradient of 0, where there are no rows.
        """
        if logits.ndim == 2:
            logits = logits.unsqueeze(0)
        if logits.shape[1] == 0:
            return logits.sum() * 0
        with torch.no_grad():
            target = average_views(logits) if pseudo_labels is None else pseudo_labels
            target = sharpen(target, self.temperature)
        distances = self.distance(target, torch.log_softmax(logits, dim=-1))
        return self.weight * distances.mean()

    def extra_repr(self) -> str:
        """Show the settings in the module's repr."""
        return f"weight={self.weight}, temperature={self.temperature}"
