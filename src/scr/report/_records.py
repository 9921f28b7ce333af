"""Read the files of a run directory for its report: records, the history and predictions."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scr.errors import RunError
from scr.metrics import ReliabilityCurve, reliability_curve
from scr.report._formatting import mapping, number_or_none

if TYPE_CHECKING:
    import pyarrow


def read_object(path: Path) -> Mapping[str, Any]:
    """A JSON file that holds an object, such as `run.json` or `compare.json`."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise RunError(f"`{path}` is not JSON ({error}); the run may be damaged") from error
    if not isinstance(content, dict):
        raise RunError(f"`{path}` holds a {type(content).__name__}; expected a JSON object")
    return content


def read_history(path: Path) -> list[dict[str, Any]]:
    """Objects of a JSON-lines file, if it is there; a line cut short by a crash is left out."""
    if not path.is_file():
        return []
    history = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(record, dict):
            history.append(record)
    return history


_METHODS = {"rlu": "reliable label utilization (RLU)", "sle": "self-label-enhanced training (SLE)"}


def stage_ends(history: Sequence[Mapping[str, Any]]) -> dict[int, int]:
    """The last epoch that each stage recorded; histories before stages existed have one stage.

    >>> stage_ends([{"epoch": 2, "stage": 1}, {"epoch": 4, "stage": 1}, {"epoch": 6, "stage": 2}])
    {1: 4, 2: 6}
    """
    ends: dict[int, int] = {}
    for record in history:
        epoch, stage = number_or_none(record.get("epoch")), number_or_none(record.get("stage", 1))
        if epoch is not None and stage is not None:
            ends[int(stage)] = max(int(epoch), ends.get(int(stage), 0))
    return ends


def stages_sentence(recipe: Mapping[str, Any], history: Sequence[Mapping[str, Any]]) -> str:
    """How many stages, by which method, with how many epochs; empty for a run in one stage."""
    ends = stage_ends(history)
    if len(ends) < 2:
        return ""
    method = mapping(recipe.get("stages")).get("method")
    lasts = [0, *(ends[stage] for stage in sorted(ends))]
    epochs = [f"{last - before:,}" for before, last in pairwise(lasts)]
    by = f" of {_METHODS.get(str(method), str(method))}" if method else ""
    return (
        f"{len(ends)} stages{by}, with {', '.join(epochs[:-1])} and {epochs[-1]} epochs. Each one "
        "starts afresh with what the one before predicted; the weights are those of the last."
    )


_SHOWN_NODES = 8
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


