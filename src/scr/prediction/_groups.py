"""Groups of nodes that are alike, and one node that stands for each: what is worth a label.

A label helps where a model hesitates, where many nodes are alike, and where no other label that is
asked for is near. k-means in which every node weighs as much as the model doubts it has all three:
groups are where the model is unsure, and no two are alike (Zhdanov 2019, "Diverse mini-batch Active
Learning", arXiv:1901.05954). The node next to the center of a group stands for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scr.features import singular_directions

Array = NDArray[np.float64]
Positions = NDArray[np.int64]

COLUMNS = 64
"""Of the space in which nodes are compared: wider rows are cut down to their main directions."""
STARTS = 5
"""Of k-means, of which the best counts: one may end in a poor local optimum."""
MOST_ROUNDS = 100
"""Of k-means; most end long before."""
ROUNDING = 1e-9
"""By which numbers that are the same may differ, as a share of the largest."""


@dataclass(frozen=True, eq=False)
class Groups:
    """Nodes that stand for groups, the group with most doubt first."""

    order: Positions
    """Positions among the points."""
    shares: Array
    """Share of all doubt that lies in the group of each."""
    sizes: Positions
    """Points in the group of each, itself included; 0 of a node that stands for none."""


def directions(rows: NDArray[Any], columns: int = COLUMNS) -> Array:
    """Rows as unit vectors around their mean, in at most so many main directions."""
    centered = rows.astype(np.float64) - rows.mean(axis=0, dtype=np.float64)
    if centered.shape[1] > columns:
        # There are no more directions than rows.
        centered = centered @ singular_directions(centered, min(columns, len(centered)))
    lengths = np.linalg.norm(centered, axis=1, keepdims=True)
    # Rows at the mean itself have no direction.
    has_length = lengths > ROUNDING * np.abs(rows).max(initial=0)
    return np.asarray(np.divide(centered, lengths, out=np.zeros_like(centered), where=has_length))


def group(points: Array, weights: Array, count: int) -> Groups:
    """Cut points into groups, and take one of each.

    Where fewer points differ than are asked for, the heaviest of the others follow.

    Args:
        points: One row per node, shape (nodes, columns).
        weights: The doubt about each.
        count: How many to take, at most.
    """
    heavy = weights if weights.sum() > 0 else np.ones(len(points))
    centers = k_means(points, heavy, min(count, len(points)))
    nearest, distance = _nearest(points, centers)
    totals = np.bincount(nearest, heavy, minlength=len(centers)) / heavy.sum()
    sizes = np.bincount(nearest, minlength=len(centers))
    # By group, then by distance, then by weight: the first of each group stands for it.
    by_distance = np.lexsort((-weights, np.round(distance / ROUNDING), nearest))
    first = by_distance[np.searchsorted(nearest[by_distance], np.flatnonzero(sizes))]
    ranked = first[np.lexsort((first, -totals[nearest[first]]))]
    others = np.setdiff1d(np.arange(len(points)), ranked)
    others = others[np.argsort(-weights[others], kind="stable")][: count - len(ranked)]
    nothing = np.zeros(len(others))
    return Groups(
        np.concatenate([ranked, others]),
        np.concatenate([totals[nearest[ranked]], nothing]),
        np.concatenate([sizes[nearest[ranked]], nothing]).astype(np.int64),
    )


def k_means(points: Array, weights: Array, count: int) -> Array:
    """Centers of weighted k-means, at most so many: fewer where fewer points differ."""
    generator = np.random.default_rng(0)
    tries = [_settled(points, weights, count, generator) for _ in range(STARTS)]
    return min(tries, key=lambda centers: float(weights @ _nearest(points, centers)[1]))


def _settled(points: Array, weights: Array, count: int, generator: np.random.Generator) -> Array:
    """Centers that no longer move, from one start (Lloyd 1982)."""
    centers = _first_centers(points, weights, count, generator)
    before = np.full(len(points), -1)
    for _ in range(MOST_ROUNDS):
        nearest, _ = _nearest(points, centers)
        if np.array_equal(nearest, before):
            break
        before = nearest
        mass = np.bincount(nearest, weights, minlength=len(centers))[:, None]
        shape = (len(centers), len(points))
        members = sp.csr_array((weights, (nearest, np.arange(len(points)))), shape=shape)
        # A group without weight keeps its center.
        centers = np.where(mass > 0, members @ points / np.where(mass > 0, mass, 1), centers)
    return centers


def _first_centers(
    points: Array, weights: Array, count: int, generator: np.random.Generator
) -> Array:
    """k-means++: each next center is drawn far from those before; the best of a few draws."""
    draws = 2 + int(np.log(count))
    chosen: list[int] = []
    distance = np.ones(len(points))
    while len(chosen) < count and (weights * distance).sum() > 0:
        chances = np.cumsum(weights * distance)
        drawn = np.searchsorted(chances, generator.random(draws) * chances[-1], side="right")
        drawn = np.minimum(drawn, len(points) - 1)
        left = [np.minimum(distance, _squares(points, points[each])) for each in drawn]
        best = int(np.argmin([weights @ each for each in left])) if chosen else 0
        chosen.append(int(drawn[best]))
        distance = left[best] if len(chosen) > 1 else _squares(points, points[chosen[0]])
    return points[chosen]


def _squares(points: Array, other: Array) -> Array:
    """Squared distances to one point; 0 where only rounding differs."""
    squares = ((points - other) ** 2).sum(axis=1)
    return np.where(squares > ROUNDING, squares, 0.0)


def _nearest(points: Array, centers: Array) -> tuple[Positions, Array]:
    """The nearest center of each point, the first of equal ones, and its squared distance."""
    squares = (centers**2).sum(axis=1) - 2 * (points @ centers.T)
    nearest = squares.argmin(axis=1)
    own = np.take_along_axis(squares, nearest[:, None], axis=1)[:, 0]
    return nearest, np.maximum(own + (points**2).sum(axis=1), 0)
