"""Predictions for people: tables with their own ids, runs that can be loaded again, smoothing."""

from scr.prediction.explanation import Explanation, explain
from scr.prediction.run_directory import StoredModel, read_model, read_run
from scr.prediction.smoothing import Smoothed, smooth_predictions
from scr.prediction.table import ProbabilityColumns, write_predictions

__all__ = [
    "Explanation",
    "ProbabilityColumns",
    "Smoothed",
    "StoredModel",
    "explain",
    "read_model",
    "read_run",
    "smooth_predictions",
    "write_predictions",
]
