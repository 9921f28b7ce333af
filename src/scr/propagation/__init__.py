"""A^k X: normalization, the kernel, node hops and label hops."""

from scr.propagation.config import PropagationConfig
from scr.propagation.engine import propagate, propagate_mixture
from scr.propagation.hops import Hops
from scr.propagation.labels import label_hops

__all__ = ["Hops", "PropagationConfig", "label_hops", "propagate", "propagate_mixture"]
