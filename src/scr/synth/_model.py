"""Synthetic graphs of any size: a degree-corrected stochastic block model with features and labels.

Each edge picks a class, keeps it for its other end with the chance `homophily`, and picks both
ends within their classes by rank, where rank r is drawn in proportion to (r + 1)^(-1/(g - 1)): that
gives degrees a power law with exponent g (Karrer and Newman 2011). Features are a class mean plus
noise. Edge e is a function of the seed and of e alone (a counter-based random generator), and
ranks become node numbers by a keyed permutation that needs no table, so that chunks can be made in
any order and nothing but one chunk is in memory.

`_writer.py` streams the graph to disk, as a store or as shards, `_ogb_layout.py` as OGB does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scr.compute import map_in_order
from scr.config import check
from scr.sources import EdgeSource
from scr.synth._kernels import fill_edges, fill_labels, fill_parts

EDGE_CHUNK = 1 << 20
ROW_CHUNK = 1 << 16
"""Rows of features drawn by one generator: part of what a seed means, so never change it."""
_DRAWING_THREADS = 2
"""Threads that draw features: more than the disk can take from them is of no use."""

_STREAMS = {"edges": 1, "splits": 2, "permutation": 3, "means": 4, "noise": 5}
"""Keeps random numbers for different purposes apart."""


@dataclass(frozen=True, kw_only=True)
class SynthConfig:
    """What kind of graph to make."""

    nodes: int = 10_000
    edges: int = 100_000
    """Undirected edges drawn; self-loops are dropped and repeated edges merged afterwards."""
    classes: int = 10
    """Classes of equal size."""
    features: int = 128
    homophily: float = 0.8
    """Share of edges between nodes of one class."""
    signal: float = 1.0
    """Length of a class's mean feature vector, where the noise of every feature is 1."""
    label_fraction: float = 0.1
    """Share of nodes that train."""
    valid_fraction: float = 0.1
    """Share of nodes that validate."""
    test_fraction: float | None = None
    """Share of nodes that test; the labels of all nodes that do none of these are left out, as in
    ogbn-papers100M. None: the rest tests, and every node has a label."""
    shift: float = 0.0
    """How far classes differ between training and the rest: the last class is exp(2 * shift) times
    as likely to be labeled for training as the first one."""
    degree_exponent: float = 2.5
    """Of the power law of degrees; large values give nearly equal degrees."""
    dtype: Literal["float32", "float16"] = "float32"
    """Of the features."""
    seed: int = 0

    def __post_init__(self) -> None:
        check(2 <= self.nodes < 2**31, "nodes", self.nodes, "a number from 2 to 2,147,483,647")
        check(self.edges >= 1, "edges", self.edges, "1 or more")
        check(1 <= self.classes <= self.nodes, "classes", self.classes, "from 1 to the nodes")
        check(self.features >= 0, "features", self.features, "0 or more")
        check(0 <= self.homophily <= 1, "homophily", self.homophily, "a share from 0 to 1")
        check(self.signal >= 0, "signal", self.signal, "0 or more")
        check(0 < self.label_fraction < 1, "label_fraction", self.label_fraction, "in (0, 1)")
        check(0 <= self.valid_fraction < 1, "valid_fraction", self.valid_fraction, "in [0, 1)")
        tests = self.test_fraction is None or 0 <= self.test_fraction < 1
        check(tests, "test_fraction", self.test_fraction, "in [0, 1), or none")
        check(self.degree_exponent > 2, "degree_exponent", self.degree_exponent, "above 2")
        check(0 <= self.seed < 2**32, "seed", self.seed, "a number from 0 to 4,294,967,295")
        most = float(self.train_chances().max()) + self.valid_fraction + (self.test_fraction or 0)
        check(most <= 1, "shift", self.shift, "a smaller shift or smaller fractions: one class "
              f"would have to train, validate or test on {most:.0%} of its nodes")  # fmt: skip

    def train_chances(self) -> NDArray[np.float64]:
        """The chance of a node of each class to be a training node. Shape (classes,)."""
        tilt = np.exp(self.shift * np.linspace(-1, 1, self.classes))
        chances: NDArray[np.float64] = self.label_fraction * tilt / tilt.mean()
        return chances

    def step(self) -> str:
        """What was done, in words, for the record."""
        hidden = "" if self.test_fraction is None else ", labels outside the splits left out"
        return (
            f"drew {self.edges:,} edges of a degree-corrected block model with homophily "
            f"{self.homophily:g}, degree exponent {self.degree_exponent:g}, feature signal "
            f"{self.signal:g}, label shift {self.shift:g} and seed {self.seed}{hidden}"
        )

    def class_names(self) -> tuple[str, ...]:
        """Names of the classes: their numbers."""
        return tuple(str(number) for number in range(self.classes))

    def key(self, stream: str) -> np.uint64:
        """The key of one stream of random numbers."""
        sequence = np.random.SeedSequence([self.seed, _STREAMS[stream]])
        return np.uint64(sequence.generate_state(1, np.uint64)[0])


