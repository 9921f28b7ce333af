"""A^k X: normalization, the plan for a memory budget, node hops and label hops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scr._front_door import front_door

if TYPE_CHECKING:
    from scr.propagation._cache import cached_hops_path as cached_hops_path
    from scr.propagation._cache import has_hops_of_some_rows as has_hops_of_some_rows
    from scr.propagation._cache import load_cached_hops as load_cached_hops
    from scr.propagation._config import HopScale as HopScale
    from scr.propagation._config import PropagationConfig as PropagationConfig
    from scr.propagation._engine import check_features as check_features
    from scr.propagation._engine import propagate as propagate
    from scr.propagation._engine import propagate_mixture as propagate_mixture
    from scr.propagation._hops import Hops as Hops
    from scr.propagation._kept_rows import kept_rows as kept_rows
    from scr.propagation._kept_rows import labeled_nodes as labeled_nodes
    from scr.propagation._kept_rows import positions_of as positions_of
    from scr.propagation._kept_rows import rows_hash as rows_hash
    from scr.propagation._labels import label_hops as label_hops
    from scr.propagation._neighborhoods import Neighborhoods as Neighborhoods
    from scr.propagation._normalization import NormalizedAdjacency as NormalizedAdjacency
    from scr.propagation._normalization import normalize as normalize
    from scr.propagation._normalization import row_sums as row_sums
    from scr.propagation._normalization import turned_bytes as turned_bytes
    from scr.propagation._plan import plan_propagation as plan_propagation
    from scr.propagation._random_propagation import RandomPropagation as RandomPropagation
    from scr.propagation._random_propagation import drop_node as drop_node
    from scr.propagation._steps import ROWS_PER_STEP as ROWS_PER_STEP
    from scr.propagation._steps import unit_rows as unit_rows
    from scr.propagation._steps import walk as walk
    from scr.propagation._subsets import Subset as Subset
    from scr.propagation._subsets import as_subsets as as_subsets
    from scr.propagation._subsets import choose_subsets as choose_subsets
    from scr.propagation._top_nodes import TopNodes as TopNodes
    from scr.propagation._top_nodes import top_nodes as top_nodes
    from scr.propagation._walks import hop_settings as hop_settings
else:
    __all__, __getattr__, __dir__ = front_door(__name__)
