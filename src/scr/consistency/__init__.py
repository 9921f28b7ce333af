"""The method section of the SCR paper, one idea per file; each piece works outside our trainer.

Beside it, in `alternatives`, stand other ways to use unlabeled nodes, under the same interface.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scr._front_door import front_door

if TYPE_CHECKING:
    from scr.consistency._confidence import ConfidentSet as ConfidentSet
    from scr.consistency._confidence import confidence_mask as confidence_mask
    from scr.consistency._confidence import threshold_at as threshold_at
    from scr.consistency._config import ConsistencyConfig as ConsistencyConfig
    from scr.consistency._distance import DISTANCES as DISTANCES
    from scr.consistency._distance import kl as kl
    from scr.consistency._distance import reverse_kl as reverse_kl
    from scr.consistency._distance import squared_distance as squared_distance
    from scr.consistency._loss import ConsistencyLoss as ConsistencyLoss
    from scr.consistency._regularizers import REGULARIZERS as REGULARIZERS
    from scr.consistency._regularizers import UNLABELED_LOSSES as UNLABELED_LOSSES
    from scr.consistency._regularizers import consistency_config as consistency_config
    from scr.consistency._regularizers import defaults_of as defaults_of
    from scr.consistency._regularizers import drops_nodes as drops_nodes
    from scr.consistency._regularizers import make_unlabeled_loss as make_unlabeled_loss
    from scr.consistency._regularizers import settings_of as settings_of
    from scr.consistency._sharpening import sharpen as sharpen
    from scr.consistency._targets import TargetConsistencyLoss as TargetConsistencyLoss
    from scr.consistency._targets import target_confidence as target_confidence
    from scr.consistency._teacher import MeanTeacher as MeanTeacher
    from scr.consistency._teacher import ema_decay_at as ema_decay_at
    from scr.consistency._trust import FEW_ROWS as FEW_ROWS
    from scr.consistency._trust import MOST_ROWS as MOST_ROWS
    from scr.consistency._trust import USUAL_AGREEMENT as USUAL_AGREEMENT
    from scr.consistency._trust import agreement_beyond_chance as agreement_beyond_chance
    from scr.consistency._trust import cross_validate as cross_validate
    from scr.consistency._trust import linear_accuracy as linear_accuracy
    from scr.consistency._trust import neighbor_agreement as neighbor_agreement
    from scr.consistency._trust import trusted_share as trusted_share
    from scr.consistency._trust import usual_agreement as usual_agreement
    from scr.consistency._unlabeled import UnlabeledLoss as UnlabeledLoss
    from scr.consistency._unlabeled import weight_share_at as weight_share_at
    from scr.consistency._views import average_views as average_views
    from scr.consistency._views import noisy_views as noisy_views
    from scr.consistency._views import weak_view as weak_view
else:
    __all__, __getattr__, __dir__ = front_door(__name__)
