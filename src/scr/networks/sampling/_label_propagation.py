"""Partition a graph by label propagation with bounded sizes, with nothing but numba.

After Meyerhenke et al. 2014, "Partitioning Complex Networks via Size-constrained Clustering",
arXiv:1402.3281, on one level:

1. Every node begins as a cluster of its own and moves to the cluster that most of its neighbors are
   in, unless that has half the size of a part already.
2. Clusters, the largest first, are put into the part that they have most edges to if it has room,
   or else into the smallest part; an empty part goes before one that few edges lead to. As a
   cluster is at most half a part, no part becomes larger than one and a half times the average.
3. Nodes move to the part that most of their neighbors are in, within the same bounds.

Nodes move one after the other, in an order drawn with the seed; so there is one thread, and one
result.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.compute import compiled, derived_key, ends_of, mix, stream_key

_ROUNDS = 10
"""Of moving all nodes; later ones move few."""
_FEW_MOVES = 1e-3
"""A round in which a smaller fraction of nodes moved is the last one."""
_STRANGER = 4
"""A cluster that has at most one in so many of its outer edges to a part would rather begin another
one. Without it, chance edges between communities put them into one part."""
_STREAM = 2
"""Keeps random numbers apart from those of samplers with the same seed."""


def propagate_labels(
    indptr: NDArray[np.int64], indices: NDArray[Any], parts: int, seed: int
) -> NDArray[np.int32]:
    """The part of each node of a symmetric graph; none of at most as many as nodes is empty."""
    nodes = len(indptr) - 1
    clusters = np.arange(nodes, dtype=np.int32)
    half = max(1, nodes // (2 * parts))
    if half > 1:
        _move(indptr, indices, clusters, nodes, (0, half), stream_key(seed, _STREAM, 0))
    membership = _pack(indptr, indices, clusters, *_by_size(clusters), parts)
    largest = max(-(-nodes // parts), 3 * nodes // (2 * parts))
    _move(indptr, indices, membership, parts, (half, largest), stream_key(seed, _STREAM, 1))
    return membership


def _move(
    indptr: NDArray[np.int64], indices: NDArray[Any], labels: NDArray[np.int32], count: int,
    bounds: tuple[int, int], key: np.uint64,
) -> None:  # fmt: skip
    """Move nodes between labels, in place, for some rounds."""
    sizes = np.bincount(labels, minlength=count)
    votes = np.zeros(count, np.int32)
    heard = np.empty(int(np.diff(indptr).max(initial=0)), np.int32)
    generator = np.random.default_rng(int(key))
    for turn in range(_ROUNDS):
        order = generator.permutation(len(labels))
        turn_key = np.uint64(derived_key(key, turn))  # compiled functions return plain numbers
        moved = _round(indptr, indices, labels, sizes, *bounds, order, turn_key, votes, heard)
        if moved < _FEW_MOVES * len(labels):
            break


@compiled
def _round(
    indptr: NDArray[np.int64], indices: NDArray[Any], labels: NDArray[np.int32],
    sizes: NDArray[np.int64], least: int, most: int, order: NDArray[np.int64], key: np.uint64,
    votes: NDArray[np.int32], heard: NDArray[np.int32],
) -> int:  # fmt: skip
    """Let each node follow most of its neighbors; a tie is kept, or else broken at random."""
    moved = 0
    for node in order:
        own = labels[node]
        if sizes[own] <= least:
            continue
        count = 0
        for edge in range(indptr[node], indptr[node + 1]):
            label = labels[indices[edge]]
            if votes[label] == 0:
                heard[count] = label
                count += 1
            votes[label] += 1
        best, best_votes, best_tie = own, votes[own], np.uint64(0)
        for place in range(count):
            label = heard[place]
            if label == own or sizes[label] >= most or votes[label] < best_votes:
                continue
            tie = mix(derived_key(key, node) ^ np.uint64(label))
            if votes[label] > best_votes or (best != own and tie > best_tie):
                best, best_votes, best_tie = label, votes[label], tie
        for place in range(count):
            votes[heard[place]] = 0
        if best != own:
            labels[node] = best
            sizes[own] -= 1
            sizes[best] += 1
            moved += 1
    return moved


def _by_size(clusters: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Nodes of the largest cluster, of the next one..., and where each cluster begins."""
    sizes = np.bincount(clusters)
    rank = np.empty(len(sizes), np.int64)
    largest_first = np.argsort(-sizes, kind="stable")
    rank[largest_first] = np.arange(len(sizes))
    filled = sizes[largest_first]
    return np.argsort(rank[clusters], kind="stable"), ends_of(filled[filled > 0])


@compiled
def _pack(
    indptr: NDArray[np.int64], indices: NDArray[Any], clusters: NDArray[np.int32],
    members: NDArray[np.int64], begins: NDArray[np.int64], parts: int,
) -> NDArray[np.int32]:  # fmt: skip
    """Put clusters into parts.

    While a part is empty, no other grows beyond the average rounded down; so none stays empty.
    """
    nodes = len(members)
    room, filled = nodes // parts, 0
    membership = np.full(nodes, -1, np.int32)
    sizes, votes = np.zeros(parts, np.int64), np.zeros(parts, np.int64)
    heard = np.empty(parts, np.int64)
    # Size and part in one number; entries of parts that have grown since are stale and skipped.
    smallest = [np.int64(part) for part in range(parts)]
    for cluster in range(len(begins) - 1):
        size = begins[cluster + 1] - begins[cluster]
        own, count, outside = clusters[members[begins[cluster]]], 0, 0
        for place in range(begins[cluster], begins[cluster + 1]):
            for edge in range(indptr[members[place]], indptr[members[place] + 1]):
                part = membership[indices[edge]]
                outside += clusters[indices[edge]] != own
                if part >= 0:
                    if votes[part] == 0:
                        heard[count] = part
                        count += 1
                    votes[part] += 1
        best, best_votes = np.int64(-1), outside // _STRANGER if filled < parts else 0
        for place in range(count):
            part = heard[place]
            fits = sizes[part] + size <= room
            if fits and (votes[part] > best_votes or (votes[part] == best_votes and part < best)):
                best, best_votes = part, votes[part]
            votes[part] = 0
        if best < 0:
            while smallest[0] // parts != sizes[smallest[0] % parts]:
                heapq.heappop(smallest)
            best = smallest[0] % parts
        filled += sizes[best] == 0
        sizes[best] += size
        heapq.heappush(smallest, sizes[best] * parts + best)
        for place in range(begins[cluster], begins[cluster + 1]):
            membership[members[place]] = best
    return membership
