"""Which numbers dropout keeps: a random word per number, computed from where the number stands.

A counter-based generator: the word of column j in row i is a hash of (seed, i, j). So any thread
can draw any part of a mask, the backward pass draws it again instead of storing it, and the result
never depends on the number of threads. Hashing costs less than reading the numbers from memory.
The hash is in `_kernels.py`, beside the loops that use it.

Chances are exact to 2^-32; `Keep` scales by the chance that is really used.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

_WORDS = 1 << 32


class Keep(NamedTuple):
    """How one call of dropout decides."""

    seed: np.uint64
    threshold: np.uint32
    """Words below it are kept."""
    scale: np.float32
    """One over the chance to be kept."""
    noisy: bool


def draw_keep(dropout: float, training: bool) -> Keep:
    """Draw a seed from torch's default generator, so that `torch.manual_seed` governs it.

    Args:
        dropout: Chance that a number is dropped out, in [0, 1).
        training: Without it nothing is dropped out and nothing is drawn.
    """
    kept = round((1 - dropout) * _WORDS)
    if not training or kept >= _WORDS:
        return Keep(np.uint64(0), np.uint32(0), np.float32(1), False)
    kept = max(kept, 1)
    seed = int(torch.empty((), dtype=torch.int64).random_())
    return Keep(np.uint64(seed), np.uint32(kept), np.float32(_WORDS / kept), True)
