"""`encoder="auto"`: features are scaled and hops are averaged as quick fits on labels suggest.

Neighbors help on most graphs, near ones alone on some, and on a few they only blur what a node's
own features say. Which it is shows in a second, before anything is trained: a logistic regression
on each average of the hops, fitted to training nodes and scored on validation nodes, orders the
averages much as trained encoders do. An average other than the usual one is taken only where it is
better beyond the noise of so few labels. Where neighbors have the same class no more often than by
chance, the usual is a node's own features.

Labels of training and validation nodes are read, of test nodes never: they choose settings, and
weights are trained on training labels alone, as always.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.consistency import cross_validate, linear_accuracy
from scr.errors import MemoryBudgetError
from scr.features import (
    FeatureConfig,
    Scale,
    choose_reduction,
    choose_scale,
    fit_features,
)
from scr.graph import Graph
from scr.propagation import PropagationConfig, label_hops, propagate

USUAL_HOPS, FEW_LABELS_HOPS, FEW_LABELS = 4, 8, 10
"""Hops 0 to K are usually averaged; with at most so many labels per class more, since only then
there is a labeled node within reach of most others."""
GENTLE_WEIGHT = 0.3
"""Of the consistency term with so few labels, or neighbors that agree by chance: predictions are
often wrong early, and at full weight some runs settle on them."""
TYPED_ENCODER = "nars-gamlp"
"""For several types or relations: what the papers on ogbn-mag use."""
AVERAGED_HOPS = (0, 2, 4, 8)
"""What is tried; 0 leaves a node's own features alone."""
LAST_HOPS = (2, 4)
"""Hops that are tried alone: in large neighborhoods of noisy features only far hops say something,
and an average is mostly noise."""
LABEL_HOPS, LABEL_LAYERS = 2, 2
"""Labels of training nodes are propagated so far and read by a branch of so many layers, if that
is better beyond noise; with few labels they say nothing."""
FEW_VALID = 50
"""With fewer validation nodes, folds of all labeled nodes are held out instead."""
MOST_NODES = 2_000
"""Labeled nodes that are looked at: a share of them is known within a percent by then."""
MOST_VALUES = 2**27
"""Values of all hops of these nodes that are kept at once; fewer nodes, if they are wide."""
MOST_COLUMNS, MOST_DENSE = 4096, 2e8
"""Columns, and nodes times columns, up to which sparse features become dense without a reduction:
an SVD loses rare words, which matters where labels are few, but wider rows train slowly."""
OTHER_SCALES: dict[str, tuple[Scale, ...]] = {
    "tfidf": ("row",), "none": ("standard",), "standard": ("none",)
}  # fmt: skip
"""What is tried beside the scale of the rule in `scr.features`, unless features are reduced."""
NARROW, FEW_LABELS_NARROW = 128, 64
"""Columns of an SVD that is tried as well where features are sparse, and with few labels: of many
columns a few labels say little, and nodes that share no word are alike in a narrow basis."""
MOST_WORK, MOST_FEATURES = 2e11, 5e8
"""Nodes and edges times columns times hops, about half a minute for each scale on two cores, and
nodes times columns, 2 GB, beyond which the look costs too much, and is left."""
SEVERAL_TARGETS = "several targets per node: averages of the hops were not tried"
SHOWN = 4
"""Looks that the reason names."""
TOO_LARGE = "too large a graph to try averages of its hops"
FEW_PAIRS, CHANCE_ERRORS = 20, 2.0
"""Pairs of neighbors that it takes to say that they have the same class no more often than by
chance, and how many standard errors above chance that still is: then own features are the usual."""
NOISE, WIDE_NOISE = 0.5, 1.25
"""Standard errors by which another average of the same features must be better than the usual one,
and anything else: of so many, some look better by luck."""


@dataclass(frozen=True)
class Look:
    """What a logistic regression made of one mixture of the hops."""

    data: FeatureConfig
    hops: int
    accuracy: float
    is_average: bool = True
    """Otherwise the farthest hop alone."""

    def __str__(self) -> str:
        average = f"{self.hops} hops" if self.hops else "own features"
        if not self.is_average:
            average = f"hop {self.hops} alone"
        narrow = f", {self.data.reduce_to} columns" if self.data.reduce == "svd" else ""
        return f"{average} (scale {self.data.scale}{narrow}) {100 * self.accuracy:.1f}%"


@dataclass(frozen=True)
class Choice:
    """Settings that were chosen for a graph."""

    tables: dict[str, Any]
    reason: str
    """A sentence; empty where nothing was looked at."""


