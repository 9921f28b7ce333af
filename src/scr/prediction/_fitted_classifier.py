"""What a classifier tells once it has a model: predictions, figures, explanations, files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import nn

from scr.errors import RunError
from scr.graph import Graph, check_graph, numbers_of
from scr.networks import OWN
from scr.prediction._classes import class_array
from scr.prediction._estimator import Estimator
from scr.prediction._explanation import MOST_NODES, Explanation
from scr.prediction._new_nodes import NewNodePredictor, NewPredictions
from scr.prediction._onnx import OnnxExport
from scr.prediction._predictor import Predictor
from scr.prediction._suggestions import Suggestion, suggest
from scr.prediction._table import ProbabilityColumns
from scr.prediction._views import FittedViews
from scr.runs import read_run

if TYPE_CHECKING:
    from scr.training import Fitted, Recipe


class FittedClassifier(FittedViews, OnnxExport, Estimator):
    """The part of `scr.NodeClassifier` that needs a model, from a fit or from a run.

    Nodes are named by the ids of their graph, or by their numbers where it has no ids; a mask of
    all nodes will do as well.
    """

    _predictor: Predictor | None = None
    _new_nodes: NewNodePredictor | None = None

    @property
    def predictor_(self) -> Predictor:
        """The same answers by numbers of nodes and of classes, also where there are ids."""
        return self._trained()

    @property
    def classes_(self) -> NDArray[Any]:
        """Names of the classes or targets: int64 where all are plain integers, else text."""
        return class_array(self._trained().model.class_names)

    @property
    def n_features_in_(self) -> int:
        """Columns of the features of the graph that it was fitted on."""
        predictor = self._trained()
        origin = predictor.model.origin
        if isinstance(origin, Path):  # whose graph need not be loaded for this
            return int(read_run(origin)["graph"]["features"])
        return predictor.graph.num_features

    @property
    def recipe_(self) -> Recipe:
        """All settings of the run."""
        return self._trained().model.recipe

    @property
    def fitted_(self) -> Fitted:
        """All that `fit` found out; a classifier that was loaded does not have it."""
        return self._trained().fitted()

    @property
    def module_(self) -> nn.Module:
        """The trained torch module: your own, if you gave one, else the encoder."""
        encoder = self._trained().model.encoder
        return cast(nn.Module, encoder.module) if self.recipe_.encoder in OWN else encoder

    @property
    def history_(self) -> list[dict[str, Any]]:
        """One record per evaluated epoch."""
        return self._trained().model.history

    @property
    def notes_(self) -> list[str]:
        """What the run decided by itself, in sentences."""
        return self._trained().model.notes

    @property
    def inactive_(self) -> bool:
        """Whether a regularizer was asked for and had no part in the weights that were kept."""
        return not self._trained().model.ending("acted") and self.stopped_ != "interrupted"

    @property
    def best_epoch_(self) -> int:
        """The epoch whose weights were kept."""
        return int(self._trained().model.ending("best_epoch"))

    @property
    def stopped_(self) -> str:
        """Why training ended: `epochs`, `patience` or `interrupted`."""
        return str(self._trained().model.ending("stopped"))

    def predict_proba(
        self, nodes: ArrayLike | None = None, *, graph: Graph | None = None,
        class_shares: str = "none",
    ) -> NDArray[np.float32]:  # fmt: skip
        """Probabilities of the classes, or of several targets.

        Args:
            nodes: Ids of the nodes, or their numbers where the graph has no ids; none: all of
                them, or all that hops were kept for.
            graph: Another graph with the same kind of features, for nodes that were not there at
                training; none: the graph that the classifier was fitted on.
            class_shares: ``"em"`` or ``"bbse"`` corrects by an estimate of how common classes are
                among unlabeled nodes; see the guide to class shares.

        Returns:
            Shape (nodes, classes).
        """
        return self._trained().probabilities(self._numbers(nodes, graph), graph, class_shares)

    def predict(
        self, nodes: ArrayLike | None = None, *, graph: Graph | None = None
    ) -> NDArray[Any]:
        """The likeliest of `classes_` for each node; 0 or 1 for each of several targets.

        Arguments as of `predict_proba`.
        """
        predictor = self._trained()
        predicted = predictor.predict(self._numbers(nodes, graph), graph)
        return predicted if predictor.model.multilabel else self.classes_[predicted]

    def predict_sets(
        self,
        nodes: ArrayLike | None = None,
        coverage: float = 0.9,
        per_class: bool = False,
        *,
        graph: Graph | None = None,
    ) -> NDArray[np.bool_]:
        """Which classes a node may have: sets that hold the true one as often as asked for.

        Args:
            nodes: As of `predict_proba`.
            coverage: Share of the nodes whose class is in their set, if they are drawn like the
                validation nodes.
            per_class: Keep that share within every class, also where classes are not as frequent
                as among the validation nodes; sets grow, and every class needs validation nodes.
            graph: As of `predict_proba`.

        Returns:
            Shape (nodes, classes).
        """
        chosen = self._numbers(nodes, graph)
        return self._trained().sets(chosen, graph, coverage=coverage, per_class=per_class)

    def predict_new(
        self,
        features: Any = None,
        edges: Any = None,
        *,
        ids: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        changed: bool = False,
        coverage: float | None = None,
        per_class: bool = False,
    ) -> NewPredictions:
        """Predict nodes that join the graph, from their neighborhood in the enlarged graph.

        The answer is that of `predict_proba` on the enlarged graph. The graph of the classifier
        stays as it is: another call does not know these nodes.

        Args:
            features: Of the new nodes, with the columns of the graph's own, dense or sparse. Shape
                (new nodes, columns). Or, for a run of `scr fit`, a table with the columns of its
                table of nodes: a file or a data frame.
            edges: Pairs of ids, each with a new node and a new or a known one. Shape (edges, 2).
                Or a table of edges.
            ids: Of the new nodes; none, where the graph has no ids: the numbers after its own.
            weights: One per edge, where the edges of the graph have weights; none: all are 1.
            changed: Predict the known nodes too whose predictions the new ones may change.
            coverage: Add the sets of `predict_sets` with this coverage; none: no sets.
            per_class: Of the sets, as of `predict_sets`.
        """
        return self.new_node_predictor().predict(
            features, edges, ids=ids, weights=weights, changed=changed, coverage=coverage,
            per_class=per_class,
        )  # fmt: skip

    def new_node_predictor(self) -> NewNodePredictor:
        """What `predict_new` asks, with what it has computed of the graph."""
        predictor = self._trained()
        if self._new_nodes is None or self._new_nodes.predictor is not predictor:
            self._new_nodes = NewNodePredictor(predictor)
        return self._new_nodes

    def score(self, split: str = "test") -> float:
        """Accuracy, or the `metric` of the training, on the labeled nodes of a split."""
        return self._trained().score(split)

    def metrics(self, split: str = "test") -> dict[str, float | None]:
        """Accuracy, balanced accuracy, macro-F1, log-loss and calibration error of a split."""
        return self._trained().metrics(split)

    def explain(
        self, nodes: ArrayLike | None = None, *, at_most: int = MOST_NODES, seed: int = 0
    ) -> Explanation:
        """Which hops and relations carry the predictions; see `Explanation`.

        Args:
            nodes: The nodes to look at, as of `predict_proba`; none: labeled validation nodes, or
                training nodes where there are none.
            at_most: Of more nodes, so many are drawn.
            seed: Decides which nodes are drawn and how parts of the input are shuffled.
        """
        return self._trained().explain(self._numbers(nodes, None), at_most=at_most, seed=seed)

    def suggest(self, count: int = 20) -> list[Suggestion]:
        """Unlabeled nodes whose labels would help most, the most useful first.

        Args:
            count: How many; fewer where fewer nodes are unlabeled.

        Returns:
            Each with `node`, `id`, `prediction`, `confidence`, `score` and `why`;
            ``pandas.DataFrame(suggestions)`` is a table of them.
        """
        return suggest(self._trained(), count)

    def summary(self) -> dict[str, Any]:
        """The content of `metrics.json`; after `load`, what the run has recorded."""
        return self._trained().summary()

    def save(self, path: str | Path, *, source: str | None = None) -> Path:
        """Write a run directory that `load`, `scr predict` and `scr report` read.

        Args:
            path: A new folder; written whole or not at all.
            source: Where the graph can be loaded from again; none: where `load_graph` found it, or
                its store. A graph that was changed since then is refused when it is loaded again.
        """
        return self._trained().save(Path(path), source=source)

    def write_into(
        self,
        path: Path,
        run: Mapping[str, Any],
        *,
        probabilities: ProbabilityColumns | None = None,
        on_progress: Callable[[str, int, int], None] | None = None,
    ) -> dict[str, Any]:
        """Write model, history, predictions and, last, metrics into a run directory."""
        return self._trained().write_run(
            path, run, probabilities=probabilities, on_progress=on_progress
        )

    def write_predictions(
        self,
        path: str | Path,
        *,
        graph: Graph | None = None,
        nodes: ArrayLike | None = None,
        columns: ProbabilityColumns | None = None,
        coverage: float | None = None,
        per_class: bool = False,
        class_shares: str = "none",
        spreadsheet_safe: bool = False,
        on_rows: Callable[[int], None] | None = None,
        on_progress: Callable[[str, int, int], None] | None = None,
    ) -> None:
        """Stream predictions to a file, with the user's own ids.

        Args:
            path: The file: .csv, .tsv, .parquet, .arrow, .feather, .json or .jsonl.
            graph: Another graph, for new nodes; none: the one of the fit.
            nodes: As of `predict_proba`.
            columns: Which probabilities to add.
            coverage: Add the sets of `predict_sets` with this coverage; none: no sets.
            per_class: Of the sets, as of `predict_sets`.
            class_shares: As of `predict_proba`.
            spreadsheet_safe: Of CSV and TSV, put an apostrophe before texts that a spreadsheet
                would compute, such as `=1+1`; ids that have one no longer read back as they were.
            on_rows: Called with how many rows were just written.
            on_progress: Called with what is done, how many rows of it, and how many there are.

        Raises:
            GraphError: Hops of one of the nodes were not kept; nothing is written.
        """
        self._trained().write_predictions(
            Path(path), graph=graph, nodes=self._numbers(nodes, graph), columns=columns,
            coverage=coverage, per_class=per_class, class_shares=class_shares,
            spreadsheet_safe=spreadsheet_safe, on_rows=on_rows, on_progress=on_progress,
        )  # fmt: skip

    def _numbers(self, nodes: ArrayLike | None, graph: Graph | None) -> NDArray[Any] | None:
        if nodes is None:
            return None
        return numbers_of(self._trained().graph if graph is None else check_graph(graph), nodes)

    def __sklearn_is_fitted__(self) -> bool:
        return self._predictor is not None

    def _trained(self) -> Predictor:
        if self._predictor is None:
            raise RunError("The classifier has no model yet; expected a call of `fit` or `load`")
        return self._predictor
