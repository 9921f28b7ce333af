"""A trained model with its graph, whether it was fitted just now or read from a run directory.

`FittedModel` and `LoadedModel` answer the same questions, so that predictions, explanations and
reports need not know which of the two they have.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from scr import runs
from scr.encoders import Encoder
from scr.errors import GraphError, RunError
from scr.graph import Graph
from scr.prediction._other_graph import rows_of_other_graph
from scr.prediction._run_graph import load_run_graph
from scr.prediction._stored_model import StoredModel, read_handover
from scr.report import read_history
from scr.training import (
    Fitted,
    Preparation,
    Recipe,
    RowSource,
    SubsetNames,
    label_rows,
    prepare,
    rebuilds_label_hops,
)


class TrainedModel(ABC):
    """Weights, settings and the graph that they were trained on."""

    recipe: Recipe
    encoder: Encoder
    class_names: tuple[str, ...]
    relations: tuple[str, ...]
    """Full names of the relations trained on; none of a graph of one type and relation."""
    features: Preparation
    """How features were prepared, to be applied to those of other graphs."""
    subsets: SubsetNames | None
    seed: int
    device: str

    @property
    @abstractmethod
    def graph(self) -> Graph:
        """The graph of the training."""

    @property
    @abstractmethod
    def history(self) -> list[dict[str, Any]]:
        """One record per evaluated epoch."""

    @property
    @abstractmethod
    def notes(self) -> list[str]:
        """What the run decided by itself, in sentences."""

    @property
    @abstractmethod
    def best_epoch(self) -> int:
        """The epoch whose weights were kept."""

    @property
    @abstractmethod
    def stopped(self) -> str:
        """Why training ended."""

    @property
    @abstractmethod
    def acted(self) -> bool:
        """Whether a term on unlabeled nodes, if there was one, had a part in the weights."""

    @abstractmethod
    def rows(self, nodes: NDArray[np.int64] | None = None) -> RowSource:
        """Rows of the model's own graph; of some nodes alone where that saves work."""

    def rows_of(self, graph: Graph | None, nodes: NDArray[np.int64] | None) -> RowSource:
        """Rows of another graph with the same kind of features; none: of the model's own."""
        if graph is None:
            return self.rows(nodes)
        self._check_learned_vectors(graph)
        return rows_of_other_graph(
            graph,
            self.encoder,
            self.recipe,
            self.features,
            class_names=self.class_names,
            seed=self.seed,
            device=self.device,
            nodes=nodes,
            subsets=self.subsets,
            relations=self.relations,
        )

    def has_labels(self, split: str) -> bool:
        """Whether a split has nodes with a label."""
        return bool((self.graph.labels[getattr(self.graph, split)] >= 0).any())

    def _check_learned_vectors(self, graph: Graph) -> None:
        """Refuse another graph's nodes where nodes have learned vectors of their own."""
        if not self.recipe.encoder_settings.get("node_embeddings"):
            return
        if graph.fingerprint("edges") != self.graph.fingerprint("edges"):
            raise GraphError(
                f"The model learned a vector for each node without features, which the nodes of "
                f"the graph `{graph.name}` do not have; expected the graph of the training",
                hint="train with `encoder.node_embeddings = false` to predict on other graphs",
            )


class FittedModel(TrainedModel):
    """What `fit` gave."""

    def __init__(self, fitted: Fitted, graph: Graph, seed: int, device: str) -> None:
        self.fitted, self._graph, self.seed, self.device = fitted, graph, seed, device
        self.recipe, self.encoder = fitted.recipe, fitted.encoder
        self.features, self.subsets = fitted.prepared.features, fitted.prepared.subsets
        self.class_names = graph.class_names
        self.relations = tuple(map(str, graph.relations)) if graph.is_typed else ()

    @property
    def graph(self) -> Graph:
        """The graph that `fit` was given."""
        return self._graph

    @property
    def history(self) -> list[dict[str, Any]]:
        """Of this fit."""
        return self.fitted.outcome.history

    @property
    def notes(self) -> list[str]:
        """Of this fit."""
        return self.fitted.notes

    @property
    def best_epoch(self) -> int:
        """Of this fit."""
        return self.fitted.outcome.best_epoch

    @property
    def stopped(self) -> str:
        """Of this fit."""
        return self.fitted.outcome.stopped

    @property
    def acted(self) -> bool:
        """Of this fit."""
        return self.fitted.term is None or self.fitted.term.acted

    def rows(self, nodes: NDArray[np.int64] | None = None) -> RowSource:
        """The rows that were trained on."""
        return self.fitted.rows


@dataclass(eq=False)
class LoadedModel(TrainedModel):
    """What a run directory holds; its graph is loaded and its hops are prepared when needed."""

    stored: StoredModel
    seed: int
    device: str
    given: Graph | None = None
    """The graph, if whoever loads the run has it."""
    _rows: RowSource | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        run = self.stored.run
        self.recipe, self.encoder = self.stored.recipe, self.stored.encoder
        self.features, self.subsets = self.stored.features, self.stored.subsets
        self.class_names = tuple(run["graph"]["class_names"])
        self.relations = tuple(run["graph"].get("relations", ()))

    @cached_property
    def graph(self) -> Graph:
        """The graph of the training."""
        if self.given is not None:
            return self.given
        return load_run_graph(self.stored.path, self.stored.run)

    @property
    def metrics(self) -> dict[str, Any]:
        """`metrics.json`."""
        file = self.stored.path / runs.METRICS
        if not file.exists():
            raise RunError(
                f"The run has no `{file}`; expected a finished run",
                hint="`scr train` can resume it",
            )
        return runs.read_json(file)

    @property
    def history(self) -> list[dict[str, Any]]:
        """`history.jsonl`."""
        return read_history(self.stored.path / runs.HISTORY)

    @property
    def notes(self) -> list[str]:
        """Of `run.json`."""
        return list(self.stored.run["notes"])

    @property
    def best_epoch(self) -> int:
        """Of `metrics.json`."""
        return int(self.metrics["best_epoch"])

    @property
    def stopped(self) -> str:
        """Of `metrics.json`."""
        return str(self.metrics["stopped"])

    @property
    def acted(self) -> bool:
        """Of `metrics.json`."""
        return bool(self.metrics.get("consistency", {}).get("acted", True))

    def rows(self, nodes: NDArray[np.int64] | None = None) -> RowSource:
        """Prepared once, unless rows of some nodes alone will do."""
        if self._rows is not None and self._rows.has(nodes):
            return self._rows
        handover = None
        if rebuilds_label_hops(self.recipe):
            handover = read_handover(self.stored.path / runs.HANDOVER)
        prepared = prepare(
            self.graph, self.recipe, fitted=self.features, nodes=nodes, subsets=self.subsets
        )
        labels = label_rows(
            self.graph, self.recipe, seed=self.seed, handover=handover, kept=prepared.kept
        )
        device = torch.device(self.device)
        rows = prepared.rows(len(self.class_names), labels, device, seed=self.seed)
        if nodes is None or rows.kept is None:  # else another call may ask for other nodes
            self._rows = rows
        return rows
