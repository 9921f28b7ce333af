"""A^k X: normalization, the kernel, the plan for a memory budget, node hops and label hops."""

from scr.propagation.cache import cached_hops_path, load_cached_hops
from scr.propagation.config import PropagationConfig
from scr.propagation.engine import propagate, propagate_mixture
from scr.propagation.hops import Hops
from scr.propagation.labels import label_hops
from scr.propagation.subsets import choose_subsets

__all__ = [
    "Hops",
    "PropagationConfig",
    "cached_hops_path",
    "choose_subsets",
    "label_hops",
    "load_cached_hops",
    "propagate",
    "propagate_mixture",
]
