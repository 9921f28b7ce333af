"""The compiled loops behind `_dropout.py` and `_activation.py`, and the hash that they draw from.

One read of the numbers does the work of four layers. Shapes: ``x``, ``residual``, gradients (rows,
columns); ``scale``, ``shift``, ``slope``, ``center`` (columns). Sums over rows are taken per block
of `ROWS` rows in single precision and added up in double precision by the caller, so they are
accurate and do not depend on the number of threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from scr.compute import compiled_reordered as compiled
from scr.compute import mix
from scr.encoders.fused._parallel import ROWS

BLOCK = 1024
"""Numbers that share one row key."""

_STEP = np.uint64(0x9E3779B97F4A7C15)  # of SplitMix64's counter

# A 32-bit finalizer of low bias found by search (Wellons, "hash prospector"): shifts 16, 15, 15.
_COLUMN_STEP = np.uint32(0x9E3779B9)
_MIX_A = np.uint32(0x21F0AAAD)
_MIX_B = np.uint32(0x735A2D97)


@compiled
def row_key(seed: Any, row: Any) -> Any:
    """64 random bits for one row."""
    return mix(seed + (np.uint64(row) + np.uint64(1)) * _STEP)


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


@compiled
def keep_blocks(
    source: Any, kept: Any, seed: Any, threshold: Any, scale: Any, noisy: Any, start: Any, stop: Any
) -> None:
    """Write dropout of a flat array to ``kept``, for a range of blocks of `BLOCK` numbers."""
    for block in range(start, stop):
        key = row_key(seed, block)
        low, high = np.uint32(key), np.uint32(key >> np.uint64(32))
        first = block * BLOCK
        width = min(BLOCK, source.size - first)
        numbers, target = source[first : first + width], kept[first : first + width]
        for column in range(width):
            word = column_word(low, high, column)
            target[column] = numbers[column] * scale if word < threshold else np.float32(0)


@compiled
def sum_moments(x: Any, sums: Any, start: Any, stop: Any) -> None:
    """Per block of rows and column: sums of x - x[0] and of its square.

    Sums of squares around zero would lose the variance of columns far from zero.
    """
    rows, columns = x.shape
    pivot = x[0]
    for block in range(start, stop):
        first, second = sums[0, block], sums[1, block]
        for row in range(block * ROWS, min((block + 1) * ROWS, rows)):
            numbers = x[row]
            for column in range(columns):
                distance = numbers[column] - pivot[column]
                first[column] += distance
                second[column] += distance * distance


@compiled
def activate_rows(
    x: Any, residual: Any, scale: Any, shift: Any, slope: Any, activated: Any,
    seed: Any, threshold: Any, keep_scale: Any, noisy: Any, start: Any, stop: Any,
) -> None:  # fmt: skip
    """Write dropout(prelu(x * scale + shift + residual)) to ``activated``, which may be ``x``."""
    columns = x.shape[1]
    added = residual.shape[0] > 0
    for row in range(start, stop):
        key = row_key(seed, row)
        low, high = np.uint32(key), np.uint32(key >> np.uint64(32))
        numbers, target = x[row], activated[row]
        if added:
            others = residual[row]
            for column in range(columns):
                value = numbers[column] * scale[column] + shift[column] + others[column]
                target[column] = value if value > 0 else value * slope[column]
        else:
            for column in range(columns):
                value = numbers[column] * scale[column] + shift[column]
                target[column] = value if value > 0 else value * slope[column]
        if noisy:
            # The row is in the first cache by now; a loop of its own keeps both simple.
            for column in range(columns):
                word = column_word(low, high, column)
                target[column] = target[column] * keep_scale if word < threshold else np.float32(0)


@compiled
def activation_gradient(
    gradient: Any, x: Any, residual: Any, scale: Any, shift: Any, slope: Any, center: Any,
    inner: Any, sums: Any, seed: Any, threshold: Any, keep_scale: Any, noisy: Any,
    start: Any, stop: Any,
) -> None:  # fmt: skip
    """Gradient before the activation, to ``inner``, and what the columns' parameters need of it.

    ``sums[0]``: sum of it; ``sums[1]``: sum of it times (x - center); ``sums[2]``: the slope's.
    """
    rows, columns = x.shape
    added = residual.shape[0] > 0
    for block in range(start, stop):
        total, weighted, sloped = sums[0, block], sums[1, block], sums[2, block]
        for row in range(block * ROWS, min((block + 1) * ROWS, rows)):
            key = row_key(seed, row)
            low, high = np.uint32(key), np.uint32(key >> np.uint64(32))
            numbers, incoming, target = x[row], gradient[row], inner[row]
            if noisy:
                for column in range(columns):
                    word = column_word(low, high, column)
                    target[column] = (
                        incoming[column] * keep_scale if word < threshold else np.float32(0)
                    )
            else:
                for column in range(columns):
                    target[column] = incoming[column]
            others = residual[row] if added else numbers
            factor = np.float32(1) if added else np.float32(0)
            for column in range(columns):
                value = numbers[column] * scale[column] + shift[column] + factor * others[column]
                flowing = target[column]
                negative = value <= 0
                sloped[column] += flowing * value if negative else np.float32(0)
                flowing = flowing * slope[column] if negative else flowing
                total[column] += flowing
                weighted[column] += flowing * (numbers[column] - center[column])
                target[column] = flowing


@compiled
def input_gradient(
    inner: Any, x: Any, by_inner: Any, by_x: Any, constant: Any, result: Any, start: Any, stop: Any
) -> None:
    """Write inner * by_inner + x * by_x + constant, the input's gradient, to ``result``."""
    columns = x.shape[1]
    for row in range(start, stop):
        numbers, flowing, target = x[row], inner[row], result[row]
        for column in range(columns):
            target[column] = (
                flowing[column] * by_inner[column]
                + numbers[column] * by_x[column]
                + constant[column]
            )
