"""What a run says of itself in `metrics.json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scr.compute import peak_bytes
from scr.metrics import ACCURACY
from scr.prediction._table import SPLITS

if TYPE_CHECKING:
    from scr.prediction._predictor import Predictor

BEFORE_REFIT = "before the refit"
"""When the validation accuracy of a run with a refit was measured."""


def fit_summary(predictor: Predictor) -> dict[str, Any]:
    """Measure the model of a fit on the labeled nodes of its graph."""
    fitted = predictor.fitted()
    outcome = fitted.outcome
    both = {name: predictor.measured(name) for name in SPLITS[1:] if len(predictor.labeled(name))}
    scored = {name: measures for name, (measures, _) in both.items()}
    shares = predictor.class_shares()
    chosen = {}
    if predictor.metric is not ACCURACY:
        values = {f"{name}_metric": each[predictor.metric.key] for name, each in scored.items()}
        chosen = {"metric": predictor.metric.name, **values}
    before = outcome.valid_accuracy if fitted.recipe.training.refit else None
    return {
        **chosen,
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
        "nodes": predictor.graph.num_targets,
        "temperature": predictor.model.calibration.temperature,
        "calibration_error": {
            name: {"before": before, "after": measures["calibration_error"]}
            for name, (measures, before) in both.items()
            if before is not None
        },
        **({} if fitted.term is None else {"consistency": fitted.term.summary()}),
        **({} if shares is None else {"class_shares": shares.tables()}),
        **scored,
    }
