"""GRAND's random propagation: features of some nodes are dropped, then hops are mixed as ever.

Paper: Feng et al. 2020, "Graph Random Neural Networks for Semi-Supervised Learning on Graphs",
arXiv:2005.11079.

Every view of every training step is a propagation of its own, over the whole graph. So what does
not change is prepared once: the values of the normalized adjacency, and the features in tiles of a
few columns that stay in the cache through all hops. A mixture is evaluated from its last hop inward
(Horner's rule):

    sum_k w_k A^k X = w_0 X + A (w_1 X + A (w_2 X + ...))

In memory, the features of a tile lie between two places for hops, which take turns. A node has an
edge to its own features, with the weight of the hop, beside those to the hop of its neighbors: so
each hop is one product and no running sum is needed.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scr.compute import aligned_empty, check_memory, memory_budget, read_only, run_on_threads
from scr.errors import ConfigError
from scr.propagation._config import PropagationConfig
from scr.propagation._engine import check_features
from scr.propagation._steps import unit_rows
from scr.propagation._walks import adjacency_of, ways_of
from scr.propagation.kernel._vector import LANES, SHAPES, sum_rows

if TYPE_CHECKING:
    from scr.graph import Graph

TILE = 32
"""Columns that go through all hops together; narrower tiles read the edges more often, and wider
ones leave the cache. Measured for Cora and PubMed."""
EDGE_BYTES = 8
"""Of a stored edge: its value, and where it leads to."""
_NO_SCALES = read_only(np.zeros(0, np.float32))


class _Hop(NamedTuple):
    """Edges in CSR form, from nodes to rows of a tile's memory; none can be written to."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: NDArray[np.float32]


class _Walk(NamedTuple):
    """One way along the edges: what is multiplied hop by hop, the farthest first."""

    hops: tuple[_Hop, ...]
    last: np.float32
    """Weight of the farthest hop."""


