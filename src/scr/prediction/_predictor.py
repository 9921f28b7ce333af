"""What a trained model says of nodes: of the graph that it was trained on, and of others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from scr import runs, training
from scr.compute import available_bytes
from scr.errors import ConfigError, GraphError, MemoryBudgetError, RunError
from scr.graph import Graph, check_graph
from scr.metrics import METRICS, Metric, MetricsInParts, reliability_curve, target_metrics
from scr.prediction._breakdown import write_breakdown
from scr.prediction._class_shares import ClassShares, check_estimate
from scr.prediction._estimated_shares import estimate_class_shares
from scr.prediction._explanation import MOST_NODES, Explanation, explain
from scr.prediction._other_graphs import (
    Nodes,
    model_graph,
    node_numbers,
    rows_maker,
    rows_of_other_graph,
)  # fmt: skip
from scr.prediction._stored_model import (
    TrainedModel,
    load_run_graph,
    read_handover,
    read_summary,
    refuse_existing,
    write_handover,
    write_model,
)
from scr.prediction._suggestions import write_run_suggestions
from scr.prediction._summary import fit_summary
from scr.prediction._table import ROWS_PER_PART, SPLITS, ProbabilityColumns, write_predictions
from scr.prediction._table_writers import table_writer
from scr.prediction.calibration import prediction_sets, write_calibration
from scr.storage import atomic_folder

MOST_PROBABILITIES = 2**26
"""That are held at once while they are measured, 256 MB."""
Answer = Callable[[Nodes], NDArray[np.float32]]
"""Class probabilities of some nodes, shape (nodes, classes)."""


class Predictor:
    """A trained model with its graph; rows are made once. Arguments as of `NodeClassifier`."""

    def __init__(
        self,
        model: TrainedModel,
        graph: Graph | None = None,
        *,
        device: str = "cpu",
        shared: dict[str, training.Prepared] | None = None,
    ) -> None:
        """Take a model and the graph of its training; none: loaded again, when needed.

        What is prepared of a graph is `shared` with other models that read the same.
        """
        self.model, self.device = model, device
        self._shared = shared
        self._graph = None if graph is None else model_graph(graph, model)
        self._rows = None if isinstance(model.origin, Path) else model.origin.rows
        self._class_shares: ClassShares | None = None

    def fitted(self) -> training.Fitted:
        """All that a fit gave; a stored model does not have it."""
        if isinstance(self.model.origin, Path):
            raise RunError("The classifier has not been fitted here; expected a call of `fit`")
        return self.model.origin

    @property
    def graph(self) -> Graph:
        """The graph of the training."""
        if self._graph is None:
            assert isinstance(self.model.origin, Path)
            self._graph = load_run_graph(self.model.origin)
        return self._graph

    @property
    def known(self) -> Graph:
        """The same; where a refit trained on validation nodes, these are training nodes."""
        return training.with_known_labels(self.graph, self.model.recipe)

    def rows(self, graph: Graph | None, nodes: NDArray[np.int64] | None) -> training.RowSource:
        """Rows of the graph of the training, or of another one; of some nodes if possible."""
        model = self.model
        if graph is not None:
            self._check_vectors(graph)
            return rows_of_other_graph(
                graph, model, device=self.device, nodes=nodes, shared=self._shared
            )
        is_held = self._rows is not None and self._rows.has(nodes)
        if isinstance(model.origin, Path) and not is_held:
            handover = None
            if training.rebuilds_label_hops(model.recipe):
                handover = read_handover(model.origin / runs.HANDOVER)
            make = rows_maker(self.known, model, self.device, nodes, self._shared)
            rows = make(handover=handover)
            if nodes is not None and rows.kept is not None:
                return rows  # another call may ask for other nodes
            self._rows = rows
        assert self._rows is not None
        return self._rows

    def _check_vectors(self, graph: Graph) -> None:
        """Refuse another graph to a model that has learned vectors of its own nodes."""
        has_vectors = self.model.recipe.encoder_settings.get("node_embeddings")
        if has_vectors and graph.fingerprint("edges") != self.graph.fingerprint("edges"):
            raise GraphError(
                f"The model learned a vector for each node without features, which the nodes of "
                f"the graph `{graph.name}` do not have; expected the graph of the training",
                hint="train with `encoder.node_embeddings = false` to predict on other graphs",
            )

    def probabilities(
        self, nodes: ArrayLike | None, graph: Graph | None, class_shares: str = "none"
    ) -> NDArray[np.float32]:
        """Class probabilities of some nodes, shape (nodes, classes)."""
        check_estimate(class_shares)
        known = self.graph if graph is None else check_graph(graph)
        chosen = None if nodes is None else node_numbers(nodes, known.num_targets)
        found, predict = self.answers(chosen, graph)
        index = np.arange(known.num_targets) if found is None else found
        needed = len(index) * len(self.model.class_names) * 4
        if needed > available_bytes() // 2:
            raise MemoryBudgetError(
                f"Probabilities of {len(index):,} nodes need {needed / 1e9:.1f} GB; "
                f"{available_bytes() / 1e9:.1f} GB are free",
                hint="ask for fewer `nodes`, or write them to disk with `scr predict`",
            )
        corrected = self._corrected(class_shares, None if graph is None else known, found, predict)
        return corrected(index)

    def answers(self, nodes: Nodes | None, graph: Graph | None) -> tuple[Nodes | None, Answer]:
        """Nodes that can be predicted, none: all of them, and what predicts some of them.

        These are what was asked for, or what there are hops of. Predictions are not calibrated yet.
        """
        rows, encoder = self.rows(graph, nodes), self.model.encoder
        if nodes is not None and rows.kept is not None:
            training.positions_of(nodes, rows.kept)  # at once, not after hours

        def predict(part: Nodes) -> NDArray[np.float32]:
            return training.predict_probabilities(
                encoder, rows, torch.tensor(part), multilabel=self.model.multilabel
            ).numpy()

        return rows.kept if nodes is None else nodes, predict

    def sets(
        self,
        nodes: ArrayLike | None,
        graph: Graph | None,
        *,
        coverage: float,
        per_class: bool = False,
    ) -> NDArray[np.bool_]:
        """Prediction sets of some nodes, shape (nodes, classes)."""
        limits = self.set_limits(coverage, per_class=per_class)
        return prediction_sets(self.probabilities(nodes, graph), limits)

    def set_limits(self, coverage: float, *, per_class: bool) -> NDArray[np.float64]:
        """Of the classes of prediction sets."""
        names = self.model.class_names
        if self.model.multilabel:
            raise GraphError(
                "Prediction sets are of one class per node; the model has several targets per node"
            )
        return self.model.calibration.limits(coverage, names, per_class=per_class)

    def class_shares(self) -> ClassShares | None:
        """Shares of the classes among nodes that neither train nor validate; none without any."""
        if self._class_shares is None and not self.model.multilabel:
            index, predict = self.answers(None, None)
            self._class_shares = self._shares_in(self.graph, index, predict, check=True)
        return self._class_shares

    def _shares_in(
        self, graph: Graph, index: Nodes | None, predict: Answer, *, check: bool = False
    ) -> ClassShares | None:
        held_out = self.held_out()
        _, judged = self.answers(held_out, None) if len(held_out) else (None, predict)
        return estimate_class_shares(
            self.graph, graph, index, self._calibrated(predict), held_out,
            self._calibrated(judged), check=check,
        )  # fmt: skip

    def held_out(self) -> Nodes:
        """Labeled nodes of the graph that were not trained on."""
        return self.labeled("valid")

    def _calibrated(self, predict: Answer) -> Answer:
        return lambda part: self.model.calibration.apply(predict(part))

    def _corrected(
        self, class_shares: str, graph: Graph | None, index: Nodes | None, predict: Answer
    ) -> Answer:
        """What predicts, calibrated and, if asked for, corrected by estimated class shares."""
        estimate, calibrated = check_estimate(class_shares), self._calibrated(predict)
        if estimate == "none":
            return calibrated
        shares = self.class_shares()
        if graph is not None:
            shares = self._shares_in(graph, index, predict)
        if shares is None:
            raise ConfigError(
                "class_shares", estimate,
                "`none` where every node that has hops is a training or validation node",
            )  # fmt: skip
        return lambda part: shares.corrected(calibrated(part), estimate=estimate)

    def predict(self, nodes: ArrayLike | None, graph: Graph | None) -> NDArray[np.int64]:
        """The likeliest class of some nodes; of several targets 0 or 1, shape (nodes, targets)."""
        probabilities = self.probabilities(nodes, graph)
        if self.model.multilabel:
            return (probabilities > 0.5).astype(np.int64)
        predicted: NDArray[np.int64] = probabilities.argmax(axis=1)
        return predicted

    @property
    def metric(self) -> Metric:
        """What counts."""
        return METRICS[self.model.recipe.training.metric]

    def score(self, split: str) -> float:
        """The metric that counts, of the labeled nodes of a split."""
        value = self.metrics(split)[self.metric.key]
        if value is None:
            raise GraphError(
                f"All labels of the split `{split}` are of one class, or the same for each target; "
                f"expected several for the {self.metric.title}"
            )
        return value

    def metrics(self, split: str) -> dict[str, float | None]:
        """Measures of the predictions for the labeled nodes of a split."""
        return self.measured(split)[0]

    def measured(self, split: str) -> tuple[dict[str, float | None], float | None]:
        """Measures, and the calibration error without a temperature."""
        if split not in SPLITS:
            raise ConfigError("split", split, f"one of {', '.join(SPLITS)}")
        if split == "valid" and self.model.recipe.training.refit:
            raise GraphError(
                "The refit trained on the validation nodes; expected `test` to measure on",
                hint="`summary()` has the validation accuracy from before the refit",
            )
        nodes = self.labeled(split)
        labels = np.asarray(self.graph.labels[nodes])
        if len(nodes) == 0:
            raise GraphError(f"The split `{split}` has no labeled nodes; expected at least one")
        if self.model.multilabel:
            return target_metrics(labels, self.probabilities(nodes, None)), None
        measured = MetricsInParts(ranked=self.metric.name == "roc-auc")
        before = reliability_curve([], [])
        _, predict = self.answers(nodes, None)
        # Few parts: an encoder that reads the graph walks all of it for each.
        rows = max(ROWS_PER_PART, MOST_PROBABILITIES // len(self.model.class_names))
        for start in range(0, len(nodes), rows):
            part = slice(start, start + rows)
            raw, known = predict(nodes[part]), labels[part]
            before += reliability_curve(raw.max(axis=1), raw.argmax(axis=1) == known)
            measured.add(known, self.model.calibration.apply(raw))
        return measured.measures(), before.calibration_error

    def labeled(self, split: str) -> NDArray[np.int64]:
        """Nodes of a split whose labels are known."""
        return training.nodes_with_labels(self.known, split)

    def explain(
        self, nodes: ArrayLike | None, *, at_most: int = MOST_NODES, seed: int = 0
    ) -> Explanation:
        """Which hops and relations carry the predictions."""
        if self.model.multilabel:
            raise GraphError(
                "Predictions of several targets per node are not explained; expected one class "
                "per node"
            )
        split = None
        if nodes is None:
            split = "valid" if len(self.labeled("valid")) else "train"
            chosen = self.labeled(split)
        else:
            chosen = node_numbers(nodes, self.graph.num_targets)
        return explain(
            self.model.encoder, self.rows(None, chosen), chosen, labels=self.graph.labels,
            class_names=self.model.class_names, subsets=self.model.subsets, split=split,
            fixed=training.fixed_mixture(self.model.recipe), at_most=at_most, seed=seed,
            target=self.graph.target,
        )  # fmt: skip

    def summary(self) -> dict[str, Any]:
        """The content of `metrics.json`: measured after a fit, of a stored model what it has."""
        if isinstance(self.model.origin, Path):
            return read_summary(self.model.origin)
        return fit_summary(self)

    def for_table(
        self, nodes: ArrayLike | None, graph: Graph | None, class_shares: str
    ) -> tuple[Graph, Nodes | None, Answer]:
        """What a table of predictions is made of: a graph, its nodes, and what predicts them."""
        check_estimate(class_shares)
        known = self.known if graph is None else model_graph(check_graph(graph), self.model)
        chosen = None if nodes is None else node_numbers(nodes, known.num_targets)
        index, raw = self.answers(chosen, graph)
        other = None if graph is None else known
        return known, index, self._corrected(class_shares, other, index, raw)

    def write_predictions(
        self,
        path: Path,
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
        """Stream predictions to a file, in the format of its suffix."""
        table_writer(path, spreadsheet_safe=spreadsheet_safe)
        limits = None if coverage is None else self.set_limits(coverage, per_class=per_class)
        known, index, predict = self.for_table(nodes, graph, class_shares)
        done, total = 0, known.num_targets if index is None else len(index)

        def progress(count: int) -> None:
            nonlocal done
            done += count
            if on_rows is not None:
                on_rows(count)
            if on_progress is not None:
                on_progress("Predicting", done, total)

        write_predictions(
            path, known, predict, nodes=index, columns=columns, set_limits=limits,
            on_rows=progress, multilabel=self.model.multilabel, spreadsheet_safe=spreadsheet_safe,
        )  # fmt: skip

    def save(self, path: Path, *, source: str | None = None) -> Path:
        """Write a run directory, whole or not at all."""
        refuse_existing(path)
        with atomic_folder(path) as temporary:
            fitted, graph = self.fitted(), self.graph
            store = None if graph.path is None else str(graph.path.resolve())
            run = runs.describe_run(
                graph, fitted.recipe, seed=fitted.seed, source=source or graph.source or store,
                command=None, threads=torch.get_num_threads(),
            )  # fmt: skip
            runs.start_run(temporary, run, resume=False)
            self.write_run(temporary, run)
        return path

    def write_run(
        self,
        path: Path,
        run: Mapping[str, Any],
        *,
        probabilities: ProbabilityColumns | None = None,
        on_progress: Callable[[str, int, int], None] | None = None,
    ) -> dict[str, Any]:
        """Write model, history, predictions and, last, metrics into a run directory.

        What training found out is added to `run`, which is from `describe_run`. Returns the content
        of `metrics.json`.
        """
        fitted = self.fitted()
        write_model(path / runs.MODEL, fitted)
        runs.write_history(path / runs.HISTORY, fitted.outcome.history)
        kept = "all" if fitted.rows.kept is None else len(fitted.rows)
        temperature = self.model.calibration.temperature
        record = {**run, "rows_kept": kept, "notes": self.model.notes, "temperature": temperature}
        write_calibration(path, self.model.calibration)
        if fitted.prepared.subsets is not None:
            record["subsets"] = fitted.prepared.subsets
        runs.write_json(path / runs.RUN, record)
        runs.write_split(path / runs.SPLIT, self.graph)
        self.write_predictions(
            path / runs.PREDICTIONS, columns=probabilities, on_progress=on_progress
        )
        write_breakdown(path, self.known, self.known.train, fitted.rows.kept)
        if training.rebuilds_label_hops(fitted.recipe):
            handover = fitted.handover or training.Handover.nothing(fitted.rows.classes)
            write_handover(path / runs.HANDOVER, handover)
        summary = self.summary()
        if not self.model.multilabel:
            runs.write_json(path / runs.EXPLANATION, self.explain(None).tables())
            write_run_suggestions(path, self)
        runs.finish_run(path, summary)
        runs.remove_checkpoints(path)
        return summary
