"""A trained model, just fitted or read from a run: what predictions need of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from scr.encoders import Encoder
from scr.errors import RunError
from scr.graph import Graph
from scr.report import read_history
from scr.runs import HISTORY, METRICS, read_json
from scr.training import Fitted, Preparation, Recipe, SubsetNames


@dataclass(frozen=True, kw_only=True)
class TrainedModel(ABC):
    """An encoder, and what was prepared and recorded with it."""

    encoder: Encoder
    recipe: Recipe
    features: Preparation
    """How features were prepared, to be applied to new nodes."""
    subsets: SubsetNames | None
    """Subsets of relations that hops were made over; none: over all edges alike."""
    class_names: tuple[str, ...]
    relations: tuple[str, ...]
    """Full names of the relations trained on; none of a graph of one type and relation."""
    notes: list[str]
    """What the run decided by itself, in sentences."""

    @property
    @abstractmethod
    def history(self) -> list[dict[str, Any]]:
        """One record per evaluated epoch."""

    @abstractmethod
    def ending(self, what: Literal["best_epoch", "stopped", "acted"]) -> Any:
        """How training ended: the epoch kept, why it stopped, and whether a regularizer acted."""


@dataclass(frozen=True, kw_only=True)
class FittedModel(TrainedModel):
    """A model that was trained in this process."""

    fitted: Fitted

    @classmethod
    def of(cls, fitted: Fitted, graph: Graph) -> FittedModel:
        """The model of a fit on a graph."""
        return cls(
            encoder=fitted.encoder,
            recipe=fitted.recipe,
            features=fitted.prepared.features,
            subsets=fitted.prepared.subsets,
            class_names=graph.class_names,
            relations=tuple(map(str, graph.relations)) if graph.is_typed else (),
            notes=fitted.notes,
            fitted=fitted,
        )

    @property
    def history(self) -> list[dict[str, Any]]:
        return self.fitted.outcome.history

    def ending(self, what: Literal["best_epoch", "stopped", "acted"]) -> Any:
        if what == "acted":
            return self.fitted.term is None or self.fitted.term.acted
        return getattr(self.fitted.outcome, what)


@dataclass(frozen=True, kw_only=True)
class StoredModel(TrainedModel):
    """A model that was read from a run directory (`_stored_model.py`)."""

    run: dict[str, Any]
    """The content of `run.json`."""
    path: Path

    @property
    def history(self) -> list[dict[str, Any]]:
        return read_history(self.path / HISTORY)

    def ending(self, what: Literal["best_epoch", "stopped", "acted"]) -> Any:
        summary = self.summary()
        if what == "acted":
            return summary.get("consistency", {}).get("acted", True)
        return summary[what]

    def summary(self) -> dict[str, Any]:
        """`metrics.json` of the run."""
        file = self.path / METRICS
        if not file.exists():
            raise RunError(
                f"The run has no `{file}`; expected a finished run",
                hint="`scr train` can resume it",
            )
        return read_json(file)