def choose(graph: Graph, *, seed: int = 0) -> Choice:
    """Choose encoder, scale and hops for a graph.

    Args:
        graph: Features, edges, and labels of training and validation nodes are read.
        seed: Decides which nodes are looked at, and their folds.
    """
    if graph.is_typed or len(graph.relations) > 1:
        return Choice({"encoder": {"name": TYPED_ENCODER}}, "relations walked apart")
    if graph.features is None or len(graph.train) == 0:
        return Choice({}, "")
    columns, is_scarce = graph.features.shape[1], len(graph.train) <= FEW_LABELS * graph.num_classes
    hops = FEW_LABELS_HOPS if is_scarce else USUAL_HOPS
    usual: dict[str, Any] = {"encoder": {"name": "ssgc"}, "propagation": {"hops": hops}}
    if columns <= MOST_COLUMNS and graph.num_nodes * columns <= MOST_DENSE:
        usual["data"] = {"reduce": "none"}
    data = FeatureConfig(**usual.get("data", {}))
    if is_reduced := choose_reduction(graph.features, data) != "none":
        columns = data.reduce_to
    if graph.is_multilabel:
        return Choice(usual, SEVERAL_TARGETS)
    gentle = {"consistency": {"weight": GENTLE_WEIGHT}}
    if is_scarce:
        usual["for"] = dict.fromkeys(("scr", "scr-m"), gentle)
    work = (graph.num_nodes + len(graph.indices)) * columns * max(AVERAGED_HOPS)
    if work > MOST_WORK or graph.num_nodes * columns > MOST_FEATURES:
        return Choice(usual, TOO_LARGE)
    train, valid = (_some(nodes, columns, seed) for nodes in (graph.train, graph.valid))
    scale = choose_scale(graph.features, is_reduced=True)
    scales = (scale, *(() if is_reduced else OTHER_SCALES.get(scale, ())))
    tried = [replace(data, scale=each) for each in scales]
    narrow = FEW_LABELS_NARROW if is_scarce else NARROW
    if scale == "tfidf" and columns > 2 * narrow and graph.num_nodes > 2 * narrow:
        tried.append(replace(data, scale=scale, reduce="svd", reduce_to=narrow))
    try:
        looks = [look for each in tried for look in _looks(graph, each, train, valid, seed)]
    except MemoryBudgetError:
        return Choice(usual, TOO_LARGE)
    if not looks:
        return Choice(usual, "too few labels to try averages of the hops")
    is_strange = _neighbors_disagree(graph, np.concatenate([train, valid]))
    if is_strange:
        hops = 0
        usual["for"] = dict.fromkeys(("scr", "scr-m"), gentle)
    first = next(look for look in looks if look.hops == hops and look.is_average)
    held_out = len(valid) if len(valid) >= FEW_VALID else len(train) + len(valid)
    most = max(look.accuracy for look in looks)
    error = float(np.sqrt(most * (1 - most) / held_out))

    def beyond_noise(look: Look) -> float:
        is_alike = look.is_average and look.data.reduce == data.reduce
        is_alike &= (look.hops > 0) == (first.hops > 0)
        margin = 0.0 if look is first else NOISE if is_alike else WIDE_NOISE
        return look.accuracy - margin * error

    chosen = max(looks, key=beyond_noise)
    tables = {
        **usual,
        "encoder": {"name": "ssgc" if chosen.hops else "mlp"},
        "propagation": {"hops": chosen.hops},
        "data": {**usual.get("data", {}), "scale": chosen.data.scale},
    }
    if not chosen.is_average:
        tables["encoder"]["mixture"] = "last"
        if chosen.data.scale != "tfidf":  # far hops of dense features differ by little
            tables["encoder"]["input_norm"] = "batch"
    if chosen.data.reduce == "svd":
        tables["data"] |= {"reduce": "svd", "reduce_to": chosen.data.reduce_to}
    best = sorted(looks, key=lambda look: -look.accuracy)[:SHOWN]
    shown = f"of {len(looks)} looks the best: {', '.join(map(str, best))}"
    if not is_scarce and chosen.hops:
        labeled = _look_with_labels(graph, chosen, train, valid, seed)
        if labeled is not None and labeled > chosen.accuracy + NOISE * error:
            tables["propagation"]["label_hops"] = LABEL_HOPS
            tables["encoder"]["label_layers"] = LABEL_LAYERS
            shown += f"; with labels of {LABEL_HOPS} hops {100 * labeled:.1f}%"
    if is_strange:
        shown += "; neighbors have the same class no more often than by chance"
    scored = f"a linear model, scored on {held_out:,} held-out labels"
    return Choice(tables, f"{chosen} by {scored}; {shown}")


