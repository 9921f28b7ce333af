"""How a model is chosen and what is written: what `scr.fit` and `scr fit` share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from scr.classifier import EFFORTS, NodeClassifier
from scr.compute import usable_device
from scr.errors import ConfigError
from scr.prediction import ProbabilityColumns, table_writer
from scr.training import EpochRecord, merge
from scr.tuning import TIME_LIMIT, Trial

TRAINING = "Training"
"""The step in which one model is trained, and can be stopped after an epoch."""


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """How a model is chosen, and what is written; checked when made."""

    recipe: tuple[Mapping[str, Any], ...] = ()
    """Tables of settings that win over what is chosen; later ones win."""
    splits: str | Path | None = None
    """A rule or a file as of `load_graph`; none: the graph's own split, else all labels are
    split."""
    effort: Literal["default", "best"] = "default"
    time_limit: float | None = TIME_LIMIT
    """Seconds that ``effort="best"`` may take; none: until all was tried."""
    seed: int = 0
    device: str = "cpu"
    predictions: Path | None = None
    """None: in the run directory."""
    probabilities: str = "none"
    coverage: float | None = None
    """Of prediction sets; none: there are none."""
    resume: bool = False
    overwrite: bool = False
    command: str | None = None
    """As it was typed."""

    def __post_init__(self) -> None:
        if self.effort not in EFFORTS:
            raise ConfigError("effort", self.effort, f"one of {', '.join(EFFORTS)}")
        if self.resume and self.overwrite:
            raise ConfigError("overwrite", True, "either `resume` or `overwrite`, not both")
        if self.coverage is not None and not 0 < self.coverage < 1:
            raise ConfigError("coverage", self.coverage, "a share between 0 and 1, such as 0.9")
        if self.predictions is not None:
            table_writer(self.predictions)
        usable_device(self.device)
        self.columns  # noqa: B018

    @property
    def columns(self) -> ProbabilityColumns:
        """The probabilities that predictions have columns of."""
        return ProbabilityColumns.parse(self.probabilities)

    @property
    def encoder(self) -> str | None:
        """`auto`, unless the recipe names one."""
        return None if merge(*self.recipe).get("encoder", {}).get("name") else "auto"


@dataclass(frozen=True)
class Watch:
    """Who is told of what, and who may stop it."""

    on_step: Callable[[str], None] = lambda step: None
    """Called with what begins."""
    on_epoch: Callable[[EpochRecord, int], None] | None = None
    """Called after every epoch, with how many there will be."""
    on_trial: Callable[[Trial, float, float], None] | None = None
    """As of `scr.tuning.Effort`."""
    should_stop: Callable[[], bool] | None = None


class FitResult(NamedTuple):
    """A classifier, and what was decided for it."""

    classifier: NodeClassifier
    record: dict[str, Any]
    """The content of `fit.json`."""
    predictions: Path | None
    """The file that was written."""
