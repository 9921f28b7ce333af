"""Features of all types of nodes: one width, and something for types that have none."""

from scr.completion.complete import (
    CompletedFeatures,
    complete_features,
    is_plain,
    planned_features,
    restore_fitted,
)
from scr.completion.fitted import FittedCompletion

__all__ = [
    "CompletedFeatures",
    "FittedCompletion",
    "complete_features",
    "is_plain",
    "planned_features",
    "restore_fitted",
]
