"""Features as models want them: scaled, of few enough columns, fitted once and applied again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scr._front_door import front_door

if TYPE_CHECKING:
    from scr.features._config import EMBEDDINGS as EMBEDDINGS
    from scr.features._config import FeatureConfig as FeatureConfig
    from scr.features._file import features_step as features_step
    from scr.features._file import open_features as open_features
    from scr.features._file import read_features as read_features
    from scr.features._file import replace_features as replace_features
    from scr.features._file import took_features as took_features
    from scr.features._prepare import FittedFeatures as FittedFeatures
    from scr.features._prepare import LazyFeatures as LazyFeatures
    from scr.features._prepare import affordable_reduction as affordable_reduction
    from scr.features._prepare import choose_reduction as choose_reduction
    from scr.features._prepare import fit_features as fit_features
    from scr.features._prepare import sparse_bytes as sparse_bytes
    from scr.features._prepare import transform_lazily as transform_lazily
    from scr.features._reduction import orthonormal_directions as orthonormal_directions
    from scr.features._reduction import random_directions as random_directions
    from scr.features._reduction import singular_directions as singular_directions
    from scr.features._scaling import Matrix as Matrix
    from scr.features._scaling import Scale as Scale
    from scr.features._scaling import apply_scale as apply_scale
    from scr.features._scaling import choose_scale as choose_scale
else:
    __all__, __getattr__, __dir__ = front_door(__name__)