@dataclass(eq=False)
class SplitSummary:
    """Predictions of one split against its labels, added up batch by batch."""

    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Nodes by (label, prediction)."""
    curve: ReliabilityCurve = field(default_factory=lambda: reliability_curve([], []))

    def confusion(self, classes: Sequence[str]) -> NDArray[np.int64]:
        """Counts by label (rows) and prediction (columns), in the order of `classes`."""
        position = {name: index for index, name in enumerate(classes)}
        counts = np.zeros((len(classes), len(classes)), dtype=np.int64)
        for (label, prediction), count in self.pairs.items():
            counts[position[label], position[prediction]] += count
        return counts


@dataclass(eq=False)
class PredictionSummary:
    """What a report says about the predictions of a run, without holding them in memory.

    A hundred million rows are streamed in batches into counts of (label, prediction) pairs, a
    reliability curve per split and the few nodes that are shown by name.
    """

    total: int = 0
    splits: dict[str, SplitSummary] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)
    """Names of the classes in order of appearance."""
    surest: list[Node] = field(default_factory=list)
    least_sure: list[Node] = field(default_factory=list)
    """Of the nodes without a known label: those whose labels would tell most."""
    surest_mistakes: list[Node] = field(default_factory=list)

    def class_names(self, known: Sequence[str] = ()) -> list[str]:
        """Known names in their order, then the others by name, numbers in them by value."""
        others = set(self.codes) - set(known)
        return [*known, *sorted(others, key=_natural_order)]

    def measured_split(self) -> tuple[str, SplitSummary] | None:
        """The test nodes if they have labels, otherwise the validation nodes."""
        for name in ("test", "valid"):
            if name in self.splits and self.splits[name].pairs:
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
            wanted = [name for name in (*_NEEDED, "split", "label") if name in columns]
            for batch in file.iter_batches(_BATCH_ROWS, columns=wanted):
                _add(summary, batch)
    except pyarrow.ArrowInvalid as error:
        raise RunError(
            f"`{path}` cannot be read as Parquet: {str(error).splitlines()[0]}",
            hint="write it again with `scr predict`",
        ) from error
    return summary


def _add(summary: PredictionSummary, batch: pyarrow.RecordBatch) -> None:
    confidence = np.asarray(batch.column("confidence").to_numpy(zero_copy_only=False), np.float64)
    predictions = _encode(batch, "prediction", summary.codes)
    labels = _encode(batch, "label", summary.codes)
    split_codes: dict[str, int] = {}
    splits = _encode(batch, "split", split_codes)
    names, split_names = list(summary.codes), [*split_codes, ""]
    summary.total += batch.num_rows
    for code, split in enumerate(split_names[:-1]):
        rows = np.flatnonzero((splits == code) & (labels >= 0))
        part = summary.splits.setdefault(split, SplitSummary())
        pairs, counts = np.unique(labels[rows] * len(names) + predictions[rows], return_counts=True)
        for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True):
            part.pairs[names[pair // len(names)], names[pair % len(names)]] += count
        part.curve += reliability_curve(confidence[rows], labels[rows] == predictions[rows])

    def nodes(rows: NDArray[Any]) -> list[Node]:
        return [
            Node(
                id=str(batch.column("id")[row].as_py()),
                prediction=names[predictions[row]],
                confidence=float(confidence[row]),
                split=split_names[splits[row]],
                label=names[labels[row]] if labels[row] >= 0 else None,
            )
            for row in rows.tolist()
        ]

    # Training nodes are left out: the model has seen their labels.
    unseen = np.flatnonzero((splits != split_codes.get("train", -2)) & (predictions >= 0))
    rising = unseen[np.argsort(confidence[unseen], kind="stable")]
    wrong = rising[(labels[rising] >= 0) & (labels[rising] != predictions[rising])]
    unknown = rising[labels[rising] < 0]
    last = slice(None, -_SHOWN_NODES - 1, -1)
    summary.least_sure = _keep(summary.least_sure + nodes(unknown[:_SHOWN_NODES]), surest=False)
    summary.surest = _keep(summary.surest + nodes(rising[last]), surest=True)
    summary.surest_mistakes = _keep(summary.surest_mistakes + nodes(wrong[last]), surest=True)


def _encode(batch: pyarrow.RecordBatch, column: str, codes: dict[str, int]) -> NDArray[np.int64]:
    """A column as numbers into `codes`, which grows; -1 for nulls and for a column not there."""
    import pyarrow

    if column not in batch.schema.names:
        return np.full(batch.num_rows, -1, dtype=np.int64)
    values = batch.column(column)
    # As a number, -1 means that the label is unknown; as text, it may be the name of a class.
    unknown = "-1" if pyarrow.types.is_integer(values.type) else None
    encoded = values.cast(pyarrow.string()).dictionary_encode()
    table = [
        -1 if name is None or name == unknown else codes.setdefault(name, len(codes))
        for name in encoded.dictionary.to_pylist()
    ]
    positions = encoded.indices.fill_null(len(table)).to_numpy(zero_copy_only=False)
    coded: NDArray[np.int64] = np.array([*table, -1], dtype=np.int64)[positions]
    return coded


def _natural_order(name: str) -> list[tuple[bool, int, str]]:
    """Sort key that puts class 2 before class 10."""
    parts = re.split(r"([0-9]+)", name)
    return [(True, int(part), "") if part.isdecimal() else (False, 0, part) for part in parts]


def _keep(nodes: list[Node], *, surest: bool) -> list[Node]:
    return sorted(nodes, key=lambda node: node.confidence, reverse=surest)[:_SHOWN_NODES]
