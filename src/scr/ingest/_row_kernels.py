"""Compiled loops that sort edges into rows: count, group, merge.

Rows are counted in units of 2^bits. A *direction* is one end of an edge as a row and the other as
its target; its key has the row in the upper half, and `2 * target + reversed` in the lower one,
which says whether the edge was listed the other way round. Sorting keys puts equal targets side by
side with the listed direction first, so that one look at neighbors tells both how many edges there
are and how many were listed more than once.

All of them release Python's lock; node numbers are checked by `count_directions` once, and the
others trust them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.compute import compiled

ROW_SHIFT = 32
"""Bits of a key below its row: those of `2 * target + reversed`."""


@compiled
def count_directions(
    sources: NDArray[Any],
    targets: NDArray[Any],
    num_nodes: int,
    bits: int,
    both: bool,
    keep_loops: bool,
    counts: NDArray[np.int64],
) -> tuple[int, int]:
    """Count the directions of each unit of rows.

    Returns the first edge outside the graph, or -1, and how many edges go from a node to itself.
    """
    loops = 0
    for edge in range(len(sources)):
        source, target = np.int64(sources[edge]), np.int64(targets[edge])
        # A negative number is a huge one without its sign.
        if np.uint64(source) >= np.uint64(num_nodes) or np.uint64(target) >= np.uint64(num_nodes):
            return edge, loops
        if source == target:
            loops += 1
            if keep_loops:
                counts[source >> bits] += 1
            continue
        counts[source >> bits] += 1
        if both:
            counts[target >> bits] += 1
    return -1, loops


@compiled
def group_keys(
    sources: NDArray[Any],
    targets: NDArray[Any],
    bucket_of_unit: NDArray[np.int32],
    bits: int,
    both: bool,
    keep_loops: bool,
    offsets: NDArray[np.int64],
    keys: NDArray[np.int64],
) -> None:
    """Put the keys of all directions into the ranges of their buckets, from `offsets` on."""
    for edge in range(len(sources)):
        source, target = np.int64(sources[edge]), np.int64(targets[edge])
        is_loop = source == target
        if is_loop and not keep_loops:
            continue
        bucket = bucket_of_unit[source >> bits]
        keys[offsets[bucket]] = (source << ROW_SHIFT) | (target << 1)
        offsets[bucket] += 1
        if both and not is_loop:
            bucket = bucket_of_unit[target >> bits]
            keys[offsets[bucket]] = (target << ROW_SHIFT) | (source << 1) | 1
            offsets[bucket] += 1


@compiled
def merge_keys(
    keys: NDArray[np.int64], first_row: int, targets: NDArray[np.int32], degrees: NDArray[np.int64]
) -> tuple[int, int]:
    """Keep each target of a row once, from sorted keys; targets may share the memory of the keys.

    Returns how many targets there are, and how many different directions were listed.
    """
    stored, listed, last = 0, 0, np.int64(-1)
    for position in range(len(keys)):
        key = keys[position]
        if key != last and key & 1 == 0:
            listed += 1
        if key >> 1 != last >> 1:
            targets[stored] = (key & 0xFFFFFFFF) >> 1
            stored += 1
            degrees[(key >> ROW_SHIFT) - first_row] += 1
        last = key
    return stored, listed