def _neighbors_disagree(graph: Graph, nodes: NDArray[np.int64]) -> bool:
    """Whether neighbors of known classes have the same one no more often than by chance.

    Neighbors of some nodes are asked, which are of known classes themselves.
    """
    classes = np.full(graph.num_nodes, -1, dtype=np.int64)
    for known in (graph.train, graph.valid):
        classes[known] = graph.labels[known]
    first = np.asarray(graph.indptr)[nodes]
    counts = np.asarray(graph.indptr)[nodes + 1] - first
    places = np.arange(counts.sum()) + np.repeat(first - np.cumsum(counts) + counts, counts)
    own, others = np.repeat(classes[nodes], counts), classes[np.asarray(graph.indices[places])]
    own, others = own[others >= 0], others[others >= 0]
    if len(own) < 2 * FEW_PAIRS:
        return False
    shares = [np.bincount(ends, minlength=graph.num_classes) / len(own) for ends in (own, others)]
    chance = float(shares[0] @ shares[1])
    error = float(np.sqrt(chance * (1 - chance) / (len(own) / 2)))  # most pairs are there twice
    return float((own == others).mean()) < chance + CHANCE_ERRORS * error


def _some(nodes: NDArray[np.int64], columns: int, seed: int) -> NDArray[np.int64]:
    """So many nodes of a split as are looked at, drawn at random."""
    most = min(MOST_NODES, max(MOST_VALUES // (columns * (max(AVERAGED_HOPS) + 1)), 100)) // 2
    return np.random.default_rng(seed).permutation(nodes)[:most]


def _looks(
    graph: Graph,
    data: FeatureConfig,
    train: NDArray[np.int64],
    valid: NDArray[np.int64],
    seed: int,
) -> Iterator[Look]:
    """Score every average; nothing if there are too few labels."""
    nodes = np.concatenate([train, valid])
    features = fit_features(graph.features, data).transform(graph.features)
    mixtures = [(count, True) for count in AVERAGED_HOPS] + [(hop, False) for hop in LAST_HOPS]
    mixed = _mixed(graph, features, nodes, mixtures)
    for (count, is_average), rows in zip(mixtures, mixed, strict=True):
        accuracy = _held_out_accuracy(rows, graph.labels[nodes], len(train), seed)
        if accuracy is not None:
            yield Look(data, count, accuracy, is_average)


def _look_with_labels(
    graph: Graph, chosen: Look, train: NDArray[np.int64], valid: NDArray[np.int64], seed: int
) -> float | None:
    """Score what was chosen with propagated labels of training nodes beside it."""
    nodes = np.concatenate([train, valid])
    features = fit_features(graph.features, chosen.data).transform(graph.features)
    rows = _mixed(graph, features, nodes, [(chosen.hops, chosen.is_average)])[0]
    config = PropagationConfig(hops=0, label_hops=LABEL_HOPS)
    labels = label_hops(graph, config, seed=seed, rows=nodes).reshape(len(nodes), -1)
    spread = np.linalg.norm(rows - rows.mean(axis=0)) / np.sqrt(len(rows))
    labels -= labels.mean(axis=0)
    labels *= spread / max(np.linalg.norm(labels) / np.sqrt(len(rows)), 1e-12)
    both = np.concatenate([rows, labels], axis=1)
    return _held_out_accuracy(both, graph.labels[nodes], len(train), seed)


def _mixed(
    graph: Graph,
    features: NDArray[np.floating[Any]],
    nodes: NDArray[np.int64],
    mixtures: Sequence[tuple[int, bool]],
) -> list[NDArray[np.float32]]:
    """Mixtures of the hops of some nodes, rows of length 1: averages, or a hop alone."""
    order, most = np.argsort(nodes), max(count for count, _ in mixtures)
    hops = np.asarray(
        propagate(graph, most, "sym", self_loops=True, features=features, rows=nodes[order])
    )
    array = np.empty_like(hops)
    array[order] = hops
    mixed = []
    for count, is_average in mixtures:
        rows = array[:, : count + 1].mean(axis=1) if is_average else array[:, count].copy()
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        mixed.append(rows)
    return mixed


def _held_out_accuracy(
    rows: NDArray[np.float32], labels: NDArray[np.int64], train: int, seed: int
) -> float | None:
    """Of a logistic regression on the validation nodes, which come after so many training nodes.

    Where they are few, on folds of all; none if there are too few labels.
    """
    if len(rows) - train >= FEW_VALID and len(np.unique(labels[:train])) > 1:
        parts = [(np.arange(train), np.arange(train, len(rows)))]
        return linear_accuracy(rows, labels, parts)
    held_out = cross_validate(rows, labels, seed=seed)
    return None if held_out is None else held_out.accuracy
