"""Generated graphs of mixed communities, on which networks are often right but not always.

Every node belongs to one community, and edges mostly stay within a community. Some communities are
of one class; in mixed ones half of the nodes are of a second class of similar features, so that
neighbors alone cannot tell a node's class there, and its own features, which are noisy, must.
Popular nodes have more edges and are labeled first, as in OGB's splits by sales rank and by year:
training nodes have more neighbors than test nodes.

`_model.py` has graphs of any size, streamed to disk, whose classes are of one size and whose nodes
are of one type. Reads a `CommunityConfig`, makes a `Graph` in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.config import check
from scr.graph import Graph

_STREAMS = (
    "communities", "popularity", "classes", "mixtures", "noise", "features", "splits", "edges",
)  # fmt: skip
"""Purposes of random numbers, which are kept apart: one more column changes no edge."""


@dataclass(frozen=True, kw_only=True)
class Links:
    """The edges of one relation."""

    source: str
    name: str
    target: str
    edges: int
    """Edges drawn; self-loops are dropped and repeated edges merged afterwards."""
    within: float
    """Share of the edges whose ends are of one community; the others end anywhere."""


@dataclass(frozen=True, kw_only=True)
class CommunityConfig:
    """What kind of graph to make."""

    name: str
    nodes: int
    """Nodes with features and labels."""
    target: str = "node"
    """Their type."""
    others: Mapping[str, int] = field(default_factory=dict)
    """Nodes of types without features and labels."""
    links: tuple[Links, ...]
    """Relations between the types."""
    directed: bool = False
    """Keep the directions of a single relation: edges go from the less popular to the more popular
    node, as from new papers to old ones."""
    features: int
    classes: int
    class_exponent: float
    """Class c is (c + 1)^-exponent times as large as the largest one, but every class has a
    community of its own."""
    groups: int
    """Groups of similar classes."""
    likeness: float
    """Cosine between mean feature vectors of one group."""
    prototypes: int
    """Mean feature vectors of a class; each of its nodes is around one of them."""
    communities: int
    mixed: float
    """Share of the communities whose nodes are of two classes of one group, half of them each."""
    label_noise: float
    """Share of the nodes whose label is drawn anew from all classes."""
    signal: float
    """Length of mean feature vectors, where the noise of every feature is 1."""
    popularity: float = 0.8
    """Standard deviation of the logarithm of expected degrees."""
    train: int
    valid: int
    test: int
    """Nodes of the splits, in this order from popular ones to others; labels of all other nodes
    are left out."""
    seed: int = 0

    def __post_init__(self) -> None:
        check(self.classes >= 2, "classes", self.classes, "2 or more")
        check(self.communities >= self.classes, "communities", self.communities,
              "as many as classes, or more")  # fmt: skip
        check(self.nodes >= self.communities, "nodes", self.nodes, "as many as communities")
        splits = (self.train, self.valid, self.test)
        check(min(splits) >= 1 and sum(splits) <= self.nodes, "train", self.train,
              "splits of 1 node or more, and no more than nodes together")  # fmt: skip
        check(1 <= self.groups <= self.classes, "groups", self.groups, "from 1 to the classes")
        within = [each.within for each in self.links]
        shares = (self.mixed, self.likeness, self.label_noise, *within)
        check(all(0 <= share <= 1 for share in shares), "mixed", shares, "shares from 0 to 1")

    def step(self) -> str:
        """What was done, in words, for the record."""
        return (
            f"generated {self.communities:,} communities, {self.mixed:.0%} of them of two classes, "
            f"with class exponent {self.class_exponent:g}, {self.groups:,} groups of classes of "
            f"likeness {self.likeness:g}, feature signal {self.signal:g}, label noise "
            f"{self.label_noise:g} and seed {self.seed}"
        )

    def generator(self, purpose: str) -> np.random.Generator:
        """Random numbers for one purpose."""
        return np.random.default_rng([self.seed, _STREAMS.index(purpose)])

    def class_shares(self) -> NDArray[np.float64]:
        """The share of the nodes that each class is given. Shape (classes,)."""
        sizes = np.arange(1, self.classes + 1) ** -self.class_exponent
        return np.asarray(sizes / sizes.sum())


class _Members:
    """Nodes of one type in the order of their communities, drawn in proportion to popularity."""

    def __init__(self, community: NDArray[np.int64], popularity: NDArray[np.float64]) -> None:
        self.community = community
        self.order = np.argsort(community, kind="stable")
        self.reach = np.concatenate([[0.0], np.cumsum(popularity[self.order])])

    def draw(
        self, chances: NDArray[np.float64], communities: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        """A node per chance in [0, 1), of all nodes or of a given community each."""
        low, high = np.zeros(len(chances)), np.full(len(chances), self.reach[-1])
        if communities is not None:
            ranked = self.community[self.order]
            first = np.searchsorted(ranked, communities, side="left")
            last = np.searchsorted(ranked, communities, side="right")
            own = last > first  # a small type may have no node in some community: then any will do
            low[own], high[own] = self.reach[first[own]], self.reach[last[own]]
        positions = np.searchsorted(self.reach, low + chances * (high - low), side="right") - 1
        return np.asarray(self.order[np.minimum(positions, len(self.order) - 1)])


def community_graph(config: CommunityConfig) -> Graph:
    """Make a graph; equal configs make equal graphs."""
    counts = {config.target: config.nodes, **config.others}
    members, seniority = {}, np.zeros(0)
    membership, popular = config.generator("communities"), config.generator("popularity")
    for kind, count in counts.items():
        logs = popular.standard_normal(count)
        community = membership.integers(0, config.communities, count)
        members[kind] = _Members(community, np.exp(config.popularity * logs))
        if kind == config.target:
            seniority = logs + popular.standard_normal(count)
    # The classes that features are drawn by.
    half = config.generator("mixtures").integers(0, 2, config.nodes)
    classes = _community_classes(config)[members[config.target].community, half]
    splits = _splits(config, seniority)
    labels = np.full(config.nodes, -1, np.int64)
    known = np.concatenate(list(splits.values()))
    labels[known] = _noisy_labels(config, classes)[known]
    edges = config.generator("edges")
    relations = {}
    for links in config.links:
        sources, targets = _draw_edges(links, members[links.source], members[links.target], edges)
        if links.source == links.target:  # from the less senior to the more senior
            turned = seniority[sources] > seniority[targets]
            sources, targets = np.where(turned, [targets, sources], [sources, targets])
        relations[links.source, links.name, links.target] = np.stack([sources, targets])
    return Graph.from_relations(
        relations,
        {config.target: _features(config, classes)},
        labels,
        config.target,
        num_nodes=counts,
        undirected=not config.directed,
        class_names=[str(number) for number in range(config.classes)],
        name=config.name,
        steps=(config.step(),),
        **splits,
    )


def _community_classes(config: CommunityConfig) -> NDArray[np.int64]:
    """Both classes of every community, which are equal in most. Shape (communities, 2)."""
    generator, shares = config.generator("classes"), config.class_shares()
    # One community per class; the others are shared out by where the middles of equal parts fall.
    others = config.communities - config.classes
    middles = (np.arange(others) + 0.5) / max(others, 1)
    first = np.concatenate(
        [np.arange(config.classes), np.searchsorted(np.cumsum(shares), middles)]
    ).clip(max=config.classes - 1)
    alike = (first[:, None] - np.arange(config.classes)) % config.groups == 0
    chances = np.cumsum(alike * shares, axis=1)
    drawn = generator.random(config.communities) * chances[:, -1]
    second = (chances <= drawn[:, None]).sum(axis=1)
    is_mixed = generator.random(config.communities) < config.mixed
    return np.stack([first, np.where(is_mixed, second, first)], axis=1)


def _noisy_labels(config: CommunityConfig, classes: NDArray[np.int64]) -> NDArray[np.int64]:
    generator = config.generator("noise")
    wrong = generator.random(config.nodes) < config.label_noise
    drawn = generator.choice(config.classes, config.nodes, p=config.class_shares())
    return np.where(wrong, drawn, classes)


def _features(config: CommunityConfig, classes: NDArray[np.int64]) -> NDArray[np.float32]:
    """One of the means of the class plus normal noise."""
    generator = config.generator("features")
    common = generator.standard_normal((config.groups, config.features), dtype=np.float32)
    prototypes = config.classes * config.prototypes
    own = generator.standard_normal((prototypes, config.features), dtype=np.float32)
    group = np.arange(prototypes) // config.prototypes % config.groups
    means = np.sqrt(config.likeness) * common[group] + np.sqrt(1 - config.likeness) * own
    means *= config.signal / np.sqrt(config.features)
    noise = generator.standard_normal((config.nodes, config.features), dtype=np.float32)
    chosen = generator.integers(0, config.prototypes, config.nodes)
    noise += means[classes * config.prototypes + chosen]
    return noise


def _splits(config: CommunityConfig, seniority: NDArray[np.float64]) -> dict[str, Any]:
    """Nodes of the splits: drawn from all nodes, then ordered from senior ones to others."""
    sizes = {"train": config.train, "valid": config.valid, "test": config.test}
    labeled = config.generator("splits").permutation(config.nodes)[: sum(sizes.values())]
    ranked = labeled[np.argsort(-seniority[labeled], kind="stable")]
    cuts = np.cumsum(list(sizes.values()))[:-1]
    return dict(zip(sizes, np.split(ranked, cuts), strict=True))


def _draw_edges(
    links: Links, sources: _Members, targets: _Members, generator: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ends of the edges, numbered within their types."""
    starts = sources.draw(generator.random(links.edges))
    chances = generator.random(links.edges)
    inside = generator.random(links.edges) < links.within
    ends = targets.draw(chances)
    ends[inside] = targets.draw(chances[inside], sources.community[starts[inside]])
    return starts, ends
