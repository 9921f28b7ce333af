"""SoftMatch: every pseudo label counts, the less sure ones less, by a truncated Gaussian.

Paper: Chen et al. 2023, "SoftMatch: Addressing the Quantity-Quality Trade-off in Semi-supervised
Learning", arXiv:2301.10921.

Mean and variance of the weak view's confidence are moving averages. Uniform alignment evens out
classes before confidence is judged, so that rows of rare classes are not weighed down; the pseudo
label itself is left as predicted.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

from scr.config import check
from scr.consistency._unlabeled import COMMON_SETTINGS, UnlabeledLoss, as_pseudo_labels
from scr.consistency.alternatives._fixmatch import weighted_pseudo_label_loss

SMALLEST_MEAN = 1e-6
"""Added to average predictions in the alignment, as in the published code: a class that is never
predicted would be divided by 0."""


def truncated_gaussian_weights(
    confidence: Tensor, mean: Tensor, variance: Tensor, sigmas: float = 2.0
) -> Tensor:
    r"""1 from the mean confidence on, below it a Gaussian's fall.

    Equation: SoftMatch, weighting function (docs/equations.md#softmatch)
        w_i = exp(-min(max_c q_ic - mu, 0)^2 / (2 sigma^2 / n^2))

    Confidence, max_c q_ic, has the shape (nodes,). By n = `sigmas` the Gaussian is narrower than
    the measured spread: 2 in the published code, 1 in the paper's equation.
    """
    below = (confidence - mean).clamp_max(0)
    width = variance.clamp_min(torch.finfo(variance.dtype).tiny) / sigmas**2
    return torch.exp(-below.square() / (2 * width))


def align_to_uniform(predictions: Tensor, mean_prediction: Tensor) -> Tensor:
    r"""Scale predictions as if every class were predicted equally much on average.

    Equation: SoftMatch, uniform alignment (docs/equations.md#softmatch)
        UA(q_i) = normalize(q_i u / E[q]), u = 1/C
    """
    uniform = 1 / predictions.shape[-1]
    scaled = predictions * ((uniform + SMALLEST_MEAN) / (mean_prediction + SMALLEST_MEAN))
    return scaled / scaled.sum(dim=-1, keepdim=True)


class SoftMatchLoss(UnlabeledLoss):
    """Weight times the cross-entropy to hard pseudo labels, weighed by their confidence."""

    mean_confidence: Tensor
    variance: Tensor
    mean_prediction: Tensor

    # The paper: lambda_u = 1, decay 0.999.
    defaults: ClassVar = {"weight": 1.0, "views": 1}
    settings = COMMON_SETTINGS | {"momentum", "sigmas", "alignment", "teacher_dropout"}
    chooses_rows = True
    needs_weak_view = True

    def __init__(
        self,
        classes: int,
        weight: float = 1.0,
        momentum: float = 0.999,
        sigmas: float = 2.0,
        alignment: Literal["uniform", "none"] = "uniform",
    ) -> None:
        """Start with a mean of 1/C and a variance of 1, as the paper does.

        Weight is lambda_u there, momentum m, the decay of the averages in [0, 1), and `sigmas` n of
        the Gaussian's width; `alignment="none"` takes the confidence of predictions as they are.
        """
        super().__init__(weight)
        check(0 <= momentum < 1, "momentum", momentum, "a number in [0, 1)")
        check(sigmas > 0, "sigmas", sigmas, "a number above 0")
        check(alignment in ("uniform", "none"), "alignment", alignment, "`uniform` or `none`")
        self.classes, self.momentum = classes, momentum
        self.sigmas, self.alignment = sigmas, alignment
        self.register_buffer("mean_confidence", torch.tensor(1 / classes))
        self.register_buffer("variance", torch.tensor(1.0))
        self.register_buffer("mean_prediction", torch.zeros(classes))

    @property
    def threshold(self) -> float:
        """The mean confidence, from which a row has full weight."""
        return float(self.mean_confidence)

    @torch.no_grad()
    def aligned(self, weak: Tensor) -> Tensor:
        """Predictions as the weighting sees them; in training they move the average prediction."""
        if self.alignment == "none":
            return weak
        if self.training:
            # The first batch stands for all before it, as in the published code.
            first = not self.mean_prediction.any()
            self.mean_prediction.lerp_(weak.mean(dim=0), 1.0 if first else 1 - self.momentum)
        return align_to_uniform(weak, self.mean_prediction)

    @torch.no_grad()
    def update(self, confidence: Tensor) -> None:
        """Move mean and variance towards those of a batch, shape (nodes,)."""
        step = 1 - self.momentum
        self.mean_confidence.lerp_(confidence.mean(), step)
        # Of a single row there is no unbiased variance.
        self.variance.lerp_(confidence.var(correction=min(1, len(confidence) - 1)), step)

    def term(self, views: Tensor, pseudo_labels: Tensor | None) -> Tensor:
        """Cross-entropy by confidence; predictions of the weak view move the averages."""
        weak = as_pseudo_labels(pseudo_labels, views)
        confidence = self.aligned(weak).amax(dim=-1)
        if self.training:
            self.update(confidence)
        weights = truncated_gaussian_weights(
            confidence, self.mean_confidence, self.variance, self.sigmas
        )
        self.count(weights)
        return weighted_pseudo_label_loss(views, weak, weights)
