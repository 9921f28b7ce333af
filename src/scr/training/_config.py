"""Settings of the training loop, of its stages and of what happens to its predictions.

They are the recipe sections `training`, `stages` and `postprocess`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from scr.config import Chance, Count, Natural, NonNegative, Positive, Settings, Share, check
from scr.metrics import MetricName

Norm = Literal["sym", "row", "col"]


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(Settings):
    """How long, how fast and on how many rows at once a model is trained."""

    section: ClassVar[str] = "training"

    epochs: Count = 200
    """Passes over the labeled nodes."""
    batch_size: Count = 10_000
    """Labeled rows per step; with `proportional`, labeled and unlabeled rows together."""
    unlabeled_per_batch: Count | Literal["proportional"] = 2_000
    """Confident unlabeled rows per step, or as many as keep both pools in step."""
    learning_rate: Positive = 0.001
    """Step size of Adam."""
    schedule: Literal["constant", "cosine"] = "constant"
    """`cosine` lowers the learning rate to 0 over all epochs."""
    weight_decay: NonNegative = 0.0
    """L2 penalty, added to the gradient as Adam does it."""
    clip: Positive | None = None
    """Largest norm of the gradient; none: no limit."""
    class_weights: Literal["none", "balanced"] = "none"
    """`balanced` weighs each class by the inverse of its share among training nodes."""
    average_decay: Chance | None = None
    """Evaluate an exponential average of the weights with this decay; none: the weights."""
    patience: Natural = 100
    """Epochs without a better validation accuracy, or other `metric`, after which training stops;
    0: never. With `lowest-loss`: without an accuracy as high, or a loss as low, as any before."""
    evaluate_every: Count = 5
    """Epochs between two evaluations on validation nodes."""
    select: Literal["best", "lowest-loss", "last"] = "best"
    """Which weights to keep: those of the best validation accuracy, or other `metric`, of the
    lowest validation loss, or the last."""
    select_after: Chance = 0.0
    """Share of the epochs that pass before weights may be kept: a small validation set likes some
    early ones by luck."""
    refit: bool = False
    """Train once more from scratch on training and validation labels together, for as many epochs
    as were chosen."""
    metric: MetricName = "accuracy"
    """What counts: it picks the weights, ends patience, and heads the report. `log-loss` keeps the
    weights that `select = "lowest-loss"` keeps."""
    inductive: bool = False
    """Keep validation and test nodes and their edges out of training; predictions are made on the
    whole graph."""

    @property
    def keeps(self) -> Literal["best", "lowest-loss", "last"]:
        """`select`, as the metric changes it."""
        by_loss = self.metric == "log-loss" and self.select == "best"
        return "lowest-loss" if by_loss else self.select

    @property
    def by_metric(self) -> bool:
        """Whether weights are compared by neither accuracy nor loss."""
        return self.metric not in ("accuracy", "log-loss")


@dataclass(frozen=True, kw_only=True)
class StagesConfig(Settings):
    """Whether a run is repeated with what it learned before, and how far that is trusted.

    Settings of later stages are one value for all of them, or a list with one value each.
    """

    section: ClassVar[str] = "stages"

    method: Literal["none", "rlu", "sle"] = "none"
    """`rlu`: soft labels with a loss of their own; `sle`: hard labels join the training set."""
    count: Count = 3
    """Stages in all, the first one included."""
    epochs: Count | tuple[Count, ...] | None = None
    """Epochs of each stage; none: `training.epochs` in every stage."""
    threshold: Share | tuple[Share, ...] = 0.9
    """Least confidence of a node whose prediction the next stage relies on."""
    temperature: Positive | tuple[Positive, ...] = 1.0
    """Divides the logits of the predictions that are handed on; below 1 makes them harder."""
    weight: NonNegative | tuple[NonNegative, ...] = 1.0
    """Factor of the loss on reliable nodes (gamma in GAMLP); `rlu` only."""
    first: Literal["supervised", "regularized"] = "supervised"
    """Whether the first stage has the consistency term too, if the regularizer is not `none`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        lengths = {"epochs": self.count} | dict.fromkeys(
            ("threshold", "temperature", "weight"), self.count - 1
        )
        for name, length in lengths.items():
            value = getattr(self, name)
            check(not isinstance(value, tuple) or len(value) == length, f"stages.{name}", value,
                  f"one number, or a list of {length} numbers")  # fmt: skip

    @property
    def active(self) -> bool:
        return self.method != "none" and self.count > 1

    def of_stage(self, name: str, stage: int) -> float:
        """A setting as stage `stage` (from 2) has it."""
        value = getattr(self, name)
        return float(value[stage - 2] if isinstance(value, tuple) else value)

    def epochs_of(self, stage: int, default: int) -> int:
        """Epochs of a stage, counted from 1."""
        if self.epochs is None or not self.active:
            return default
        return self.epochs[stage - 1] if isinstance(self.epochs, tuple) else self.epochs


@dataclass(frozen=True, kw_only=True)
class PostprocessConfig(Settings):
    """What happens to trained predictions: calibration, then Correct and Smooth along the edges.

    Papers: Guo et al. 2017, "On Calibration of Modern Neural Networks", arXiv:1706.04599, whose
    equation is in `scr.prediction.calibration`; Huang et al. 2020, "Combining Label Propagation and
    Simple Models Out-performs Graph Neural Networks", arXiv:2010.13993, whose equations are in
    `scr.prediction.smoothing`.
    """

    section: ClassVar[str] = "postprocess"

    calibrate: Literal["temperature", "none"] = "temperature"
    """`temperature` divides logits by the number that gives validation nodes the lowest log-loss;
    `none` leaves probabilities as they are."""
    method: Literal["none", "correct-and-smooth"] = "none"
    """`correct-and-smooth` spreads the errors on labeled nodes, then the labels."""
    search: bool = True
    """Choose steps, alphas, norms and scale on validation nodes; false: use those below."""
    labels: Literal["train", "train+valid"] = "train"
    """Nodes whose labels are spread. With `train+valid` the search holds half of the validation
    nodes back, and is scored on them."""
    steps: Literal["both", "correct", "smooth"] = "both"
    """Which of the two steps to take."""
    correct_hops: Count = 50
    """How often the errors are propagated."""
    correct_alpha: Share = 0.8
    """Share of the neighbors in each hop of the errors (alpha_1)."""
    correct_norm: Norm = "sym"
    """How the adjacency is normalized for the errors."""
    scale: Positive | Literal["auto"] = "auto"
    """Factor of the propagated errors; `auto` gives each node an error of average size."""
    smooth_hops: Count = 50
    """How often the labels are propagated."""
    smooth_alpha: Share = 0.8
    """Share of the neighbors in each hop of the labels (alpha_2)."""
    smooth_norm: Norm = "sym"
    """How the adjacency is normalized for the labels."""

    @property
    def is_default(self) -> bool:
        """Whether a recipe may leave the section out."""
        return self.method == "none" and self.calibrate == "temperature"