class RandomPropagation:
    """Mixtures of the hops of one graph, each with the features of other nodes dropped."""

    def __init__(
        self,
        graph: Graph,
        config: PropagationConfig,
        weights: Sequence[float] | NDArray[Any],
        features: Any = None,
        *,
        memory: str | int = "auto",
    ) -> None:
        """Prepare what all mixtures share.

        Args:
            graph: Its edges are copied, with their normalized values.
            config: How features are propagated. Rows of the mixture may be scaled, but not those
                of each hop: such a mixture is not linear in the features.
            weights: One per matrix that `propagate` would return, hop 0 first.
            features: X, as for `propagate`.
            memory: Most memory to use.
        """
        if config.hop_scale != "none":
            raise ConfigError(
                "propagation.hop_scale", config.hop_scale, "`none` with random propagation",
                hint="`propagation.row_scale` scales the mixture instead",
            )  # fmt: skip
        source = check_features(graph, features)
        self.nodes, self.columns = int(source.shape[0]), int(source.shape[1])
        self.unit = config.row_scale == "unit"
        # Before anything is copied: features twice, edges for each hop.
        needed = 8 * self.nodes * self.columns + EDGE_BYTES * graph.num_edges * config.hops
        check_memory(
            f"Random propagation of {self.nodes:,} nodes x {self.columns:,} columns needs",
            needed, memory_budget(memory),
            hint="`scr` propagates nothing in training; or reduce the columns (`data.reduce`)",
        )  # fmt: skip
        self._tiles = _tiles(source)
        self._walks = _walks(graph, config, np.asarray(weights, np.float32))
        self._memory = threading.local()

    def mixture(
        self, scale: NDArray[np.float32], rows: NDArray[np.int64], *, threads: int | None = None
    ) -> NDArray[np.float32]:
        r"""Some rows of the mixture of hops of scaled features, shape (rows, columns).

        Equation: GRAND, random propagation (docs/equations.md#random-propagation)
            sum_k w_k A^k diag(z) X

        Args:
            scale: z, a factor for each node: see `drop_node`.
            rows: Nodes whose rows are wanted, in any order.
            threads: Cores to use; all by default. The result does not depend on it.
        """
        out = np.empty((len(rows), self.columns), np.float32)

        def run(tile: int) -> None:
            made = out[:, tile * TILE : (tile + 1) * TILE]
            for place, walk in enumerate(self._walks):
                taken = self._walked(walk, self._tiles[tile], scale).take(rows, axis=0)
                taken = taken[:, : made.shape[1]]
                np.copyto(made, taken if place == 0 else made + taken)

        run_on_threads(run, list(range(len(self._tiles))), threads)
        if self.unit:
            unit_rows(out, threads=threads)
        return out

    def _walked(
        self, walk: _Walk, tile: NDArray[np.float32], scale: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """One tile of one walk, in memory that the next call writes over."""
        if not hasattr(self._memory, "room"):
            # For each thread; fresh memory would cost more than the sums.
            self._memory.room = aligned_empty((3 * self.nodes, TILE), "float32")
        room: NDArray[np.float32] = self._memory.room
        hop, features, other = np.split(room, 3)
        np.multiply(tile, scale[:, np.newaxis], out=features)
        np.multiply(features, walk.last, out=hop)
        read = read_only(room.reshape(-1))  # as `kernel.product` has it: compiled once for both
        shape = SHAPES.index((LANES, TILE // LANES))
        for indptr, indices, values in walk.hops:
            sum_rows(
                indptr, 0, 0, self.nodes, indices, values, read, TILE, 0, shape, TILE - LANES,
                False, _NO_SCALES, other.reshape(-1), TILE,
            )  # fmt: skip
            hop, other = other, hop
        return hop


def drop_node(keep: NDArray[np.bool_], chance: float) -> NDArray[np.float32]:
    r"""DropNode: features of some nodes become 0, those of the others grow, so that the mean stays.

    Equation: GRAND, DropNode (docs/equations.md#drop-node)
        z_i = keep_i / (1 - delta)

    The authors' code lets none grow in training and shrinks all by 1 - delta in prediction: the
    same network with its first weights multiplied by a constant.

    Args:
        keep: Which nodes keep their features.
        chance: delta, with which a node was not kept, in [0, 1).
    """
    return (keep / (1 - chance)).astype(np.float32)


def _tiles(source: Any) -> NDArray[np.float32]:
    """The features as (tiles, nodes, columns of a tile), the last tile filled up with 0."""
    nodes, columns = source.shape
    tiles = np.zeros((-(-columns // TILE), nodes, TILE), np.float32)
    for place, tile in enumerate(tiles):
        part = source[:, place * TILE : (place + 1) * TILE]
        tile[:, : part.shape[1]] = part if isinstance(part, np.ndarray) else part.toarray()
    return tiles


def _walks(graph: Graph, config: PropagationConfig, weights: NDArray[np.float32]) -> list[_Walk]:
    """One for each way, hop 0 in the first of them alone."""
    walks: list[_Walk] = []
    for way in ways_of(config):
        own = np.zeros(1, np.float32) if walks else weights[:1]
        factors = np.concatenate([own, weights[way.places.start : way.places.stop]])
        matrix = adjacency_of(graph, config, way).to_scipy()
        hops = [_hop(matrix, factor, turn % 2) for turn, factor in enumerate(factors[-2::-1])]
        walks.append(_Walk(tuple(hops), factors[-1]))
    return walks or [_Walk((), weights[0])]


def _hop(adjacency: sp.csr_array, factor: np.float32, turn: int) -> _Hop:
    """A h + factor x, where the memory holds h, x and the result, or the result, x and h."""
    own = sp.eye_array(adjacency.shape[0], format="csr") * factor
    nothing = sp.csr_array(adjacency.shape)
    parts = [adjacency, own, nothing] if turn == 0 else [nothing, own, adjacency]
    both = sp.csr_array(sp.hstack(parts, format="csr"))
    types = ((both.indptr, np.int64), (both.indices, np.int32), (both.data, np.float32))
    return _Hop(*(read_only(array.astype(kind)) for array, kind in types))
