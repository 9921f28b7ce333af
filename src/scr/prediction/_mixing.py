"""What a learned mixture of relation subsets takes from which subset, and from which relation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

Table = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Mixing:
    """What a mixture of relation subsets takes from which subset; hop 0 is common to all."""

    subsets: tuple[tuple[str, ...], ...]
    """Relations of each subset."""
    by_hop: Table
    """Share of each subset in each hop from 1 on, (hops, subsets); see `subset_shares`."""
    relations: tuple[str, ...]
    """Empty where the relations of a subset are not known."""
    relation_by_hop: Table
    """The same by relation: the share of a subset in a hop is divided equally among those of its
    relations that so many steps from the target type can go along."""
    relation: tuple[float, ...]
    """Mean over hops, each counting as much as its attention, or all alike without."""


def subset_shares(weight: Tensor, hops: Tensor) -> Tensor:
    r"""Share of each subset in the mixture of each hop.

        share_ks = || w_ks * sigma_ks || / sum_s' || w_ks' * sigma_ks' ||

    with sigma_ks the standard deviation of every feature of hop k of subset s over the nodes: a
    weight on a feature that never varies carries nothing.

    Args:
        weight: w, shape (hops, subsets, features), from hop 1 on.
        hops: Shape (rows, 1 + subsets * hops, features): hop 0, then subset by subset.

    Returns:
        Shape (hops, subsets).
    """
    count, subsets, features = weight.shape
    deviation = hops[:, 1:].std(0, correction=0).view(subsets, count, features).transpose(0, 1)
    sizes = (weight.detach() * deviation).norm(dim=-1).double()
    total = sizes.sum(1, keepdim=True)
    return torch.where(total > 0, sizes / total, 1 / subsets)


def mixing_of(
    weight: Tensor,
    hops: Tensor,
    subsets: Sequence[Sequence[str]] | None,
    attention: Sequence[float] | None = None,
    target: str | None = None,
) -> Mixing:
    """The shares of subsets and relations in each hop.

    Args:
        weight: See `subset_shares`.
        hops: See `subset_shares`.
        subsets: Names of the relations of each subset; none: not known.
        attention: How much each hop counts, hop 0 included; none: all alike.
        target: The type of the nodes; none: all relations of a subset count in all hops.
    """
    shares = subset_shares(weight, hops).cpu().numpy()
    count, number = shares.shape
    named = tuple(tuple(names) for names in subsets or ())
    if len(named) != number:  # not known: an ordinal will do
        named = tuple((f"subset {position + 1}",) for position in range(number))
        relations: tuple[str, ...] = ()
    else:
        relations = tuple(dict.fromkeys(name for names in named for name in names))
    belongs = np.zeros((count, number, len(relations)))
    for position, names in enumerate(named if relations else ()):
        for hop, walked in enumerate(_walked(names, count, target)):
            for name in walked:
                belongs[hop, position, relations.index(name)] += 1 / len(walked)
    by_hop = np.einsum("ks,ksr->kr", shares, belongs)
    counts = np.ones(count)
    if attention is not None and min(attention) >= 0 and sum(attention[1:]) > 0:
        counts = np.array(attention[1:])
    overall = (counts / counts.sum()) @ by_hop
    return Mixing(named, table(shares), relations, table(by_hop), tuple(overall.tolist()))


def _walked(names: Sequence[str], hops: int, target: str | None) -> list[Sequence[str]]:
    """The relations of a subset that hops 1, 2, ... from the target type can go along."""
    ends = {name: (name.split(":")[0], name.split(":")[-1]) for name in names if ":" in name}
    if target is None or len(ends) < len(names):
        return [names] * hops
    reached, walked = {target}, []
    for _ in range(hops):
        near = [name for name in names if not reached.isdisjoint(ends[name])]
        walked.append(near or names)
        reached.update(kind for name in near for kind in ends[name])
    return walked


def table(rows: ArrayLike) -> Table:
    """Rows of plain numbers, ready for JSON."""
    return tuple(tuple(row) for row in np.asarray(rows, dtype=np.float64).tolist())
