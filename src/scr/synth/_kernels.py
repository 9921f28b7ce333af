"""Compiled loops of `_model.py`: every random number is a function of a key and a counter.

So the result does not depend on the number of threads, on chunks or on their order.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from scr.compute import compiled, compiled_parallel, mix, uniform


@compiled
def _permute(position: int, nodes: int, half_bits: int, key: np.uint64) -> int:
    """A keyed permutation of 0 .. nodes - 1: a Feistel network, walked until inside the range."""
    mask = np.uint64((1 << half_bits) - 1)
    value = np.uint64(position)
    while True:
        left, right = value >> np.uint64(half_bits), value & mask
        for turn in range(4):
            left, right = right, left ^ (mix(right + key + np.uint64(turn) * mask) & mask)
        value = (left << np.uint64(half_bits)) | right
        if value < np.uint64(nodes):
            return int(value)


@compiled
def _half_bits(nodes: int) -> int:
    bits = 1
    while (1 << (2 * bits)) < nodes:
        bits += 1
    return bits


@compiled
def _draw_position(
    label: int, chance: float, nodes: int, classes: int, power: float, reach: float
) -> int:
    """Where a node of a class lies in the order of classes and ranks; low ranks are hubs."""
    first = label * nodes // classes
    size = (label + 1) * nodes // classes - first
    rank = int((1.0 + chance * reach) ** (1.0 / power) - 1.0)
    return first + min(rank, size - 1)


@compiled_parallel
def fill_edges(
    edges: NDArray[np.int32], start: int, nodes: int, classes: int, homophily: float,
    power: float, edge_key: np.uint64, permutation_key: np.uint64,
) -> None:  # fmt: skip
    """Draw the edges `start`, `start` + 1 ... into the columns of an array of shape (2, edges).

    `homophily` is the chance that the other end is of the same class, and `power` is
    1 - 1 / (degree exponent - 1); the keys are those of random numbers and of node numbers.
    """
    half_bits = _half_bits(nodes)
    # Class sizes differ by one node at most, so one normalizer of the ranks serves all.
    reach = (nodes / classes + 1.0) ** power - 1.0
    for column in numba.prange(edges.shape[1]):
        counter = np.uint64(4) * np.uint64(start + column)
        first, second = uniform(edge_key, counter), uniform(edge_key, counter + np.uint64(1))
        label = int(first * classes)
        # One draw serves twice: its whole part picks the class, the rest is uniform again.
        source = _draw_position(label, first * classes - label, nodes, classes, power, reach)
        if classes > 1 and uniform(edge_key, counter + np.uint64(2)) >= homophily:
            other = uniform(edge_key, counter + np.uint64(3))
            label = (label + 1 + int(other * (classes - 1))) % classes
        target = _draw_position(label, second, nodes, classes, power, reach)
        edges[0, column] = _permute(source, nodes, half_bits, permutation_key)
        edges[1, column] = _permute(target, nodes, half_bits, permutation_key)


@compiled_parallel
def fill_labels(labels: NDArray[np.int64], nodes: int, classes: int, key: np.uint64) -> None:
    """Write the class of every node."""
    half_bits = _half_bits(nodes)
    for label in numba.prange(classes):
        for position in range(label * nodes // classes, (label + 1) * nodes // classes):
            labels[_permute(position, nodes, half_bits, key)] = label


@compiled_parallel
def fill_parts(
    part: NDArray[np.int8], labels: NDArray[np.int64], train: NDArray[np.float64],
    valid: float, test: float, key: np.uint64,
) -> None:  # fmt: skip
    """Write 0 for training nodes, 1 for validation nodes, 2 for test nodes, 3 for the others."""
    for node in numba.prange(len(part)):
        chance, trains = uniform(key, np.uint64(node)), train[labels[node]]
        if chance < trains:
            part[node] = 0
        elif chance < trains + valid:
            part[node] = 1
        else:
            part[node] = 2 if chance < trains + valid + test else 3
