"""The method section of the SCR paper, one idea per file; each piece works outside our trainer."""

from scr.consistency.confidence import ConfidentSet, confidence_mask, threshold_at
from scr.consistency.config import ConsistencyConfig
from scr.consistency.distance import DISTANCES, kl, reverse_kl, squared_distance
from scr.consistency.loss import ConsistencyLoss
from scr.consistency.sharpening import sharpen
from scr.consistency.teacher import MeanTeacher, ema_decay_at
from scr.consistency.trust import agreement_beyond_chance, trusted_share
from scr.consistency.views import average_views, noisy_views

__all__ = [
    "DISTANCES",
    "ConfidentSet",
    "ConsistencyConfig",
    "ConsistencyLoss",
    "MeanTeacher",
    "agreement_beyond_chance",
    "average_views",
    "confidence_mask",
    "ema_decay_at",
    "kl",
    "noisy_views",
    "reverse_kl",
    "sharpen",
    "squared_distance",
    "threshold_at",
    "trusted_share",
]
