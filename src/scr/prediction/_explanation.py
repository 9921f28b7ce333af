"""Which hops and relations carry the predictions of an encoder.

Three views of the same nodes: how much each hop counts (`Attention`), what a mixture of relation
subsets takes from which subset (`Mixing`), and, without looking at any weight, what accuracy is
lost when a part of the input is shuffled among nodes (`Drop`). All from the rows of at most
`MOST_NODES` nodes, so that it takes seconds on any graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from scr.encoders import NARS, AttentionKind, Encoder, HopBatch, evaluating
from scr.errors import GraphError
from scr.prediction._permutation import Drop, Part, permutation_drops
from scr.training import Rows, RowSource

MOST_NODES = 5_000
"""Nodes looked at; an accuracy over them is known to about half a point."""
MOST_BYTES = 1 << 28
"""Memory for their rows; fewer nodes are taken where hops are many or wide."""


@dataclass(frozen=True)
class Attention:
    """How much each hop counts, over some nodes."""

    kind: AttentionKind
    mean: tuple[float, ...]
    spread: tuple[float, ...]
    """Standard deviation over the nodes."""
    classes: tuple[str, ...] = ()
    """Classes that are predicted for at least one of the nodes."""
    class_nodes: tuple[int, ...] = ()
    by_class: Table = ()
    """Mean over the nodes of each predicted class, (classes, hops)."""


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What carries the predictions of an encoder."""

    encoder: str
    nodes: int
    """Nodes looked at."""
    split: str | None
    """The split that they are of."""
    hops: tuple[str, ...]
    """Names of the hops."""
    attention: Attention | None = None
    mixing: Mixing | None = None
    accuracy: float | None = None
    """Of the labeled ones among the nodes; none without any."""
    drops: tuple[Drop, ...] = ()

    def tables(self) -> dict[str, Any]:
        """The content of `explanation.json`."""
        return asdict(self)


def explain(
    encoder: Encoder,
    rows: RowSource,
    nodes: ArrayLike,
    *,
    labels: NDArray[np.integer[Any]] | None = None,
    class_names: Sequence[str] = (),
    subsets: Sequence[Sequence[str]] | None = None,
    fixed: ArrayLike | None = None,
    split: str | None = None,
    at_most: int = MOST_NODES,
    seed: int = 0,
    target: str | None = None,
) -> Explanation:
    """Look at a trained encoder's hops, subsets and predictions on some nodes, at most so many.

    Args:
        labels: The class of every node of the graph, below 0 where unknown; none: nothing is
            measured by shuffling.
        subsets: Names of the relations of each subset.
        fixed: Weights of the hops that the rows hold as a mixture; none: hops are apart.
        split: What to call the nodes.
        seed: Decides which nodes are drawn and how parts are shuffled.
        target: The type of the nodes, from which relations are walked along.
    """
    if np.size(nodes) == 0:
        raise GraphError("There are no nodes to look at; expected at least one")
    if not isinstance(rows, Rows):
        # A coupled encoder has no hops apart from each other that could be weighed or shuffled.
        return Explanation(encoder=encoder.name, nodes=np.size(nodes), split=split, hops=())
    index = _drawn(np.asarray(nodes, dtype=np.int64), rows, at_most, seed)
    batch = rows.batch(torch.from_numpy(index))
    with evaluating(encoder):
        predicted = encoder(batch).argmax(1).cpu().numpy()
    names = [*class_names] or [str(number) for number in range(rows.classes)]
    weight = encoder.mixture.weight if isinstance(encoder, NARS) else None
    attention: Attention | None
    if fixed is not None:
        weights = np.asarray(fixed, dtype=np.float64).tolist()
        attention = Attention("fixed", tuple(weights), (0.0,) * len(weights))
        hops = len(weights)
    else:
        attention = _attention(encoder, batch, predicted, names)
        hops = batch.hops.shape[1] if weight is None else len(weight) + 1
    mixing = None
    if weight is not None and weight.shape[1] > 1:  # one subset has all shares
        counts = None if attention is None else attention.mean
        mixing = mixing_of(weight, batch.hops, subsets, counts, target)
    named = [] if mixing is None else [" + ".join(names) for names in mixing.subsets]
    parts = _parts(batch, hops, named, mixed=fixed is not None)
    accuracy, drops = _measured(encoder, batch, index, labels, parts, seed)
    return Explanation(
        encoder=encoder.name, nodes=len(index), split=split,
        hops=tuple(f"hop {hop}" for hop in range(hops)), attention=attention, mixing=mixing,
        accuracy=accuracy, drops=drops,
    )  # fmt: skip


