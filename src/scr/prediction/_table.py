"""Predictions as a table that anybody can open: one row per node, with the user's own ids.

The file's suffix names the format (`_table_writers.py`). Written in parts, so that a graph of any
size passes through bounded memory, and renamed into place only when it is whole and on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scr.errors import ConfigError, StoreError
from scr.graph import Graph, known_labels
from scr.prediction._table_writers import TableWriter, table_writer
from scr.prediction.calibration import prediction_sets
from scr.storage import arrow_array, atomic_file

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_PER_PART = 65_536
SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class ProbabilityColumns:
    """Which class probabilities go into the table: none, the K likeliest, or all."""

    kind: str = "none"
    count: int = 0

    @classmethod
    def parse(cls, text: str) -> ProbabilityColumns:
        """Read `none`, `all` or `top-K`.

        >>> ProbabilityColumns.parse("top-3")
        ProbabilityColumns(kind='top', count=3)
        """
        if text in ("none", "all"):
            return cls(text)
        kind, _, count = text.partition("-")
        if kind == "top" and count.isdecimal() and int(count) > 0:
            return cls("top", int(count))
        raise ConfigError("probabilities", text, "`none`, `all` or `top-K`, such as `top-3`")


def write_predictions(
    path: Path,
    graph: Graph,
    predict: Callable[[NDArray[np.int64]], NDArray[np.float32]],
    *,
    nodes: NDArray[np.int64] | None = None,
    columns: ProbabilityColumns | None = None,
    set_limits: NDArray[np.float64] | None = None,
    on_rows: Callable[[int], None] | None = None,
    multilabel: bool = False,
    spreadsheet_safe: bool = False,
) -> None:
    """Write one row per node: id, prediction, confidence, split, label, set, probabilities.

    Of several targets, prediction and label are lists of the names of those that are 1, confidence
    is the mean over targets of max(p, 1 - p), and every target has a column of probabilities.

    Args:
        path: The file, .csv, .tsv, .parquet, .arrow, .feather, .json or .jsonl; replaced if it
            exists. In CSV and TSV, a list is JSON text.
        graph: Gives ids, class names, splits and known labels.
        predict: Class probabilities of some nodes, shape (nodes, classes).
        nodes: Which nodes; none: all.
        columns: Which probabilities to add.
        set_limits: Of the classes of prediction sets (`prediction_sets`); none: no sets.
        on_rows: Called with how many rows were just written.
        multilabel: Whether probabilities are of several targets, not of classes.
        spreadsheet_safe: Of CSV and TSV, put an apostrophe before texts that a spreadsheet would
            compute, such as `=1+1`; ids that have one no longer read back as they were.
    """
    make_writer = table_writer(path, spreadsheet_safe=spreadsheet_safe)
    writer: TableWriter | None = None
    parts = prediction_parts(
        graph, predict, nodes=nodes, columns=columns, set_limits=set_limits, multilabel=multilabel
    )
    with atomic_file(path) as temporary:
        try:
            for batch in parts:
                writer = writer or make_writer(temporary, batch.schema)
                writer.write(batch)
                if on_rows is not None:
                    on_rows(len(batch))
        finally:
            if writer is not None:
                writer.close()


def prediction_parts(
    graph: Graph,
    predict: Callable[[NDArray[np.int64]], NDArray[np.float32]],
    *,
    nodes: NDArray[np.int64] | None = None,
    columns: ProbabilityColumns | None = None,
    set_limits: NDArray[np.float64] | None = None,
    multilabel: bool = False,
) -> Iterator[pa.Table]:
    """The rows of `write_predictions`, some at a time; arguments as there."""
    columns, splits = columns or ProbabilityColumns(), split_codes(graph)
    count = graph.num_targets if nodes is None else len(nodes)
    if count == 0:
        raise StoreError("There are no nodes to predict; expected at least one")
    for start in range(0, count, ROWS_PER_PART):
        stop = min(start + ROWS_PER_PART, count)
        part = np.arange(start, stop) if nodes is None else nodes[start:stop]
        yield table_of_nodes(
            graph, part, predict(part), splits[part], columns=columns, set_limits=set_limits,
            multilabel=multilabel,
        )  # fmt: skip


def table_of_nodes(
    graph: Graph,
    nodes: NDArray[np.int64],
    probabilities: NDArray[np.float32],
    splits: NDArray[np.int8] | None = None,
    *,
    columns: ProbabilityColumns,
    set_limits: NDArray[np.float64] | None = None,
    multilabel: bool = False,
) -> pa.Table:
    """The rows of some nodes; arguments as of `write_predictions`, `splits` their codes."""
    codes = split_codes(graph)[nodes] if splits is None else splits
    if multilabel:
        return _target_table(graph, nodes, probabilities, codes)
    return _part_table(graph, nodes, probabilities, codes, columns, set_limits)


def split_codes(graph: Graph) -> NDArray[np.int8]:
    """0, 1, 2 for training, validation and test nodes, 3 for the rest."""
    codes = np.full(graph.num_targets, len(SPLITS), dtype=np.int8)
    for code, name in enumerate(SPLITS):
        codes[getattr(graph, name)] = code
    return codes


def _part_table(
    graph: Graph,
    nodes: NDArray[np.int64],
    probabilities: NDArray[np.float32],
    splits: NDArray[np.int8],
    columns: ProbabilityColumns,
    set_limits: NDArray[np.float64] | None,
) -> pa.Table:
    import pyarrow as pa

    names = arrow_array(graph.class_names)
    predicted = probabilities.argmax(axis=1)
    labels = np.asarray(graph.labels[nodes])
    data: dict[str, Any] = {
        "id": arrow_array(nodes if graph.ids is None else np.asarray(graph.ids[nodes])),
        "prediction": names.take(arrow_array(predicted)),
        "confidence": arrow_array(probabilities.max(axis=1)),
        "split": arrow_array([*SPLITS, ""]).take(arrow_array(splits)),
        "label": names.take(arrow_array(np.maximum(labels, 0), labels < 0)),
    }
    if set_limits is not None:
        inside = prediction_sets(probabilities, set_limits)
        sizes = inside.sum(axis=1, dtype=np.int32)
        starts = arrow_array(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32))
        members = names.take(arrow_array(np.nonzero(inside)[1]))
        data["prediction_set"] = pa.ListArray.from_arrays(starts, members)
        data["set_size"] = arrow_array(sizes)
    if columns.kind == "all":
        for position, name in enumerate(graph.class_names):
            data[f"probability_{name}"] = arrow_array(probabilities[:, position])
    if columns.kind == "top":
        count = min(columns.count, probabilities.shape[1])
        order = np.argsort(-probabilities, axis=1, kind="stable")[:, :count]
        for rank in range(count):
            chosen = order[:, rank]
            data[f"class_{rank + 1}"] = names.take(arrow_array(chosen))
            data[f"probability_{rank + 1}"] = arrow_array(
                np.take_along_axis(probabilities, chosen[:, None], axis=1)[:, 0]
            )
    return pa.table(data)


def _target_table(
    graph: Graph,
    nodes: NDArray[np.int64],
    probabilities: NDArray[np.float32],
    splits: NDArray[np.int8],
) -> pa.Table:
    """The same of several targets; the label is null where none of them is known."""
    import pyarrow as pa

    names = np.array(graph.class_names)
    labels = np.asarray(graph.labels[nodes])
    if labels.ndim == 1:  # of a graph without labels
        labels = np.full(probabilities.shape, -1, np.int8)
    lists = pa.list_(pa.string())
    known = known_labels(labels)
    data: dict[str, Any] = {
        "id": pa.array(nodes if graph.ids is None else np.asarray(graph.ids[nodes])),
        "prediction": pa.array([names[row].tolist() for row in probabilities > 0.5], lists),
        "confidence": pa.array(np.maximum(probabilities, 1 - probabilities).mean(axis=1)),
        "split": pa.array([*SPLITS, ""], pa.string()).take(pa.array(splits)),
        "label": pa.array(
            [
                names[row].tolist() if is_known else None
                for row, is_known in zip(labels == 1, known.tolist(), strict=True)
            ],
            lists,
        ),
    }
    for position, name in enumerate(graph.class_names):
        data[f"probability_{name}"] = pa.array(probabilities[:, position])
    return pa.table(data)
