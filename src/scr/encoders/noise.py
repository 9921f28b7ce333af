"""Which numbers dropout keeps: a random word per number, computed from where the number stands.

A counter-based generator: the word of column j in row i is a hash of (seed, i, j). So any thread
can draw any part of a mask, the backward pass draws it again instead of storing it, and the result
never depends on the number of threads. Hashing costs less than reading the numbers from memory.

Chances are exact to 2^-32; `Keep` scales by the chance that is really used.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from scr.encoders.parallel import compiled

_WORDS = 1 << 32

# Splitmix64 (Steele et al. 2014): the increment and the two factors of its finalizer.
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FACTOR_A = np.uint64(0xBF58476D1CE4E5B9)
_FACTOR_B = np.uint64(0x94D049BB133111EB)

# A 32-bit finalizer of low bias found by search (Wellons, "hash prospector"): shifts 16, 15, 15.
_COLUMN_STEP = np.uint32(0x9E3779B9)
_MIX_A = np.uint32(0x21F0AAAD)
_MIX_B = np.uint32(0x735A2D97)


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
        dropout: Chance that a number is silenced, in [0, 1).
        training: Without it nothing is silenced and nothing is drawn.
    """
    kept = round((1 - dropout) * _WORDS)
    if not training or kept >= _WORDS:
        return Keep(np.uint64(0), np.uint32(0), np.float32(1), False)
    kept = max(kept, 1)
    seed = int(torch.empty((), dtype=torch.int64).random_())
    return Keep(np.uint64(seed), np.uint32(kept), np.float32(_WORDS / kept), True)


@compiled
def row_key(seed: Any, row: Any) -> Any:
    """64 random bits for one row."""
    word = seed + (np.uint64(row) + np.uint64(1)) * _STEP
    word = (word ^ (word >> np.uint64(30))) * _FACTOR_A
    word = (word ^ (word >> np.uint64(27))) * _FACTOR_B
    return word ^ (word >> np.uint64(31))


@compiled
def column_word(low: Any, high: Any, column: Any) -> Any:
    """32 random bits for one column of a row whose key is (low, high).

    The high half enters between the rounds: were both added at the front, the words of two rows
    would be the same sequence, shifted.
    """
    word = np.uint32(np.uint32(column) * _COLUMN_STEP + low)
    word = np.uint32((word ^ (word >> np.uint32(16)) ^ high) * _MIX_A)
    word = np.uint32((word ^ (word >> np.uint32(15))) * _MIX_B)
    return np.uint32(word ^ (word >> np.uint32(15)))
