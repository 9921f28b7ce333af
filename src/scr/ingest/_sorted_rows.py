"""Sort more edges into rows than memory holds, by reading them several times.

First the directions of every block of rows are counted: 65,536 rows, or fewer where some have very
many edges. Then the blocks are taken in ranges
that fit memory, and for each range the edges are read again: every direction in the range goes to
its block's place in one buffer of 6 bytes per direction, and when all edges are read each block,
small enough for the processor's cache, is sorted and merged. Nothing is written but the result.

`_row_buckets.py` trades passes over the edges for files on disk. Both give the same `SortedRows`.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scr.compute import default_threads, map_in_order
from scr.errors import SourceError
from scr.graph import check_node_count, outside_the_graph
from scr.ingest._row_kernels import (
    ROW_SHIFT,
    count_directions,
    count_in_blocks,
    distribute,
    make_keys,
    merge_keys,
)
from scr.sources import EdgeSource

OnProgress = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and how much there is."""
_Tell = Callable[[int], None]

BLOCK_BITS = 16
"""Rows of a block, as a power of two: their numbers within the block take two bytes."""
UNIT_BITS = 10
"""Rows that are counted together, as a power of two: the smallest block."""
DIRECTION_BYTES = 6
"""Of one direction in the buffer: 2 for its row in the block, 4 for its target."""
KEY_BYTES = 8
"""Of one direction while its block is sorted."""
_LINE = 64
"""Numbers between two places that threads write to at once, so that they share no cache line."""