class SynthEdges(EdgeSource):
    """Edges that are drawn whenever they are read, the same each time."""

    dtype = np.dtype(np.int32)

    def __init__(self, config: SynthConfig) -> None:
        self._config, self.num_edges = config, config.edges

    def chunks(self, size: int = EDGE_CHUNK, start: int = 0) -> Iterator[NDArray[np.int32]]:
        """Draw the edges from number `start` on, so many at a time. Shape (2, size)."""
        config = self._config
        for first in range(start, config.edges, size):
            edges = np.empty((2, min(size, config.edges - first)), np.int32)
            fill_edges(
                edges, first, config.nodes, config.classes, config.homophily,
                1 - 1 / (config.degree_exponent - 1), config.key("edges"),
                config.key("permutation"),
            )  # fmt: skip
            yield edges


class SynthNodes(NamedTuple):
    """What is drawn for the nodes, but for their features."""

    classes: NDArray[np.int64]
    """Of every node, hidden ones included."""
    labels: NDArray[Any]
    """What a reader of the graph sees: all classes, or those of the splits and -1 elsewhere."""
    splits: dict[str, NDArray[np.int64]]
    """Node numbers of train, valid and test."""


def draw_nodes(config: SynthConfig) -> SynthNodes:
    """Draw classes and splits."""
    classes, part = np.empty(config.nodes, np.int64), np.empty(config.nodes, np.int8)
    fill_labels(classes, config.nodes, config.classes, config.key("permutation"))
    rest = 1.0 if config.test_fraction is None else config.test_fraction
    chances = config.train_chances()
    fill_parts(part, classes, chances, config.valid_fraction, rest, config.key("splits"))
    splits = {
        name: np.flatnonzero(part == code) for code, name in enumerate(("train", "valid", "test"))
    }
    if config.test_fraction is None:
        return SynthNodes(classes, classes, splits)
    # A hundred million labels of a few classes: 2 bytes each instead of 8.
    kind = np.int16 if config.classes <= np.iinfo(np.int16).max else np.int32
    labels = np.full(config.nodes, -1, kind)
    for nodes in splits.values():
        labels[nodes] = classes[nodes]
    return SynthNodes(classes, labels, splits)


def feature_blocks(
    config: SynthConfig, classes: NDArray[np.int64], start: int = 0
) -> Iterator[NDArray[Any]]:
    """Draw the features, `ROW_CHUNK` rows at a time: the mean of the class plus normal noise.

    Blocks, of which `start` is the first, have random streams of their own, so the next ones are
    drawn by other threads while the caller writes this one.
    """
    if config.features == 0:
        return
    means = _generator(config, "means", 0).standard_normal((config.classes, config.features))
    means = (means * config.signal / np.sqrt(config.features)).astype(np.float32)
    yield from map_in_order(
        lambda block: _feature_block(config, classes, means, block),
        range(start, -(-config.nodes // ROW_CHUNK)),
        threads=_DRAWING_THREADS, ahead=_DRAWING_THREADS + 1,
    )  # fmt: skip


def _feature_block(
    config: SynthConfig, classes: NDArray[np.int64], means: NDArray[np.float32], block: int
) -> NDArray[Any]:
    rows = classes[block * ROW_CHUNK : (block + 1) * ROW_CHUNK]
    noise = _generator(config, "noise", block).standard_normal(
        (len(rows), config.features), dtype=np.float32
    )
    noise += means[rows]
    return noise.astype(config.dtype, copy=False)


def _generator(config: SynthConfig, stream: str, block: int) -> np.random.Generator:
    return np.random.Generator(np.random.SFC64([config.seed, _STREAMS[stream], block]))
