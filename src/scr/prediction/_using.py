"""What a trained model is used for: probabilities, metrics, explanation, files of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from scr import runs
from scr.compute import available_bytes, peak_bytes
from scr.errors import ConfigError, GraphError, MemoryBudgetError
from scr.graph import SPLITS, Graph, check_graph
from scr.prediction._explanation import Explanation, explain
from scr.prediction._other_graph import with_classes
from scr.prediction._stored_model import write_handover, write_model
from scr.prediction._table import ProbabilityColumns, write_predictions
from scr.prediction._trained import FittedModel, TrainedModel
from scr.report import MetricsInParts
from scr.training import (
    Handover,
    fixed_mixture,
    positions_of,
    predict_probabilities,
    rebuilds_label_hops,
    stream_logits,
)


def probabilities(
    model: TrainedModel, nodes: ArrayLike | None, graph: Graph | None
) -> NDArray[np.float32]:
    """Class probabilities of nodes of the model's graph or of another one, in memory."""
    known = model.graph if graph is None else check_graph(graph)
    chosen = None if nodes is None else node_numbers(nodes, known.num_targets)
    rows = model.rows_of(graph, chosen)
    index = np.array(rows.nodes()) if chosen is None else chosen
    needed = len(index) * rows.classes * 4
    if needed > available_bytes() // 2:
        raise MemoryBudgetError(
            f"Probabilities of {len(index):,} nodes need {needed / 1e9:.1f} GB; "
            f"{available_bytes() / 1e9:.1f} GB are free",
            hint="ask for fewer `nodes`, or write them to disk with `scr predict`",
        )
    return predict_probabilities(model.encoder, rows, torch.from_numpy(index)).numpy()


def split_metrics(model: TrainedModel, split: str) -> dict[str, float | None]:
    """Every metric on the labeled nodes of a split."""
    graph = model.graph
    if split not in SPLITS:
        raise ConfigError("split", split, f"one of {', '.join(SPLITS)}")
    nodes = np.array(getattr(graph, split), dtype=np.int64)
    labels = np.asarray(graph.labels[nodes])
    nodes, labels = nodes[labels >= 0], labels[labels >= 0]
    if len(nodes) == 0:
        raise GraphError(f"The split `{split}` has no labeled nodes; expected at least one")
    measured, done = MetricsInParts(), 0
    rows, index = model.rows(nodes), torch.from_numpy(nodes)
    for part, logits in stream_logits(model.encoder, rows, index):
        measured.add(labels[done : done + len(part)], torch.softmax(logits, dim=-1).numpy())
        done += len(part)
    return measured.measures()


def explanation(
    model: TrainedModel, nodes: ArrayLike | None, *, at_most: int, seed: int
) -> Explanation:
    """Which hops and relations carry the predictions of some nodes; by default of validation."""
    graph, split = model.graph, None
    if nodes is None:
        split = "valid" if model.has_labels("valid") else "train"
        chosen = np.array(getattr(graph, split), dtype=np.int64)
        chosen = chosen[np.asarray(graph.labels[chosen]) >= 0]
    else:
        chosen = node_numbers(nodes, graph.num_targets)
    return explain(
        model.encoder,
        model.rows(chosen),
        chosen,
        labels=graph.labels,
        class_names=model.class_names,
        subsets=model.subsets,
        fixed=fixed_mixture(model.recipe),
        split=split,
        at_most=at_most,
        seed=seed,
        target=graph.target,
    )


def summary(model: FittedModel) -> dict[str, Any]:
    """The content of `metrics.json`."""
    fitted, outcome = model.fitted, model.fitted.outcome
    scored = {
        name: split_metrics(model, name) for name in ("valid", "test") if model.has_labels(name)
    }
    return {
        "valid_accuracy": scored["valid"]["accuracy"] if "valid" in scored else None,
        "test_accuracy": scored["test"]["accuracy"] if "test" in scored else None,
        "best_epoch": outcome.best_epoch,
        "epochs": outcome.epochs,
        "stopped": outcome.stopped,
        "train_seconds": outcome.train_seconds,
        "propagate_seconds": fitted.prepared.seconds,
        "peak_memory_bytes": peak_bytes(),
        "parameters": sum(weight.numel() for weight in fitted.encoder.parameters()),
        "nodes": model.graph.num_targets,
        **({} if fitted.term is None else {"consistency": fitted.term.summary()}),
        **scored,
    }


def write_run(
    model: FittedModel,
    path: Path,
    run: Mapping[str, Any],
    *,
    columns: ProbabilityColumns | None,
    explained: Explanation,
    on_progress: Callable[[str, int, int], None] | None,
) -> dict[str, Any]:
    """Write model, history, predictions and, last, metrics into a run directory.

    Returns:
        The content of `metrics.json`.
    """
    fitted = model.fitted
    write_model(path / runs.MODEL, fitted)
    runs.write_history(path / runs.HISTORY, model.history)
    kept = "all" if fitted.rows.kept is None else len(fitted.rows)
    record = {**run, "rows_kept": kept, "notes": fitted.notes}
    if fitted.prepared.subsets is not None:
        record["subsets"] = fitted.prepared.subsets
    runs.write_json(path / runs.RUN, record)
    runs.write_split(path / runs.SPLIT, model.graph)
    stream_predictions(model, path / runs.PREDICTIONS, columns=columns, on_progress=on_progress)
    if rebuilds_label_hops(fitted.recipe):
        handover = fitted.handover or Handover.nothing(fitted.rows.classes)
        write_handover(path / runs.HANDOVER, handover)
    metrics = summary(model)
    runs.write_json(path / runs.EXPLANATION, explained.tables())
    runs.write_json(path / runs.METRICS, metrics)
    runs.remove_checkpoints(path)
    return metrics


def stream_predictions(
    model: TrainedModel,
    path: Path,
    *,
    graph: Graph | None = None,
    nodes: ArrayLike | None = None,
    columns: ProbabilityColumns | None = None,
    on_rows: Callable[[int], None] | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> None:
    """Write predictions to a Parquet file, part by part; see `NodeClassifier.write_predictions`."""
    known = model.graph
    if graph is not None:
        known = with_classes(check_graph(graph), model.class_names)
    chosen = None if nodes is None else node_numbers(nodes, known.num_targets)
    rows, encoder = model.rows_of(graph, chosen), model.encoder
    if chosen is not None and rows.kept is not None:
        positions_of(chosen, rows.kept)  # at once, not after hours

    def predict(part: NDArray[np.int64]) -> NDArray[np.float32]:
        return predict_probabilities(encoder, rows, torch.tensor(part)).numpy()

    index = rows.kept if chosen is None else chosen
    done, total = 0, known.num_targets if index is None else len(index)

    def count_rows(count: int) -> None:
        nonlocal done
        done += count
        if on_rows is not None:
            on_rows(count)
        if on_progress is not None:
            on_progress("Predicting", done, total)

    write_predictions(path, known, predict, nodes=index, columns=columns, on_rows=count_rows)


def node_numbers(nodes: ArrayLike, count: int) -> NDArray[np.int64]:
    """Nodes as numbers below a count, from numbers or a mask."""
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
