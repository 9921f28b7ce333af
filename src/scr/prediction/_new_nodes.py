"""Predict nodes that were not there at training, from their neighborhood in the enlarged graph.

The answer is that of a prediction on the whole enlarged graph (`predict_proba(graph=...)`). For
encoders that read hops, only the neighborhood of the new nodes is computed (`Neighborhoods`). Where
more than the neighborhood counts, the whole enlarged graph is computed, and a note says why.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scr import training
from scr.errors import ConfigError, RunError
from scr.graph import Graph, NewNodes, enlarged
from scr.networks import GraphBatch, encoder_class
from scr.prediction._ensemble import EnsemblePredictor
from scr.prediction._ids import NodeIds
from scr.prediction._predictor import Predictor
from scr.prediction._stored_model import TrainedModel
from scr.prediction._table import ProbabilityColumns, table_of_nodes, write_predictions
from scr.prediction.calibration import prediction_sets
from scr.propagation import Neighborhoods
from scr.tables import Preparation, TableOptions, read_new_nodes
from scr.typed_features import FittedCompletion

if TYPE_CHECKING:
    import pyarrow as pa

    from scr.tables import Table

PREPARATION = "preparation.json"


@dataclass(frozen=True, eq=False)
class NewPredictions:
    """What a model says of new nodes, and of known ones that they change."""

    nodes: Graph
    """Ids, and what is known of the nodes; it has no edges."""
    new: NDArray[np.bool_]
    """Which of the nodes are new."""
    probabilities: NDArray[np.float32]
    """Of the classes, or of several targets. Shape (nodes, classes)."""
    set_limits: NDArray[np.float64] | None = None
    """Of the classes of prediction sets; none: no sets were asked for."""
    notes: tuple[str, ...] = ()
    """What should be known of the answer, in sentences."""

    def __len__(self) -> int:
        return len(self.probabilities)

    @property
    def ids(self) -> NDArray[Any]:
        """Of the nodes: yours, or numbers."""
        assert self.nodes.ids is not None
        return self.nodes.ids

    @property
    def class_names(self) -> tuple[str, ...]:
        """Of the columns of the probabilities."""
        return self.nodes.class_names

    @property
    def sets(self) -> NDArray[np.bool_] | None:
        """Which classes each node may have, shape (nodes, classes); none without a coverage."""
        if self.set_limits is None:
            return None
        return prediction_sets(self.probabilities, self.set_limits)

    def table(self, columns: ProbabilityColumns | None = None) -> pa.Table:
        """As the file that `write` gives: id, prediction, confidence, sets, probabilities."""
        return table_of_nodes(
            self.nodes, np.arange(len(self)), self.probabilities, columns=self._columns(columns),
            set_limits=self.set_limits, multilabel=self.nodes.is_multilabel,
        )  # fmt: skip

    def write(
        self,
        path: str | Path,
        columns: ProbabilityColumns | None = None,
        *,
        spreadsheet_safe: bool = False,
    ) -> None:
        """Write the table, as `NodeClassifier.write_predictions` does."""
        write_predictions(
            Path(path), self.nodes, lambda part: self.probabilities[part],
            columns=self._columns(columns), set_limits=self.set_limits,
            multilabel=self.nodes.is_multilabel, spreadsheet_safe=spreadsheet_safe,
        )  # fmt: skip

    @staticmethod
    def _columns(columns: ProbabilityColumns | None) -> ProbabilityColumns:
        return columns or ProbabilityColumns("all")


class NewNodePredictor:
    """Predicts new nodes of the graph of a model; what the graph costs is paid once."""

    def __init__(self, predictor: Predictor) -> None:
        self.predictor = predictor
        self.neighborhoods = Neighborhoods(predictor.graph)
        self.known = NodeIds.of(predictor.graph)
        self._preparation: Preparation | None = None

    def predict(
        self,
        features: Any = None,
        edges: Any = None,
        *,
        ids: Any = None,
        weights: Any = None,
        changed: bool = False,
        coverage: float | None = None,
        per_class: bool = False,
    ) -> NewPredictions:
        """Arguments as of `NodeClassifier.predict_new`."""
        asked: dict[str, Any] = {"changed": changed, "coverage": coverage, "per_class": per_class}
        if is_table(features):
            if ids is not None or weights is not None:
                raise ConfigError(
                    "ids" if ids is not None else "weights", "given",
                    "columns of the tables of nodes and edges instead",
                )  # fmt: skip
            return self.predict_tables(features, edges, **asked)
        graph = self.predictor.graph
        count = len(ids) if ids is not None else 0
        rows = features.shape[0] if hasattr(features, "shape") else len(features or ())
        numbered = self.known.joined_by(ids, rows or count)
        pairs = None if edges is None else numbered.pairs(edges)
        new = NewNodes.of(graph, features, pairs, weights, count=count)
        return self.predict_numbered(new, numbered.new, **asked)

    def predict_tables(
        self,
        nodes: Table,
        edges: Table | None = None,
        options: TableOptions | None = None,
        **asked: Any,
    ) -> NewPredictions:
        """The same of a table of nodes, with the columns of the training, and one of edges."""
        graph = self.predictor.graph
        options = replace(options or TableOptions(), directed=graph.directed)
        if graph.weights is None:
            options = replace(options, weight_column="none")
        if edges is not None and not is_table(edges):
            edges = pa_table_of_pairs(edges)
        known = self.known.ids_of(np.arange(graph.num_nodes))
        read = read_new_nodes(nodes, edges, self.preparation(), known, options)
        ids = self.known.joined_by(read.ids, len(read.ids)).new
        new = NewNodes.of(graph, read.features, read.edges.T, read.weights, count=len(ids))
        made = self.predict_numbered(new, ids, **asked)
        notes = [*read.notes, *made.notes]
        if graph.weights is not None and read.weights is None and len(read.edges.T):
            notes.append(
                "the edges of the graph have weights and the new ones have none: each is 1"
            )
        return replace(made, notes=tuple(notes))

    def preparation(self) -> Preparation:
        """How columns of tables become features; not all runs were made from tables."""
        origin = self.predictor.model.origin
        if not isinstance(origin, Path) or not (origin / PREPARATION).is_file():
            raise RunError(
                "The run does not know how columns of a table become features, because its graph "
                "was not read by `scr fit` from a table with columns; expected features as numbers",
                hint="`NodeClassifier.load(path).predict_new(features, edges)` takes them",
            )
        if self._preparation is None:
            self._preparation = Preparation.load(origin)
        return self._preparation

    def predict_numbered(
        self,
        new: NewNodes,
        ids: NDArray[Any],
        *,
        changed: bool = False,
        coverage: float | None = None,
        per_class: bool = False,
    ) -> NewPredictions:
        """The same of checked nodes, with ids of their own."""
        predictor, graph = self.predictor, self.predictor.graph
        limits = None
        if coverage is not None:
            limits = predictor.set_limits(coverage, per_class=per_class)
        models, part = models_of(predictor), graph
        reason = whole_graph_reason(models)
        known, notes = np.zeros(0, np.int64), tuple[str, ...]()
        if reason is None:
            walked = _walks(models)
            if changed:
                known = self.neighborhoods.changed(new, *walked)
            part = self.neighborhoods.part(new, known, *walked)
            chosen = np.arange(new.count + len(known))
        else:
            part = enlarged(graph, new)
            known = np.arange(graph.num_nodes) if changed else known
            chosen = np.concatenate([np.arange(graph.num_nodes, part.num_nodes), known])
            notes = (f"Computed the whole enlarged graph: {reason}",)
        probabilities = predictor.probabilities(chosen, part)
        is_new = np.arange(len(chosen)) < new.count
        return NewPredictions(self._described(ids, known), is_new, probabilities, limits, notes)

    def _described(self, ids: NDArray[Any], known: NDArray[np.int64]) -> Graph:
        """A graph without edges of the new nodes and then some known ones."""
        graph, count = self.predictor.graph, len(ids) + len(known)
        unknown = np.full((len(ids), *graph.labels.shape[1:]), -1, graph.labels.dtype)
        splits: dict[str, Any] = {
            name: len(ids) + np.flatnonzero(np.isin(known, np.asarray(getattr(graph, name))))
            for name in ("train", "valid", "test")
        }
        return Graph(
            indptr=np.zeros(count + 1, np.int64), indices=np.zeros(0, np.int32),
            labels=np.concatenate([unknown, np.asarray(graph.labels[known])]),
            ids=np.concatenate([ids, self.known.ids_of(known)]), class_names=graph.class_names,
            name=graph.name, **splits,
        )  # fmt: skip


def is_table(given: Any) -> bool:
    """Whether something has named columns: a file, a data frame, an Arrow table."""
    return isinstance(given, (str, Path)) or hasattr(given, "columns")


def pa_table_of_pairs(edges: Any) -> pa.Table:
    """Pairs of ids as a table."""
    import pyarrow as pa

    pairs = np.asarray(edges).reshape(-1, 2)
    return pa.table({"source": pairs[:, 0].tolist(), "target": pairs[:, 1].tolist()})


def models_of(predictor: Predictor) -> list[TrainedModel]:
    """The models that answer together."""
    if isinstance(predictor, EnsemblePredictor):
        return [member.model for member in predictor.members]
    return [predictor.model]


def whole_graph_reason(models: list[TrainedModel]) -> str | None:
    """Why a neighborhood does not tell what models need; none: it does."""
    for model in models:
        if encoder_class(model.recipe.encoder).batch_kind is GraphBatch:
            return f"the encoder `{model.recipe.encoder}` reads edges, not hops"
        if training.rebuilds_label_hops(model.recipe):
            return "label hops after training in stages hold predictions of all nodes"
        if model.recipe.propagation.label_paths:
            return "labels come along metapaths"
        if isinstance(model.features, FittedCompletion):
            return "features of some nodes are made from those of others"
    return None


def _walks(models: list[TrainedModel]) -> tuple[int, set[str]]:
    """Over how many steps, at most, and in which directions the rows of models are propagated."""
    radius, directions = 0, set[str]()
    for model in models:
        config = model.recipe.propagation
        radius = max(radius, config.hops, config.label_hops)
        directions |= {"out", "in"} if config.direction == "separate" else {config.direction}
        if config.label_hops:
            directions.add(config.label_direction)
    return radius, directions
