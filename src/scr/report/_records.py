"""Read the records and the history of a run directory for its report."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from scr import storage
from scr.errors import StoreError
from scr.report._formatting import mapping, number_or_none


def read_object(path: Path, fields: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    """A JSON file that holds an object, such as `run.json` or `compare.json`."""
    return storage.read_object(path, fields=fields)


ROW_FIELDS: dict[str, Any] = {
    "encoder": str, "regularizer": str, "n": int, "seeds": list[int], "measure": str, "pairs": int,
    "verdict": str, "graph?": str | None, "inactive?": int, "metric?": str,
    "valid_mean": float | None, "valid_std": float | None, "test_mean": float | None,
    "test_std": float | None, "balanced_mean": float | None, "balanced_std": float | None,
    "train_seconds": float | None, "difference": float | None, "difference_low": float | None,
    "difference_high": float | None, "balanced_difference": float | None,
    "balanced_difference_low": float | None, "balanced_difference_high": float | None,
    "accuracy_mean?": float | None, "accuracy_std?": float | None,
    "accuracy_difference?": float | None, "accuracy_difference_low?": float | None,
    "accuracy_difference_high?": float | None,
}  # fmt: skip
"""Of a row of `compare.json`."""
RECORD_FIELDS: dict[str, Any] = {
    "encoder": str, "regularizer": str, "seed": int, "valid_accuracy": float | None,
    "test_accuracy": float | None, "train_seconds": float, "graph?": str | None, "metric?": str,
    "balanced_accuracy?": float | None, "epochs?": int, "notes?": list[str],
    "consistency?": dict, "confident_nodes?": list[int], "smooth?": dict, "explanation?": dict,
    "curve?": list[dict[str, Any]],
}  # fmt: skip
"""Of the record of a run of an experiment."""

EXPLANATION_FIELDS: dict[str, Any] = {
    "hops?": list[str], "attention?": dict | None, "attention.mean?": list[float],
    "attention.spread?": list[float], "attention.classes?": list[str],
    "attention.class_nodes?": list[int], "attention.by_class?": list[list[float]],
    "mixing?": dict | None, "mixing.relations?": list[str], "mixing.relation?": list[float],
    "mixing.subsets?": list[list[str]], "accuracy?": float | None, "drops?": list[dict[str, Any]],
}  # fmt: skip
PAGE_FIELDS: dict[str, dict[str, Any]] = {
    "explanation": EXPLANATION_FIELDS,
    "ensemble": {
        "models?": list[dict[str, Any]],
        "trials?": list[dict[str, Any]],
        "mattered?": list[dict[str, Any]],
    },
    "breakdown": {
        "degree?": list[dict[str, Any]],
        "distance?": list[dict[str, Any]],
        "targets?": list[dict[str, Any]],
    },
    "suggestions": {"nodes?": list[dict[str, Any]]},
}
"""Of records that the page of a run is made from, by their names there; it reads all others with
whatever they hold."""


@contextmanager
def shown_from(path: Path) -> Iterator[None]:
    """Raise a `StoreError` where a page cannot be made from what was read from a path."""
    try:
        yield
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        reason = str(error).partition("\n")[0]
        raise StoreError(
            f"The page cannot be made from `{path}`, which may be damaged: "
            f"{type(error).__name__}, {reason}"
        ) from error


def read_comparison(path: Path) -> dict[str, Any]:
    """The content of a `compare.json`, with rows and runs that can be shown."""
    content = storage.read_object(
        path, what="comparison",
        fields={
            "runs": list[dict[str, Any]], "rows?": list[dict[str, Any]],
            "graph?": dict[str, Any], "notes?": list[str], "explanation?": dict | None,
            "command?": str | None,
        },
    )  # fmt: skip
    for row in content.get("rows") or ():
        storage.check_fields(path, row, ROW_FIELDS)
    for run in content["runs"]:
        storage.check_fields(path, run, RECORD_FIELDS)
    storage.check_fields(path, content.get("explanation") or {}, EXPLANATION_FIELDS)
    return content


def read_records(path: Path) -> dict[str, dict[str, Any]]:
    """Records of finished runs by key; those that are damaged are left out, and so run again."""
    records = {}
    for line in read_history(path):
        record = dict(line)
        checksum, key = record.pop("checksum", None), record.get("key")
        try:
            storage.check_fields(path, record, {"key": str, **RECORD_FIELDS})
        except StoreError:
            continue
        if checksum is None or checksum == record_checksum(record):
            records[str(key)] = record
    return records


def record_checksum(record: Mapping[str, Any]) -> str:
    """Of the record of a run, as its line in `runs.jsonl` has it."""
    return storage.digest(json.dumps(record).encode())


def read_history(path: Path) -> list[dict[str, Any]]:
    """Objects of a JSON-lines file, if it is there; a line cut short by a crash is left out."""
    if not path.is_file():
        return []
    history = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
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
