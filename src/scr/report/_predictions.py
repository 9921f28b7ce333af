"""What a report says about the predictions of a run: streamed, never held in memory as a whole.

A hundred million rows become counts by class, by confidence and by (label, prediction) pairs, and
the few nodes that are shown by name. Of several yes-or-no targets per node, the prediction and the
label of a row are lists of the targets that are 1.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scr.errors import RunError
from scr.metrics import ReliabilityCurve, reliability_curve
from scr.storage import arrow_array, numpy_array

if TYPE_CHECKING:
    import pyarrow

LISTED_NODES = 2_000
"""Rows of the table that can be searched: a page of so many still opens at once."""
SHOWN_NODES = 8
"""Rows of the short tables."""
BANDS = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
"""Edges of the confidences by which nodes are counted; finer where most nodes are."""
_BATCH_ROWS = 262_144
_NEEDED = ("id", "prediction", "confidence")


@dataclass(frozen=True)
class Node:
    """One row of the predictions, as shown in a table of nodes."""

    id: str
    prediction: str
    confidence: float
    split: str
    label: str | None


@dataclass
class Extremes:
    """Nodes with the lowest confidence, or with the highest, of all batches so far."""

    most: int
    surest: bool = False
    nodes: list[Node] = field(default_factory=list)

    def add(
        self,
        rows: NDArray[np.int64],
        confidence: NDArray[np.float64],
        make: Callable[[NDArray[np.int64]], list[Node]],
    ) -> None:
        """Add some rows of a batch, by ascending confidence; `make` gives nodes of rows."""
        if self.surest:
            rows = rows[::-1]
        rows = rows[: self.most]
        if len(self.nodes) == self.most:
            last = self.nodes[-1].confidence
            closer = confidence[rows] > last if self.surest else confidence[rows] < last
            rows = rows[closer]
        if len(rows):
            nodes = self.nodes + make(rows)
            nodes.sort(key=lambda node: node.confidence, reverse=self.surest)
            self.nodes = nodes[: self.most]


@dataclass(eq=False)
class NodeGroup:
    """Some nodes by what was predicted for them, and how surely."""

    total: int = 0
    by_class: Counter[str] = field(default_factory=Counter)
    summed_confidence: Counter[str] = field(default_factory=Counter)
    """Per predicted class."""
    confidence: float = 0.0
    """Summed over all nodes."""
    bands: NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(BANDS) - 1, np.int64))
    """Nodes between the edges of `BANDS`."""
    least_sure: Extremes = field(default_factory=lambda: Extremes(LISTED_NODES))

    @property
    def mean_confidence(self) -> float | None:
        """None without nodes."""
        return self.confidence / self.total if self.total else None


@dataclass(eq=False)
class SplitSummary:
    """Predictions of one split against its labels, added up batch by batch."""

    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Nodes by (label, prediction); none of several targets."""
    curve: ReliabilityCurve = field(default_factory=lambda: reliability_curve([], []))
    nodes: NodeGroup = field(default_factory=NodeGroup)
    """Those with a label."""
    right: NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(BANDS) - 1, np.int64))
    """Nodes that are right, between the edges of `BANDS`."""

    def confusion(self, classes: Sequence[str]) -> NDArray[np.int64]:
        """Counts by label (rows) and prediction (columns), in the order of `classes`."""
        position = {name: index for index, name in enumerate(classes)}
        counts = np.zeros((len(classes), len(classes)), dtype=np.int64)
        for (label, prediction), count in self.pairs.items():
            counts[position[label], position[prediction]] += count
        return counts


