"""The method section of the SCR paper, one idea per file; each piece works outside our trainer.

Beside it, in `alternatives`, stand other ways to use unlabelled nodes, under the same interface.
"""

from scr.consistency.confidence import ConfidentSet, confidence_mask, threshold_at
from scr.consistency.config import ConsistencyConfig
from scr.consistency.distance import DISTANCES, kl, reverse_kl, squared_distance
from scr.consistency.loss import ConsistencyLoss
from scr.consistency.regularizers import (
    REGULARIZERS,
    UNLABELLED_LOSSES,
    consistency_config,
    make_unlabelled_loss,
)
from scr.consistency.sharpening import sharpen
from scr.consistency.teacher import MeanTeacher, ema_decay_at
from scr.consistency.trust import agreement_beyond_chance, neighbor_agreement, trusted_share
from scr.consistency.unlabelled import UnlabelledLoss, weight_share_at
from scr.consistency.views import average_views, noisy_views, weak_view

__all__ = [
    "DISTANCES",
    "REGULARIZERS",
    "UNLABELLED_LOSSES",
    "ConfidentSet",
    "ConsistencyConfig",
    "ConsistencyLoss",
    "MeanTeacher",
    "UnlabelledLoss",
    "agreement_beyond_chance",
    "average_views",
    "confidence_mask",
    "consistency_config",
    "ema_decay_at",
    "kl",
    "make_unlabelled_loss",
    "neighbor_agreement",
    "noisy_views",
    "reverse_kl",
    "sharpen",
    "squared_distance",
    "threshold_at",
    "trusted_share",
    "weak_view",
    "weight_share_at",
]