def _attention(
    encoder: Encoder, batch: HopBatch, predicted: NDArray[np.int64], names: Sequence[str]
) -> Attention | None:
    inner = encoder
    if isinstance(encoder, NARS):
        inner = encoder.inner
        with evaluating(encoder):
            batch = HopBatch(encoder.mixture(batch.hops), batch.labels)
    hop_weights = inner.hop_attention(batch)
    if hop_weights is None:
        return None
    weights = hop_weights.double().cpu().numpy()
    classes, nodes = np.unique(predicted, return_counts=True)
    return Attention(
        inner.attention_kind, tuple(weights.mean(0).tolist()), tuple(weights.std(0).tolist()),
        tuple(names[number] for number in classes), tuple(nodes.tolist()),
        table([weights[predicted == number].mean(0) for number in classes]),
    )  # fmt: skip


def _parts(batch: HopBatch, hops: int, subsets: Sequence[str], *, mixed: bool) -> list[Part]:
    """What can be shuffled: hops, subsets, propagated labels; a mixture only as a whole."""
    if mixed:
        parts = [Part("mixture", "all hops", (0,))]
    elif subsets:
        each = hops - 1
        parts = [Part("hop", "hop 0", (0,))]
        for hop in range(1, hops):
            positions = tuple(subset * each + hop for subset in range(len(subsets)))
            parts.append(Part("hop", f"hop {hop}", positions))
        for subset, name in enumerate(subsets):
            positions = tuple(range(1 + subset * each, 1 + (subset + 1) * each))
            parts.append(Part("subset", name, positions))
    else:
        parts = [Part("hop", f"hop {hop}", (hop,)) for hop in range(hops)]
    if batch.labels is not None:
        parts.append(Part("labels", "propagated labels"))
    return parts


def _measured(
    encoder: Encoder,
    batch: HopBatch,
    index: NDArray[np.int64],
    labels: NDArray[np.integer[Any]] | None,
    parts: Sequence[Part],
    seed: int,
) -> tuple[float | None, tuple[Drop, ...]]:
    known = np.full(len(index), -1) if labels is None else np.array(labels[index], dtype=np.int64)
    if not (known >= 0).any():
        return None, ()
    chosen = torch.from_numpy(np.flatnonzero(known >= 0)).to(batch.hops.device)
    if len(chosen) < len(index):
        batch = HopBatch(batch.hops[chosen], None if batch.labels is None else batch.labels[chosen])
    classes = torch.from_numpy(known[known >= 0]).to(batch.hops.device)
    with evaluating(encoder):
        accuracy, drops = permutation_drops(encoder, batch, classes, parts, seed=seed)
    return accuracy, tuple(drops)


def _drawn(nodes: NDArray[np.int64], rows: Rows, at_most: int, seed: int) -> NDArray[np.int64]:
    """All of the nodes, or as many as are affordable, ascending."""
    row_bytes = 4 * int(np.prod(rows.hops.shape[1:]))
    fitting = max(min(at_most, MOST_BYTES // max(row_bytes, 1)), 1)
    if len(nodes) <= fitting:
        return nodes
    drawn = np.random.default_rng(seed).choice(len(nodes), fitting, replace=False)
    return nodes[np.sort(drawn)]


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
    """The shares of subsets and relations in each hop; see `subset_shares`.

    Without attention, which includes hop 0, all hops count alike; without the type of the nodes,
    all relations of a subset count in all hops.
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