@dataclass(eq=False)
class PredictionSummary:
    """Counts of all rows, and nodes that are shown by name."""

    total: int = 0
    multilabel: bool = False
    splits: dict[str, SplitSummary] = field(default_factory=dict)
    unlabeled: NodeGroup = field(default_factory=NodeGroup)
    """Nodes without a known label, whatever their split."""
    codes: dict[str, int] = field(default_factory=dict)
    """Names of the classes in order of appearance."""
    _surest_mistakes: Extremes = field(default_factory=lambda: Extremes(SHOWN_NODES, surest=True))

    @property
    def least_sure(self) -> list[Node]:
        """Of the nodes without a known label: those whose labels would tell most."""
        return self.unlabeled.least_sure.nodes[:SHOWN_NODES]

    @property
    def surest_mistakes(self) -> list[Node]:
        """Of the nodes that did not train, those whose label is another one."""
        return self._surest_mistakes.nodes

    def class_names(self, known: Sequence[str] = ()) -> list[str]:
        """Known names in their order, then the others by name, numbers in them by value."""
        others = set(self.codes) - set(known)
        return [*known, *sorted(others, key=_natural_order)]

    def measured_split(
        self, names: Sequence[str] = ("test", "valid")
    ) -> tuple[str, SplitSummary] | None:
        """The test nodes if they have labels, otherwise the validation nodes."""
        for name in names:
            if name in self.splits and self.splits[name].nodes.total:
                return name, self.splits[name]
        return None


def summarize_predictions(path: Path) -> PredictionSummary:
    """Stream a table of predictions (id, prediction, confidence; optional: split, label)."""
    import pyarrow
    import pyarrow.parquet

    summary = PredictionSummary()
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            columns = file.schema_arrow.names
            missing = [name for name in _NEEDED if name not in columns]
            if missing:
                raise RunError(
                    f"`{path}` has no column {', '.join(missing)}; expected at least "
                    f"{', '.join(_NEEDED)}",
                    hint="write it again with `scr predict`",
                )
            summary.multilabel = pyarrow.types.is_list(file.schema_arrow.field("prediction").type)
            wanted = [name for name in (*_NEEDED, "split", "label") if name in columns]
            for batch in file.iter_batches(_BATCH_ROWS, columns=wanted):
                _Batch(summary, batch).add()
    # Damaged pages make pyarrow raise an OSError, and values of other types all kinds of errors.
    except (pyarrow.ArrowException, OSError, ValueError, TypeError, LookupError, AttributeError,
            ArithmeticError) as error:  # fmt: skip
        reason = (str(error).splitlines() or [""])[0]
        raise RunError(
            f"`{path}` cannot be read as Parquet: {reason}",
            hint="write it again with `scr predict`",
        ) from error
    return summary


