"""What a trained model says of nodes: of the graph that it was trained on, and of others."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from scr import runs, training
from scr.compute import available_bytes, peak_bytes
from scr.errors import ConfigError, GraphError, MemoryBudgetError, RunError
from scr.graph import Graph, check_graph
from scr.networks import GraphEncoder
from scr.prediction._explanation import MOST_NODES, Explanation, explain
from scr.prediction._stored_model import (
    TrainedModel,
    load_run_graph,
    read_handover,
    read_summary,
    write_handover,
    write_model,
)
from scr.prediction._table import SPLITS, ProbabilityColumns, write_predictions
from scr.report import MetricsInParts

Nodes = NDArray[np.int64]
BEFORE_REFIT = "before the refit"
"""When the validation accuracy of a run with a refit was measured."""


class Predictor:
    """A trained model with its graph; rows are made once. Arguments as of `NodeClassifier`."""

    def __init__(
        self, model: TrainedModel, graph: Graph | None = None, *, device: str = "cpu"
    ) -> None:
        """Take a model and the graph of its training; none: loaded again, when needed."""
        self.model, self.device = model, device
        self._graph = None if graph is None else with_classes(graph, model.class_names)
        self._rows = None if isinstance(model.origin, Path) else model.origin.rows

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
            return rows_of_other_graph(graph, model, device=self.device, nodes=nodes)
        is_held = self._rows is not None and self._rows.has(nodes)
        if isinstance(model.origin, Path) and not is_held:
            handover = None
            if training.rebuilds_label_hops(model.recipe):
                handover = read_handover(model.origin / runs.HANDOVER)
            rows = _rows_maker(self.known, model, self.device, nodes)(handover=handover)
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

    def probabilities(self, nodes: ArrayLike | None, graph: Graph | None) -> NDArray[np.float32]:
        """Class probabilities of some nodes, shape (nodes, classes)."""
        known = self.graph if graph is None else check_graph(graph)
        chosen = None if nodes is None else node_numbers(nodes, known.num_targets)
        rows = self.rows(graph, chosen)
        index = np.array(rows.nodes()) if chosen is None else chosen
        needed = len(index) * rows.classes * 4
        if needed > available_bytes() // 2:
            raise MemoryBudgetError(
                f"Probabilities of {len(index):,} nodes need {needed / 1e9:.1f} GB; "
                f"{available_bytes() / 1e9:.1f} GB are free",
                hint="ask for fewer `nodes`, or write them to disk with `scr predict`",
            )
        return training.predict_probabilities(
            self.model.encoder, rows, torch.from_numpy(index)
        ).numpy()

    def metrics(self, split: str) -> dict[str, float | None]:
        """Measures of the predictions for the labeled nodes of a split."""
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
        measured, done = MetricsInParts(), 0
        rows, index = self.rows(None, nodes), torch.from_numpy(nodes)
        for part, logits in training.stream_logits(self.model.encoder, rows, index):
            measured.add(labels[done : done + len(part)], torch.softmax(logits, dim=-1).numpy())
            done += len(part)
        return measured.measures()

    def labeled(self, split: str) -> NDArray[np.int64]:
        """Nodes of a split whose labels are known."""
        return training.nodes_with_labels(self.known, split)

    def explain(
        self, nodes: ArrayLike | None, *, at_most: int = MOST_NODES, seed: int = 0
    ) -> Explanation:
        """Which hops and relations carry the predictions."""
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
        fitted, outcome = self.model.origin, self.model.origin.outcome
        scored = {name: self.metrics(name) for name in SPLITS[1:] if len(self.labeled(name))}
        before = outcome.valid_accuracy if fitted.recipe.training.refit else None
        return {
            "valid_accuracy": scored["valid"]["accuracy"] if "valid" in scored else before,
            "test_accuracy": scored["test"]["accuracy"] if "test" in scored else None,
            **({"valid_accuracy_is": BEFORE_REFIT} if fitted.recipe.training.refit else {}),
            "best_epoch": outcome.best_epoch,
            "epochs": outcome.epochs,
            "stopped": outcome.stopped,
            "train_seconds": outcome.train_seconds,
            "propagate_seconds": fitted.prepared.seconds,
            "peak_memory_bytes": peak_bytes(),
            "parameters": sum(weight.numel() for weight in fitted.encoder.parameters()),
            "nodes": self.graph.num_targets,
            **({} if fitted.term is None else {"consistency": fitted.term.summary()}),
            **scored,
        }

    def write_predictions(
        self,
        path: Path,
        *,
        graph: Graph | None = None,
        nodes: ArrayLike | None = None,
        columns: ProbabilityColumns | None = None,
        on_rows: Callable[[int], None] | None = None,
        on_progress: Callable[[str, int, int], None] | None = None,
    ) -> None:
        """Stream predictions to a Parquet file."""
        known = self.known
        if graph is not None:
            known = with_classes(check_graph(graph), self.model.class_names)
        chosen = None if nodes is None else node_numbers(nodes, known.num_targets)
        rows, encoder = self.rows(graph, chosen), self.model.encoder
        if chosen is not None and rows.kept is not None:
            training.positions_of(chosen, rows.kept)  # at once, not after hours

        def predict(part: NDArray[np.int64]) -> NDArray[np.float32]:
            return training.predict_probabilities(encoder, rows, torch.tensor(part)).numpy()

        index = rows.kept if chosen is None else chosen
        done, total = 0, known.num_targets if index is None else len(index)

        def progress(count: int) -> None:
            nonlocal done
            done += count
            if on_rows is not None:
                on_rows(count)
            if on_progress is not None:
                on_progress("Predicting", done, total)

        write_predictions(path, known, predict, nodes=index, columns=columns, on_rows=progress)

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
        record = {**run, "rows_kept": kept, "notes": fitted.notes}
        if fitted.prepared.subsets is not None:
            record["subsets"] = fitted.prepared.subsets
        runs.write_json(path / runs.RUN, record)
        runs.write_split(path / runs.SPLIT, self.graph)
        self.write_predictions(
            path / runs.PREDICTIONS, columns=probabilities, on_progress=on_progress
        )
        if training.rebuilds_label_hops(fitted.recipe):
            handover = fitted.handover or training.Handover.nothing(fitted.rows.classes)
            write_handover(path / runs.HANDOVER, handover)
        summary = self.summary()
        runs.write_json(path / runs.EXPLANATION, self.explain(None).tables())
        runs.write_json(path / runs.METRICS, summary)
        runs.remove_checkpoints(path)
        return summary


def node_numbers(nodes: ArrayLike, count: int) -> NDArray[np.int64]:
    """Numbers of some of so many nodes, as a user gives them, also by a mask."""
    index = np.atleast_1d(np.array(nodes))  # a copy: torch wants to be able to write
    if index.ndim > 1 or (index.size and index.dtype.kind not in "biu"):
        raise GraphError(
            f"The nodes are {index.dtype} of shape {index.shape}; expected a list of whole numbers"
        )
    if index.dtype == bool:
        if len(index) != count:
            raise GraphError(
                f"The mask of nodes has {len(index):,} entries; expected {count:,}, one per node"
            )
        index = np.flatnonzero(index)
    index = index.astype(np.int64)
    wrong = index[(index < 0) | (index >= count)]
    if len(wrong):
        raise GraphError(f"There is no node {wrong[0]}; expected numbers from 0 to {count - 1:,}")
    return index


def with_classes(graph: Graph, class_names: tuple[str, ...]) -> Graph:
    """The graph under the class names of a model.

    Labels are translated by name. Those of classes that the model does not know are dropped, and
    nodes with such labels leave the training nodes.
    """
    if graph.class_names == class_names:
        return graph
    position = {name: number for number, name in enumerate(class_names)}
    # The last entry is for the label -1.
    translation = np.array([position.get(name, -1) for name in graph.class_names] + [-1], np.int64)
    labels = translation[np.asarray(graph.labels)]
    train = np.asarray(graph.train)
    return dataclasses.replace(
        graph, class_names=class_names, labels=labels, train=train[labels[train] >= 0]
    )


def with_relations(graph: Graph, relations: tuple[str, ...]) -> Graph:
    """The graph with its relations in the order of a model, whose weights go by their numbers.

    A model without full names of relations knows a single one.
    """
    own = tuple(str(relation) for relation in graph.relations)
    if own == relations or (not relations and not graph.is_typed):
        return graph
    if graph.edge_types is None or sorted(own) != sorted(relations):
        expected = ", ".join(relations) or "a single one"
        raise GraphError(
            f"The graph `{graph.name}` has the relations {', '.join(own)}; expected {expected}, "
            "as in training",
            hint="a relation may be without edges",
        )
    position = np.array([relations.index(name) for name in own])
    codes = np.concatenate([position, position + len(position)]).astype(graph.edge_types.dtype)
    ordered = tuple(graph.relations[own.index(name)] for name in relations)
    return dataclasses.replace(
        graph, relations=ordered, edge_types=codes[np.asarray(graph.edge_types)], path=None,
        source=None,
    )  # fmt: skip


def rows_of_other_graph(
    graph: Graph, model: TrainedModel, *, device: str = "cpu", nodes: Nodes | None = None
) -> training.RowSource:
    """What an encoder reads of a graph that it was not trained on.

    The graph may number its classes differently, have classes that the model does not know, or no
    labels at all. Label hops have one column per class of the model, so labels are translated by
    the names of classes before anything is propagated.

    After training in stages, label hops hold predictions of the stage before, whose encoder is not
    kept. Here the encoder takes its place once: it predicts with hops of the known labels, hands
    its predictions over to itself, and the hops are built again.

    Labels of the graph's training nodes are read if the encoder reads label hops. Rows are needed
    of some nodes; none: of those of the graph's splits.
    """
    encoder, recipe = model.encoder, model.recipe
    graph = training.with_known_labels(with_classes(graph, model.class_names), recipe)
    if isinstance(encoder, GraphEncoder) and encoder.aggregation == "relations":
        graph = with_relations(graph, model.relations)
    rows_with = _rows_maker(graph, model, device, nodes)
    rows = rows_with(handover=None)
    if not training.rebuilds_label_hops(recipe):
        return rows
    others = torch.from_numpy(np.setdiff1d(rows.nodes(), graph.train, assume_unique=True))
    count = training.stage_count(recipe)
    handover = training.handed_over(encoder, rows, others, recipe.stages, count, None)
    return rows_with(handover=handover)


def _rows_maker(
    graph: Graph, model: TrainedModel, device: str, nodes: Nodes | None
) -> Callable[..., training.RowSource]:
    """Prepares a graph as the model's was; returns what makes rows of it from a `handover`."""
    recipe, subsets = model.recipe, model.subsets
    prepared = training.prepare(graph, recipe, fitted=model.features, nodes=nodes, subsets=subsets)
    return partial(
        training.make_rows, prepared, graph, recipe, torch.device(device), seed=model.seed
    )
