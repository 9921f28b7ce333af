"""Training: recipes and presets, prepared rows, mixed batches, the loop and its checkpoints."""

from scr.consistency import REGULARIZERS
from scr.training.config import TrainingConfig
from scr.training.fitting import Fitted, fit, graph_facts
from scr.training.loop import Trainer
from scr.training.prepare import Prepared, PreparedHops, prepare_hops
from scr.training.presets import PRESETS, GraphFacts
from scr.training.recipe import Recipe, resolve
from scr.training.records import EpochRecord, TrainingOutcome
from scr.training.rows import Rows

__all__ = [
    "PRESETS",
    "REGULARIZERS",
    "EpochRecord",
    "Fitted",
    "GraphFacts",
    "Prepared",
    "PreparedHops",
    "Recipe",
    "Rows",
    "Trainer",
    "TrainingConfig",
    "TrainingOutcome",
    "fit",
    "graph_facts",
    "prepare_hops",
    "resolve",
]