class _Batch:
    """Some rows of the table, with classes as numbers."""

    def __init__(self, summary: PredictionSummary, batch: pyarrow.RecordBatch) -> None:
        self.summary, self.batch = summary, batch
        self.confidence = numpy_array(batch.column("confidence")).astype(np.float64)
        self.bands = np.searchsorted(BANDS[1:-1], self.confidence, side="right")
        split_codes: dict[str, int] = {}
        self.splits = _encode(batch, "split", split_codes)
        self.split_names = [*split_codes, ""]
        self.train = split_codes.get("train", -2)
        if summary.multilabel:
            self.labels = np.full(batch.num_rows, -1, np.int64)
            if "label" in batch.schema.names:
                self.labels[numpy_array(batch.column("label").is_valid())] = 0
            self.predictions = np.zeros(batch.num_rows, np.int64)
        else:
            self.predictions = _encode(batch, "prediction", summary.codes)
            self.labels = _encode(batch, "label", summary.codes)
        self.names = list(summary.codes)

    def add(self) -> None:
        """Add the batch to the summary."""
        summary, confidence = self.summary, self.confidence
        summary.total += self.batch.num_rows
        rising = np.argsort(confidence, kind="stable")
        rising = rising[self.predictions[rising] >= 0]
        known = self.labels[rising] >= 0
        for code, name in enumerate(self.split_names[:-1]):
            part = summary.splits.setdefault(name, SplitSummary())
            rows = rising[known & (self.splits[rising] == code)]
            self._add_group(part.nodes, rows, listed=name != "train")
            if not summary.multilabel:
                self._add_labels(part, rows)
        # Training nodes are left out: the model has seen their labels.
        unseen = self.splits[rising] != self.train
        self._add_group(summary.unlabeled, rising[unseen & ~known], listed=True)
        if not summary.multilabel:
            wrong = unseen & known & (self.labels[rising] != self.predictions[rising])
            summary._surest_mistakes.add(rising[wrong], confidence, self.nodes)

    def _add_group(self, group: NodeGroup, rows: NDArray[np.int64], *, listed: bool) -> None:
        group.total += len(rows)
        group.confidence += float(self.confidence[rows].sum())
        group.bands += np.bincount(self.bands[rows], minlength=len(group.bands))
        if self.summary.multilabel:
            chosen = self.batch.column("prediction").take(arrow_array(rows)).flatten()
            for each in chosen.value_counts().to_pylist():
                group.by_class[each["values"]] += each["counts"]
                self.summary.codes.setdefault(each["values"], len(self.summary.codes))
        else:
            codes = self.predictions[rows]
            counts = np.bincount(codes, minlength=len(self.names))
            sums = np.bincount(codes, self.confidence[rows], minlength=len(self.names))
            for code in np.flatnonzero(counts).tolist():
                group.by_class[self.names[code]] += int(counts[code])
                group.summed_confidence[self.names[code]] += float(sums[code])  # type: ignore[assignment]
        if listed:
            group.least_sure.add(rows, self.confidence, self.nodes)

    def _add_labels(self, part: SplitSummary, rows: NDArray[np.int64]) -> None:
        labels, predictions, names = self.labels[rows], self.predictions[rows], self.names
        pairs, counts = np.unique(labels * len(names) + predictions, return_counts=True)
        for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True):
            part.pairs[names[pair // len(names)], names[pair % len(names)]] += count
        right = labels == predictions
        part.curve += reliability_curve(self.confidence[rows], right)
        part.right += np.bincount(self.bands[rows[right]], minlength=len(part.right))

    def nodes(self, rows: NDArray[np.int64]) -> list[Node]:
        """Rows of the batch as nodes."""
        chosen = self.batch.take(arrow_array(rows))
        columns = {name: chosen.column(name).to_pylist() for name in chosen.schema.names}
        labels = columns.get("label", [None] * len(rows))
        return [
            Node(
                id=str(columns["id"][place]),
                prediction=_text(columns["prediction"][place]),
                confidence=float(self.confidence[row]),
                split=self.split_names[self.splits[row]],
                label=_text(labels[place]) if self.labels[row] >= 0 else None,
            )
            for place, row in enumerate(rows.tolist())
        ]


def _text(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)


def _encode(batch: pyarrow.RecordBatch, column: str, codes: dict[str, int]) -> NDArray[np.int64]:
    """A column as numbers into `codes`, which grows; -1 for nulls and for a column not there."""
    import pyarrow

    if column not in batch.schema.names:
        return np.full(batch.num_rows, -1, dtype=np.int64)
    values = batch.column(column)
    # As a number, -1 means that the label is unknown; as text, it may be the name of a class.
    unknown = "-1" if pyarrow.types.is_integer(values.type) else None
    encoded = values.cast(pyarrow.string()).dictionary_encode("encode")
    table = [
        -1 if name is None or name == unknown else codes.setdefault(name, len(codes))
        for name in encoded.dictionary.to_pylist()
    ]
    coded: NDArray[np.int64] = np.array(table, dtype=np.int64)[numpy_array(encoded.indices)]
    return coded


def _natural_order(name: str) -> list[tuple[bool, int, str]]:
    """Sort key that puts class 2 before class 10."""
    parts = re.split(r"([0-9]+)", name)
    return [(True, int(part), "") if part.isdecimal() else (False, 0, part) for part in parts]
