"""The page of one run: how good, what was run, how training went, and where it is unsure.

`run.json` must be there. Everything else may be missing or half there, because a report of a run
that was interrupted, or made by another version, is still worth reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scr.errors import RunError
from scr.report._formatting import mapping
from scr.report._metrics import per_class_table
from scr.report._predictions import PredictionSummary, summarize_predictions
from scr.report._records import read_history, read_object
from scr.report._regularizers import explanation
from scr.report._stages import stage_ends, stages_sentence
from scr.report.page._render import render


def run_page(run_dir: str | Path) -> str:
    """The report of a run directory as one HTML page."""
    path = Path(run_dir)
    if not (path / "run.json").is_file():
        raise RunError(
            f"`{path}` has no run.json; expected a run directory",
            hint="give the run directory that `scr train` wrote",
        )
    run, metrics, smooth, explained = (
        read_object(file) if (file := path / name).is_file() else {}
        for name in ("run.json", "metrics.json", "smooth/smooth.json", "explanation.json")
    )
    history, table = read_history(path / "history.jsonl"), path / "predictions.parquet"
    predictions = summarize_predictions(table) if table.is_file() else None
    graph, recipe = mapping(run.get("graph")), mapping(run.get("recipe"))
    encoder = run.get("encoder") or mapping(recipe.get("encoder")).get("name")
    regularizer = run.get("regularizer")
    model = " with ".join(str(part) for part in (encoder, regularizer) if part) or path.name
    return render(
        "run.html",
        title=f"{model} on {graph['name']}" if graph.get("name") else model,
        run=run,
        recipe=recipe,
        metrics=metrics,
        history=history,
        stages=stage_ends(history),
        stages_sentence=stages_sentence(recipe, history),
        smooth=smooth,
        quality=_quality(predictions, graph.get("class_names") or ()) if predictions else None,
        predictions=predictions,
        explanation=explained,
        regularizer=explanation(str(regularizer)),
        command=run.get("command"),
    )


def _quality(
    predictions: PredictionSummary, known_names: Sequence[object]
) -> dict[str, Any] | None:
    """Calibration and classes on nodes whose labels are known; none without such nodes."""
    measured = predictions.measured_split()
    if measured is None:
        return None
    split, summary = measured
    names = predictions.class_names([str(name) for name in known_names])
    confusion = summary.confusion(names)
    return {
        "split": "test" if split == "test" else "validation",
        "names": names,
        "confusion": confusion,
        "rows": per_class_table(confusion, names),
        "curve": summary.curve,
    }