@dataclass(frozen=True, kw_only=True)
class RowRules:
    """What becomes of the edges on their way into rows."""

    num_nodes: int
    both: bool = True
    """Store each edge in both directions."""
    keep_loops: bool = False
    """Keep edges from a node to itself."""
    bits: int = BLOCK_BITS
    chunk_edges: int = 1 << 21
    """Edges read at a time."""
    threads: int = 0
    """Threads that work; 0: as many as numba may use."""

    @property
    def blocks(self) -> int:
        """How many blocks of rows there are."""
        return -(-self.num_nodes // (1 << self.bits))

    @property
    def workers(self) -> int:
        """How many threads work."""
        return self.threads or default_threads()

    def rows_of(self, first: int, last: int) -> tuple[int, int]:
        """The rows of a range of blocks."""
        return first << self.bits, min(last << self.bits, self.num_nodes)


class SortedRows(NamedTuple):
    """The merged targets of some rows."""

    last: int
    """The row after them."""
    targets: NDArray[np.int32]
    """Valid until the next rows are asked for."""
    degrees: NDArray[np.int64]
    """How many targets each row has."""
    listed: int
    """How many different directions the source lists."""
    is_boundary: bool
    """Whether work that is interrupted after these rows can go on with the next ones."""


class BlockCounts(NamedTuple):
    """What the first look at the edges says."""

    directions: NDArray[np.int64]
    """Of each block of rows, repeated ones included. Shape (blocks,)."""
    loops: int
    """Edges from a node to itself."""


def count_blocks(
    source: EdgeSource, rules: RowRules, on_progress: OnProgress | None = None
) -> BlockCounts:
    """Count the directions of every block of rows, and check every node number.

    Raises:
        GraphError: Names the first edge that points outside the graph.
    """

    def work(chunk: NDArray[Any]) -> tuple[int, int, NDArray[np.int64], NDArray[Any]]:
        counts = np.zeros(rules.blocks, np.int64)
        bad, loops = count_directions(
            *plain_ends(chunk), rules.num_nodes, rules.bits, rules.both, rules.keep_loops, counts
        )
        return bad, loops, counts, chunk

    check_node_count(rules.num_nodes)
    total, all_loops, done = np.zeros(rules.blocks, np.int64), 0, 0
    for bad, loops, counts, chunk in each_chunk(work, source, rules):
        if bad >= 0:
            source_node, target_node = chunk[:, bad].tolist()
            raise outside_the_graph(done + bad, source_node, target_node, rules.num_nodes)
        total += counts
        all_loops += loops
        done += chunk.shape[1]
        if on_progress is not None:
            on_progress("count edges", done, source.num_edges)
    return BlockCounts(total, all_loops)


def fitting_blocks(
    counts: NDArray[np.int64],
    rules: RowRules,
    unit_bits: int,
    *,
    row: int,
    fits: Callable[[int], bool],
) -> tuple[RowRules, NDArray[np.int64]]:
    """The largest blocks of which each can be sorted at once.

    Args:
        counts: Directions of blocks of the smallest size.
        rules: Their `bits` are the most that a block may have.
        unit_bits: Those of the smallest size.
        row: A block must begin there, since work goes on with it.
        fits: Whether so many directions can be sorted at once.

    Returns:
        The rules with the size of the blocks, and the directions of each; the smallest blocks if
        none fit.
    """
    for bits in range(rules.bits, unit_bits, -1):
        starts = np.arange(0, len(counts), 1 << (bits - unit_bits))
        blocks = np.add.reduceat(counts, starts)
        if row % (1 << bits) == 0 and fits(int(blocks.max(initial=0))):
            return dataclasses.replace(rules, bits=bits), blocks
    return dataclasses.replace(rules, bits=unit_bits), counts


def block_ranges(
    counts: NDArray[np.int64], room: int, *, first: int = 0, workers: int = 1
) -> list[tuple[int, int]]:
    """Cut the blocks into ranges that can be sorted in so much memory, as few as possible.

    Args:
        counts: Directions of each block.
        room: Bytes.
        first: The block to begin with.
        workers: Blocks that are sorted at once.
    """
    ranges, start, held, largest = [], first, 0, 0
    for block in range(first, len(counts)):
        count = int(counts[block])
        grown = max(largest, count)
        if block > start and range_bytes(held + count, grown, workers) > room:
            ranges.append((start, block))
            start, held, grown = block, 0, count
        held, largest = held + count, grown
    return [*ranges, (start, len(counts))] if start < len(counts) else ranges


def range_bytes(directions: int, largest: int, workers: int) -> int:
    """Memory to sort a range of blocks of which the largest has so many directions."""
    return DIRECTION_BYTES * directions + KEY_BYTES * largest * workers


def rows_by_passes(
    source: EdgeSource,
    rules: RowRules,
    counts: NDArray[np.int64],
    ranges: Sequence[tuple[int, int]],
    on_progress: OnProgress | None = None,
) -> Iterator[SortedRows]:
    """Read all edges once for each range of blocks, and give the rows in order.

    Args:
        source: Edges that `count_blocks` has seen.
        rules: What becomes of them.
        counts: Directions of each block.
        ranges: From `block_ranges`.
        on_progress: Told of the edges read and the directions sorted.
    """
    slots = _ahead(rules)
    largest = max((int(counts[first:last].sum()) for first, last in ranges), default=0)
    values = np.empty(largest + slots * _LINE, np.uint32)
    rows = np.empty(largest + slots * _LINE, np.uint16)
    edges, blocks = len(ranges) * source.num_edges, sum(last - first for first, last in ranges)
    for number, (first, last) in enumerate(ranges):
        read = _after(on_progress, "read edges", number * source.num_edges, edges)
        sort = _after(on_progress, "sort rows", first - ranges[0][0], blocks)
        starts = np.zeros(last - first + 1, np.int64)
        np.cumsum(counts[first:last], out=starts[1:])
        _distribute(source, rules, (first, last), starts, values, rows, read)
        yield from _sort_blocks(rules, (first, last), starts, values, rows, sort)


def _after(on_progress: OnProgress | None, what: str, before: int, total: int) -> _Tell:
    """A function that tells of work of which some was done before."""

    def tell(done: int) -> None:
        if on_progress is not None:
            on_progress(what, before + done, total)

    return tell


def _distribute(
    source: EdgeSource,
    rules: RowRules,
    blocks: tuple[int, int],
    starts: NDArray[np.int64],
    values: NDArray[np.uint32],
    rows: NDArray[np.uint16],
    tell: _Tell,
) -> None:
    first, count = blocks[0], blocks[1] - blocks[0]
    settings = (first, count, rules.bits, rules.both, rules.keep_loops)
    free, lock, turn = starts.copy(), threading.Lock(), iter(range(source.num_edges + 1))

    def work(chunk: NDArray[Any]) -> int:
        sources, targets = plain_ends(chunk)
        found = np.zeros(count + 1, np.int64)
        count_in_blocks(sources, targets, *settings, found)
        with lock:  # each chunk gets places of its own, so that threads never meet
            places = free.copy()
            free[:count] += found[:count]
            check_unchanged(bool((free[:count] <= starts[1:]).all()))
            slot = next(turn) % _ahead(rules)
        places[count] = starts[count] + slot * _LINE
        distribute(sources, targets, *settings, places, values, rows)
        return len(sources)

    done = 0
    for edges in each_chunk(work, source, rules):
        done += edges
        tell(done)
    check_unchanged(bool((free[:count] == starts[1:]).all()))


def _sort_blocks(
    rules: RowRules,
    blocks: tuple[int, int],
    starts: NDArray[np.int64],
    values: NDArray[np.uint32],
    rows: NDArray[np.uint16],
    tell: _Tell,
) -> Iterator[SortedRows]:
    first, last = blocks

    def work(block: int) -> SortedRows:
        here = slice(starts[block - first], starts[block - first + 1])
        keys = np.empty(here.stop - here.start, np.int64)
        make_keys(values[here], rows[here], keys)
        rows_here = rules.rows_of(block, block + 1)
        return merged(keys, rows_here, values[here].view(np.int32), first_row=0)

    for block, sorted_rows in enumerate(
        map_in_order(work, range(first, last), threads=rules.workers, ahead=rules.workers), first
    ):
        yield sorted_rows._replace(is_boundary=block + 1 == last)
        tell(block + 1 - first)


def check_unchanged(as_counted: bool) -> None:
    """Raise a `SourceError` unless the edges are those that were counted.

    Compiled loops would write beyond their arrays otherwise.
    """
    if not as_counted:
        raise SourceError(
            "The edges are not those that were counted: their files have changed since",
            hint="ingest again once nobody writes to them",
        )


def merged(
    keys: NDArray[np.int64],
    rows: tuple[int, int],
    out: NDArray[np.int32],
    *,
    first_row: int | None = None,
) -> SortedRows:
    """Sort keys in place and keep each target of a row once.

    Args:
        keys: One for each direction, with the row in its upper half.
        rows: The rows that they belong to.
        out: Receives the targets.
        first_row: What the keys call the first of the rows; none: by its own number.
    """
    keys.sort()
    degrees = np.zeros(rows[1] - rows[0], np.int64)
    first_row = rows[0] if first_row is None else first_row
    if len(keys):
        check_unchanged(first_row <= keys[0] >> ROW_SHIFT)
        check_unchanged(keys[-1] >> ROW_SHIFT < first_row + len(degrees))
    stored, listed = merge_keys(keys, first_row, out, degrees)
    return SortedRows(rows[1], out[:stored], degrees, listed, False)


def plain_ends(chunk: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Sources and targets as contiguous numbers of 32 or 64 bits, and read-only.

    Numba compiles once more for every other type, layout and mix of writable arguments.
    """
    kind = np.int32 if np.can_cast(chunk.dtype, np.int32) else np.int64
    sources, targets = (np.ascontiguousarray(end, kind)[:] for end in chunk)
    sources.flags.writeable = targets.flags.writeable = False
    return sources, targets


def _ahead(rules: RowRules) -> int:
    return rules.workers + 1


def each_chunk(
    work: Callable[[NDArray[Any]], Any], source: EdgeSource, rules: RowRules
) -> Iterator[Any]:
    """Do something with every chunk of the edges, on all threads; results in order."""
    chunks = source.chunks(rules.chunk_edges)
    return map_in_order(work, chunks, threads=rules.workers, ahead=_ahead(rules))
