"""Random numbers as functions of a key and a counter.

Each thread computes the numbers of its own rows, so nothing depends on who draws first.
"""

from __future__ import annotations

import numpy as np

from scr.compute._loops import compiled

_GOLDEN = 0x9E3779B97F4A7C15
"""2^64 divided by the golden ratio: the step of SplitMix64's counter."""
_MASK = 2**64 - 1


@compiled
def mix(value: np.uint64) -> np.uint64:
    """SplitMix64's finalizer (Steele et al. 2014): any counter in, 64 random bits out."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@compiled
def derived_key(key: np.uint64, counter: int | np.uint64) -> np.uint64:
    """A key of its own for each counter."""
    return mix(key + np.uint64(counter) * np.uint64(0x9E3779B97F4A7C15))


@compiled
def uniform(key: np.uint64, counter: int | np.uint64) -> float:
    """A number in [0, 1) with 53 random bits."""
    # Processors turn signed numbers into floats faster than unsigned ones.
    return np.int64(derived_key(key, counter) >> np.uint64(11)) * 2.0**-53


@compiled
def below(key: np.uint64, counter: int, limit: int) -> int:
    """A whole number from 0 to `limit` - 1."""
    return int(uniform(key, counter) * limit)


def stream_key(*numbers: int) -> np.uint64:
    """One key from several numbers, such as seed, kind of use and step."""
    key = 0
    for number in numbers:
        key = int(mix(np.uint64((key + int(number) + _GOLDEN) & _MASK)))
    return np.uint64(key)
