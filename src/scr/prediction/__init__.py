"""Predictions for people: tables with their own ids, and runs that can be loaded again."""

from scr.prediction.run_directory import StoredModel, read_model, read_run
from scr.prediction.table import ProbabilityColumns, write_predictions

__all__ = ["ProbabilityColumns", "StoredModel", "read_model", "read_run", "write_predictions"]
