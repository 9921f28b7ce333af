"""Read a run directory for its report: settings, measures, history and predictions.

`run.json` must be there. Everything else may be missing or half there, because a report of a run
that was interrupted, or made by another version, is still worth reading.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scr.errors import RunError
from scr.report._predictions import PredictionSummary, summarize_predictions

History = list[dict[str, Any]]


@dataclass(frozen=True, eq=False)
class RunRecord:
    """One run directory as far as it could be read."""

    path: Path
    run: Mapping[str, Any]
    metrics: Mapping[str, Any]
    history: History
    predictions: PredictionSummary | None
    smooth: Mapping[str, Any]
    """What `scr smooth` did; empty if it was not run."""
    explanation: Mapping[str, Any] = field(default_factory=dict)
    """Which hops and relations carry the predictions; empty for runs of older versions."""


def read_run(run_dir: str | Path) -> RunRecord:
    """Read everything a report needs from a run directory."""
    path = Path(run_dir)
    if not (path / "run.json").is_file():
        raise RunError(
            f"`{path}` has no run.json; expected a run directory",
            hint="give the run directory that `scr train` wrote",
        )
    metrics = path / "metrics.json"
    predictions = path / "predictions.parquet"
    smooth = path / "smooth" / "smooth.json"
    explanation = path / "explanation.json"
    return RunRecord(
        path=path,
        run=read_object(path / "run.json"),
        metrics=read_object(metrics) if metrics.is_file() else {},
        history=read_history(path / "history.jsonl"),
        predictions=summarize_predictions(predictions) if predictions.is_file() else None,
        smooth=read_object(smooth) if smooth.is_file() else {},
        explanation=read_object(explanation) if explanation.is_file() else {},
    )


def read_object(path: Path) -> Mapping[str, Any]:
    """A JSON file that holds an object, such as `run.json` or `compare.json`."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise RunError(f"`{path}` is not JSON ({error}); the run may be damaged") from error
    if not isinstance(content, dict):
        raise RunError(f"`{path}` holds a {type(content).__name__}; expected a JSON object")
    return content


def read_history(path: Path) -> History:
    """Objects of a JSON-lines file, none if it is not there.

    A line cut short by a crash is left out.
    """
    if not path.is_file():
        return []
    history: History = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(record, dict):
            history.append(record)
    return history
