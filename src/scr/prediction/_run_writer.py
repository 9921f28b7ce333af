"""Write what came out of a fit into a run directory, the metrics last."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from scr import runs
from scr.errors import RunError
from scr.prediction._explanation import MOST_NODES
from scr.prediction._predictor import Predictor
from scr.prediction._stored_model import write_handover, write_model
from scr.prediction._table import ProbabilityColumns
from scr.prediction._trained_model import FittedModel
from scr.training import Handover, rebuilds_label_hops


def write_run(
    path: Path,
    run: Mapping[str, Any],
    predictor: Predictor,
    *,
    probabilities: ProbabilityColumns | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> dict[str, Any]:
    """Write model, history, predictions and, last, metrics.

    Args:
        path: The run directory.
        run: From `describe_run`; what training found out is added.
        predictor: Of a model that was fitted here.
        probabilities: Which probabilities to write beside the predictions.
        on_progress: Called with what is done, how many rows of it, and how many there are.

    Returns:
        The content of `metrics.json`.
    """
    if not isinstance(predictor.model, FittedModel):
        raise RunError("The classifier has not been fitted here; expected a call of `fit`")
    fitted = predictor.model.fitted
    write_model(path / runs.MODEL, fitted)
    runs.write_history(path / runs.HISTORY, fitted.outcome.history)
    kept = "all" if fitted.rows.kept is None else len(fitted.rows)
    record = {**run, "rows_kept": kept, "notes": fitted.notes}
    if fitted.prepared.subsets is not None:
        record["subsets"] = fitted.prepared.subsets
    runs.write_json(path / runs.RUN, record)
    runs.write_split(path / runs.SPLIT, predictor.graph)
    predictor.write_predictions(
        path / runs.PREDICTIONS, columns=probabilities, on_progress=on_progress
    )
    if rebuilds_label_hops(fitted.recipe):
        handover = fitted.handover or Handover.nothing(fitted.rows.classes)
        write_handover(path / runs.HANDOVER, handover)
    summary = predictor.summary()
    explanation = predictor.explain(None, at_most=MOST_NODES, seed=0)
    runs.write_json(path / runs.EXPLANATION, explanation.tables())
    runs.write_json(path / runs.METRICS, summary)
    runs.remove_checkpoints(path)
    return summary
