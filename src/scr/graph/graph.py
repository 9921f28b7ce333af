"""The graph that every later step reads: edges by row, features, labels, splits.

All arrays may be memory maps of a store, so nothing here copies or scans a whole array unless it
must. `Graph.from_edges` and its sisters convert and check what they are given; the constructor
itself trusts its arguments except for their lengths.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scr.errors import GraphError
from scr.graph.arrays import as_split

if TYPE_CHECKING:
    import networkx as nx

SPLITS = ("train", "valid", "test")


def _no_nodes() -> NDArray[np.int64]:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Graph:
    """A graph of one node type and one relation, with what is known of its nodes."""

    indptr: NDArray[np.int64]
    """Where each node's targets begin. Shape (nodes + 1,)."""
    indices: NDArray[np.int32] | NDArray[np.int64]
    """Row i lists the targets j of the edges i -> j, ascending. Shape (stored edges,)."""
    weights: NDArray[np.float32] | None = None
    """One weight per stored edge; none means that all are 1."""
    features: NDArray[Any] | sp.csr_array | None = None
    """Shape (nodes, features), float32 or float16, dense or sparse."""
    labels: NDArray[np.int64]
    """Class of each node, -1 where unknown. Shape (nodes,)."""
    train: NDArray[np.int64] = dataclasses.field(default_factory=_no_nodes)
    """Numbers of the training nodes, ascending; empty where there is no split."""
    valid: NDArray[np.int64] = dataclasses.field(default_factory=_no_nodes)
    test: NDArray[np.int64] = dataclasses.field(default_factory=_no_nodes)
    class_names: tuple[str, ...] = ()
    ids: NDArray[Any] | None = None
    """The user's own names of the nodes, int64 or text; none means 0, 1, 2..."""
    name: str = "graph"
    directed: bool = False
    """False where every edge is stored in both directions."""
    steps: tuple[str, ...] = ()
    """What was done to the source, in words."""
    path: Path | None = None
    """The store behind the arrays, if there is one."""
    features_file: Path | None = None
    """The file that was given instead of the source's own features, if there was one."""

    def __post_init__(self) -> None:
        nodes = self.num_nodes
        for what in ("labels", "features", "ids"):
            array = getattr(self, what)
            if array is not None and array.shape[0] != nodes:
                raise GraphError(
                    f"There are {array.shape[0]:,} rows of {what}; "
                    f"expected {nodes:,}, one for each node"
                )
        for what in ("indices", "weights"):
            array = getattr(self, what)
            if array is not None and array.shape != (self.num_edges,):
                raise GraphError(
                    f"There are {array.shape[0]:,} {what} of edges; expected {self.num_edges:,}"
                )

    def __repr__(self) -> str:
        splits = ", ".join(f"{name}={len(getattr(self, name)):,}" for name in SPLITS)
        return (
            f"Graph({self.name!r}, nodes={self.num_nodes:,}, edges={self.num_edges:,}, "
            f"features={self.num_features:,}, classes={self.num_classes:,}, {splits})"
        )

    @property
    def num_nodes(self) -> int:
        """How many nodes there are."""
        return len(self.indptr) - 1

    @property
    def num_edges(self) -> int:
        """Stored edges: an undirected edge counts twice, a self-loop once."""
        return int(self.indptr[-1])

    @property
    def num_undirected_edges(self) -> int:
        """Pairs of nodes with an edge, in an undirected graph; stored edges in a directed one."""
        if self.directed:
            return self.num_edges
        sources = np.repeat(np.arange(self.num_nodes), np.diff(self.indptr))
        loops = int(np.count_nonzero(sources == self.indices))
        return (self.num_edges + loops) // 2

    @property
    def num_features(self) -> int:
        """Columns of the features, 0 where there are none."""
        return 0 if self.features is None else int(self.features.shape[1])

    @property
    def num_classes(self) -> int:
        """How many classes a node may have."""
        return len(self.class_names)

    def adjacency(self) -> sp.csr_array:
        """The adjacency matrix A of SciPy, float32; A[i, j] is the weight of the edge i -> j."""
        weights = self.weights
        if weights is None:
            weights = np.ones(self.num_edges, np.float32)
        shape = (self.num_nodes, self.num_nodes)
        return sp.csr_array((weights, self.indices, self.indptr), shape=shape)

    def with_split(self, train: Any, valid: Any = None, test: Any = None) -> Graph:
        """The same graph with other splits, each a mask, node numbers or none."""
        from scr.graph.validation import check_splits, warn_missing_classes

        given = {"train": train, "valid": valid, "test": test}
        splits = {name: as_split(nodes, self.num_nodes, name) for name, nodes in given.items()}
        splits = check_splits(splits, self.labels)
        graph = dataclasses.replace(self, **splits)  # type: ignore[arg-type]
        warn_missing_classes(graph)
        return graph

    def fingerprint(self, *parts: Literal["edges", "features", "labels", "splits"]) -> str:
        """Hash the content: equal for equal graphs, whether in memory or in a store.

        Args:
            parts: What to include; everything if nothing is named.
        """
        from scr.graph.store import fingerprint

        return fingerprint(self, parts or ("edges", "features", "labels", "splits"))

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write a store that `open_store` and `load_graph` read back."""
        from scr.graph.store import write_store

        return write_store(self, path, overwrite=overwrite)

    @classmethod
    def from_edges(cls, edge_index: Any, **settings: Any) -> Graph:
        """Make a graph from a list of edges; see `scr.graph.construct.from_edges`.

        Args:
            edge_index: Node numbers of shape (2, edges), or pairs; NumPy, torch, pandas, lists.
            **settings: ``features``, ``labels``, ``train``, ``valid``, ``test``, ``undirected``,
                ``weights``, ``num_nodes``, ``ids``, ``class_names``, ``name``, ``self_loops``,
                ``duplicates``.
        """
        from scr.graph.construct import from_edges

        return from_edges(edge_index, **settings)

    @classmethod
    def from_scipy(cls, adjacency: Any, **settings: Any) -> Graph:
        """Make a graph from a square SciPy sparse matrix; settings as in `from_edges`."""
        from scr.graph.construct import from_scipy

        return from_scipy(adjacency, **settings)

    @classmethod
    def from_networkx(cls, network: nx.Graph[Any], **settings: Any) -> Graph:
        """Make a graph from NetworkX; features, labels and splits may name node attributes."""
        from scr.graph.construct import from_networkx

        return from_networkx(network, **settings)

    @classmethod
    def from_pyg(cls, data: Any, *, split: int = 0, **settings: Any) -> Graph:
        """Make a graph from a PyG ``Data``; ``split`` picks a column of two-dimensional masks."""
        from scr.graph.construct import from_pyg

        return from_pyg(data, split=split, **settings)

    @classmethod
    def from_features(cls, features: Any, k: int = 10, **settings: Any) -> Graph:
        """Link each row to its k nearest rows, for people who have no graph."""
        from scr.graph.construct import from_features

        return from_features(features, k, **settings)
