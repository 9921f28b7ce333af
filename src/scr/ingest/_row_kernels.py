"""Compiled loops that sort edges into rows: count, distribute, merge.

Rows are taken in blocks of 2^bits. A *direction* is one end of an edge as a row and the other as
its target; it is kept as its row within the block and as `2 * target + reversed`, which says
whether the edge was listed the other way round. Sorting these numbers puts equal targets side by
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
    """Count the directions of each block of rows.

    Returns:
        The first edge outside the graph, or -1; and how many edges go from a node to itself.
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
def count_in_blocks(
    sources: NDArray[Any],
    targets: NDArray[Any],
    first_block: int,
    blocks: int,
    bits: int,
    both: bool,
    keep_loops: bool,
    counts: NDArray[np.int64],
) -> None:
    """Count the directions of some blocks; those of all others in one more count."""
    outside = np.uint64(blocks)
    for edge in range(len(sources)):
        source, target = np.int64(sources[edge]), np.int64(targets[edge])
        is_loop = source == target
        if is_loop and not keep_loops:
            continue
        counts[min(np.uint64((source >> bits) - first_block), outside)] += 1
        if both and not is_loop:
            counts[min(np.uint64((target >> bits) - first_block), outside)] += 1


@compiled
def distribute(
    sources: NDArray[Any],
    targets: NDArray[Any],
    first_block: int,
    blocks: int,
    bits: int,
    both: bool,
    keep_loops: bool,
    places: NDArray[np.int64],
    values: NDArray[np.uint32],
    rows: NDArray[np.uint16],
) -> None:
    """Put the directions of some blocks into their places.

    Directions of other blocks are written too, to one place over and over: a branch that nobody
    can predict would cost more than a write that never leaves the cache.

    Args:
        places: Where the next direction of each block goes; the last one is for all others.
        values: Receives `2 * target + reversed`.
        rows: Receives the rows within their blocks.
    """
    outside, mask = np.uint64(blocks), (1 << bits) - 1
    for edge in range(len(sources)):
        source, target = np.int64(sources[edge]), np.int64(targets[edge])
        is_loop = source == target
        if is_loop and not keep_loops:
            continue
        block = min(np.uint64((source >> bits) - first_block), outside)
        place = places[block]
        values[place] = target << 1
        rows[place] = source & mask
        places[block] = place + (block < outside)
        if both and not is_loop:
            block = min(np.uint64((target >> bits) - first_block), outside)
            place = places[block]
            values[place] = (source << 1) | 1
            rows[place] = target & mask
            places[block] = place + (block < outside)


@compiled
def group_keys(
    sources: NDArray[Any],
    targets: NDArray[Any],
    group_of_block: NDArray[np.int32],
    bits: int,
    both: bool,
    keep_loops: bool,
    places: NDArray[np.int64],
    keys: NDArray[np.int64],
) -> None:
    """Put the directions into groups of blocks, as keys with the row in their upper half."""
    for edge in range(len(sources)):
        source, target = np.int64(sources[edge]), np.int64(targets[edge])
        is_loop = source == target
        if is_loop and not keep_loops:
            continue
        group = group_of_block[source >> bits]
        keys[places[group]] = (source << ROW_SHIFT) | (target << 1)
        places[group] += 1
        if both and not is_loop:
            group = group_of_block[target >> bits]
            keys[places[group]] = (target << ROW_SHIFT) | (source << 1) | 1
            places[group] += 1


@compiled
def make_keys(
    values: NDArray[np.uint32], rows: NDArray[np.uint16], keys: NDArray[np.int64]
) -> None:
    """Join rows and values to keys that sort by row, then by target."""
    for place in range(len(keys)):
        keys[place] = (np.int64(rows[place]) << ROW_SHIFT) | np.int64(values[place])


@compiled
def merge_keys(
    keys: NDArray[np.int64],
    first_row: int,
    targets: NDArray[np.int32],
    degrees: NDArray[np.int64],
) -> tuple[int, int]:
    """Keep each target of a row once.

    Args:
        keys: Sorted.
        first_row: The row that `degrees` begins with.
        targets: Receives the targets of all rows; may share the memory of the keys.
        degrees: Counts the targets of each row.

    Returns:
        How many targets there are, and how many different directions were listed.
    """
    stored, listed, last = 0, 0, np.int64(-1)
    for place in range(len(keys)):
        key = keys[place]
        if key != last and key & 1 == 0:
            listed += 1
        if key >> 1 != last >> 1:
            targets[stored] = (key & 0xFFFFFFFF) >> 1
            stored += 1
            degrees[(key >> ROW_SHIFT) - first_row] += 1
        last = key
    return stored, listed
