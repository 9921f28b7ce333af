"""The graph that every later step reads: edges by row, features, labels, splits.

Nodes may be of several types, and edges of several relations (`_relations.py`). One type is the
target: labels, splits, ids and predictions are of its nodes, which are numbered first.

All arrays may be memory maps of a store, so nothing here copies or scans a whole array unless it
must. `Graph.from_edges` and its sisters convert and check what they are given; the constructor
itself trusts its arguments except for their lengths.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scr.errors import GraphError
from scr.graph import _construct, _export
from scr.graph._arrays import as_split
from scr.graph._edge_selection import relation_codes, select_edges
from scr.graph._pandas import from_pandas
from scr.graph._relations import ONE_RELATION, Relation
from scr.graph._store import fingerprint, write_store
from scr.graph._typed import from_relations
from scr.graph._validation import check_splits, warn_missing_classes

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd

SPLITS = ("train", "valid", "test")


def _no_nodes() -> NDArray[np.int64]:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Graph:
    """Nodes and edges of one or several types, with what is known of the nodes."""

    indptr: NDArray[np.int64]
    """Where each node's targets begin. Shape (nodes + 1,)."""
    indices: NDArray[np.int32] | NDArray[np.int64]
    """Row i lists the targets j of the edges i -> j, ascending. Shape (stored edges,)."""
    weights: NDArray[np.float32] | None = None
    """One weight per stored edge; none means that all are 1."""
    features: NDArray[Any] | sp.csr_array | None = None
    """Of the target nodes. Shape (targets, features), float32 or float16, dense or sparse."""
    labels: NDArray[Any]
    """Class of each target node, -1 where unknown. Shape (targets,). Or of several yes-or-no
    targets per node 0, 1, or -1 where unknown. Shape (nodes, targets), int8."""
    train: NDArray[np.int64] = dataclasses.field(default_factory=_no_nodes)
    """Numbers of the training nodes, ascending; empty where there is no split."""
    valid: NDArray[np.int64] = dataclasses.field(default_factory=_no_nodes)
    test: NDArray[np.int64] = dataclasses.field(default_factory=_no_nodes)
    class_names: tuple[str, ...] = ()
    ids: NDArray[Any] | None = None
    """The user's own names of the target nodes, int64 or text; none means 0, 1, 2..."""
    name: str = "graph"
    directed: bool = False
    """False where every edge is stored in both directions."""
    steps: tuple[str, ...] = ()
    """What was done to the source, in words."""
    path: Path | None = None
    """The store behind the arrays, if there is one."""
    features_file: Path | None = None
    """The file that was given instead of the source's own features, if there was one."""
    source: str | None = None
    """What `load_graph` read it from, a full path or a data set's name; none: made in memory, or
    read with options that the source does not know."""
    node_types: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Nodes of each type in the order of their numbers, the target type first."""
    relations: tuple[Relation, ...] = ONE_RELATION
    """Kinds of edges; each is stored along and against its direction."""
    edge_types: NDArray[np.uint8] | NDArray[np.uint16] | None = None
    """Code of each stored edge (`_relations.py`); none where there is a single relation."""
    other_features: Mapping[str, NDArray[Any] | sp.csr_array] = dataclasses.field(
        default_factory=dict
    )
    """Features of types other than the target, of those that have any."""

    def __post_init__(self) -> None:
        if not self.node_types:
            object.__setattr__(self, "node_types", {"node": self.num_nodes})
        if sum(self.node_types.values()) != self.num_nodes:
            raise GraphError(
                f"The types have {sum(self.node_types.values()):,} nodes together; "
                f"expected {self.num_nodes:,}, as many as there are rows of edges"
            )
        if self.edge_types is None and len(self.relations) > 1:
            raise GraphError(
                f"There are {len(self.relations)} relations but no codes of edges; expected both"
            )
        nodes = self.num_targets
        for what in ("labels", "features", "ids"):
            array = getattr(self, what)
            if array is not None and array.shape[0] != nodes:
                raise GraphError(
                    f"There are {array.shape[0]:,} rows of {what}; "
                    f"expected {nodes:,}, one for each node"
                )
        for what in ("indices", "weights", "edge_types"):
            array = getattr(self, what)
            if array is not None and array.shape != (self.num_edges,):
                raise GraphError(
                    f"There are {array.shape[0]:,} {what} of edges; expected {self.num_edges:,}"
                )

    def __repr__(self) -> str:
        splits = ", ".join(f"{name}={len(getattr(self, name)):,}" for name in SPLITS)
        types = ""
        if self.is_typed:
            types = f"types={dict(self.node_types)}, relations={len(self.relations)}, "
        classes = "targets" if self.is_multilabel else "classes"
        return (
            f"Graph({self.name!r}, nodes={self.num_nodes:,}, edges={self.num_edges:,}, {types}"
            f"features={self.num_features:,}, {classes}={self.num_classes:,}, {splits})"
        )

    @property
    def is_typed(self) -> bool:
        """Whether there are several types of nodes or several relations."""
        return len(self.node_types) > 1 or len(self.relations) > 1

    @property
    def is_multilabel(self) -> bool:
        """Whether nodes have several yes-or-no targets instead of one class."""
        return self.labels.ndim == 2

    @property
    def target(self) -> str:
        """The type whose nodes are classified."""
        return next(iter(self.node_types))

    @property
    def num_targets(self) -> int:
        """Nodes of the target type, which have the first numbers; all, where there is one type."""
        return next(iter(self.node_types.values()))

    def nodes_of(self, kind: str) -> range:
        """Numbers of the nodes of a type."""
        start = 0
        for name, count in self.node_types.items():
            if name == kind:
                return range(start, start + count)
            start += count
        known = ", ".join(self.node_types)
        raise GraphError(f"There is no type of nodes `{kind}`; expected one of {known}")

    def only(self, relations: Iterable[Any]) -> Graph:
        """The same nodes with the edges of some relations, in both directions, all alike.

        Args:
            relations: Names, `SOURCE:NAME:TARGET`, or triples; one of them, or several.
        """
        listed = [relations] if isinstance(relations, str) else list(relations)
        if tuple(listed) in self.relations:
            listed = [tuple(listed)]  # a triple by itself
        return select_edges(self, relation_codes(self, listed))

    def renamed(self, relation: Relation) -> Graph:
        """A graph of one relation with names of its own for its type and relation."""
        return dataclasses.replace(
            self, relations=(relation,), node_types={relation.source: self.num_nodes}
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
        """Columns of the target nodes' features, 0 where there are none."""
        return 0 if self.features is None else int(self.features.shape[1])

    @property
    def num_classes(self) -> int:
        """How many classes a node may have, or how many targets there are."""
        return len(self.class_names)

    def adjacency(self) -> sp.csr_array:
        """The adjacency matrix A of SciPy, float32; A[i, j] is the weight of the edge i -> j."""
        weights = self.weights
        if weights is None:
            weights = np.ones(self.num_edges, np.float32)
        shape = (self.num_nodes, self.num_nodes)
        return sp.csr_array((weights, self.indices, self.indptr), shape=shape)

    def to_scipy(self) -> sp.csr_array:
        """The adjacency matrix alone, in memory of its own; see `adjacency`."""
        return self.adjacency().copy()

    def to_networkx(self) -> nx.Graph[Any]:
        """A NetworkX graph with ids, features, labels, splits and weights.

        ``Graph.from_networkx(network, features="features", labels="label", split="split",
        weight="weight")`` reads it back; see `scr.graph._export.to_networkx`.
        """
        return _export.to_networkx(self)

    def to_pyg(self) -> Any:
        """A PyG ``Data``, or ``HeteroData`` if there are several types or relations.

        `from_pyg` reads it back; see `scr.graph._export.to_pyg`.
        """
        return _export.to_pyg(self)

    def with_split(self, train: Any, valid: Any = None, test: Any = None) -> Graph:
        """The same graph with other splits, each a mask, node numbers or none."""
        given = {"train": train, "valid": valid, "test": test}
        splits = {name: as_split(nodes, self.num_targets, name) for name, nodes in given.items()}
        splits = check_splits(splits, self.labels)
        graph = dataclasses.replace(self, **splits)  # type: ignore[arg-type]
        warn_missing_classes(graph)
        return graph

    def fingerprint(self, *parts: Literal["edges", "features", "labels", "splits"]) -> str:
        """Hash the content: equal for equal graphs, whether in memory or in a store.

        Args:
            parts: What to include; everything if nothing is named.
        """
        return fingerprint(self, parts or ("edges", "features", "labels", "splits"))

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write a store that `open_store` and `load_graph` read back."""
        return write_store(self, path, overwrite=overwrite)

    @classmethod
    def from_edges(cls, edge_index: Any, **settings: Any) -> Graph:
        """Make a graph from a list of edges; see `scr.graph._construct.from_edges`.

        Args:
            edge_index: Node numbers of shape (2, edges), or pairs; NumPy, torch, pandas, lists.
            **settings: ``features``, ``labels``, ``train``, ``valid``, ``test``, ``undirected``,
                ``weights``, ``num_nodes``, ``ids``, ``class_names``, ``name``, ``self_loops``,
                ``duplicates``.
        """
        _construct.refuse_directed(settings)
        return _construct.from_edges(cls, edge_index, **settings)

    @classmethod
    def from_relations(
        cls,
        relations: Mapping[Any, Any],
        features: Mapping[str, Any] | None = None,
        labels: Any = None,
        target: str | None = None,
        **settings: Any,
    ) -> Graph:
        """Make a graph of several types; see `scr.graph._typed.from_relations`.

        Args:
            relations: Edges of each ``(source type, name, target type)``.
            features: A matrix for each type that has features.
            labels: Classes of the target nodes.
            target: The type whose nodes are classified.
            **settings: ``num_nodes``, ``weights``, ``train``, ``valid``, ``test``, ``ids``,
                ``class_names``, ``name``, ``self_loops``, ``duplicates``.
        """
        return from_relations(cls, relations, features, labels, target, **settings)

    @classmethod
    def from_pandas(
        cls,
        edges: pd.DataFrame,
        nodes: pd.DataFrame | None = None,
        *,
        source: Hashable | None = None,
        target: Hashable | None = None,
        weight: Hashable | None = None,
        id: Hashable | None = None,  # noqa: A002  (as the column is called)
        label: Hashable | None = None,
        split: Hashable | None = None,
        features: Sequence[Hashable] | None = None,
        **settings: Any,
    ) -> Graph:
        """Make a graph from data frames of edges and nodes; see `scr.graph._pandas.from_pandas`.

        Args:
            edges: One row per edge, whose ends are ids of nodes.
            nodes: One row per node; none: the nodes are the ends of the edges.
            source: Column of edges; none: `source`, else the first one. Like it, the columns
                `target` and `weight`.
            target: Column of edges.
            weight: Column of edges.
            id: Column of nodes; none: `id`, else the index.
            label: Column of nodes; none: `label` if there is one. Like it, the column `split`.
            split: Column of nodes that says ``train``, ``valid`` or ``test``.
            features: Columns of nodes; none: all that are left, which must be numbers.
            **settings: As in `from_edges`.
        """
        return from_pandas(
            cls, edges, nodes, source=source, target=target, weight=weight, id_column=id,
            label=label, split=split, features=features, **settings,
        )  # fmt: skip

    @classmethod
    def from_scipy(cls, adjacency: Any, **settings: Any) -> Graph:
        """Make a graph from a square SciPy sparse matrix; settings as in `from_edges`."""
        return _construct.from_scipy(cls, adjacency, **settings)

    @classmethod
    def from_networkx(cls, network: nx.Graph[Any], **settings: Any) -> Graph:
        """Make a graph from NetworkX; features, labels and splits may name node attributes."""
        return _construct.from_networkx(cls, network, **settings)

    @classmethod
    def from_pyg(
        cls, data: Any, *, split: int = 0, target: str | None = None, **settings: Any
    ) -> Graph:
        """Make a graph from a PyG ``Data`` or ``HeteroData``, or anything with their attributes.

        Args:
            data: Has ``edge_index`` and perhaps ``x``, ``y``, ``edge_weight`` and masks.
            split: Which column to take where the masks are two-dimensional.
            target: Of a ``HeteroData``: the type whose nodes are classified; none: the only one
                with ``y``.
            **settings: Win over what ``data`` says.
        """
        return _construct.from_pyg(cls, data, split=split, target=target, **settings)

    @classmethod
    def from_features(cls, features: Any, k: int = 10, **settings: Any) -> Graph:
        """Link each row to its k nearest rows, for people who have no graph."""
        return _construct.from_features(cls, features, k, **settings)


def check_graph(graph: Any) -> Graph:
    """The graph itself, if it is one; else its kind is named, with what makes a graph of it."""
    if isinstance(graph, Graph):
        return graph
    ways = (
        (hasattr(graph, "edge_index") or hasattr(graph, "edge_types"), "Graph.from_pyg(data)"),
        (hasattr(graph, "is_directed"), "Graph.from_networkx(network)"),
        (hasattr(graph, "iloc"), "Graph.from_pandas(edges, nodes)"),
        (hasattr(graph, "tocsr"), "Graph.from_scipy(adjacency)"),
        (isinstance(graph, (str, Path)), "load_graph(source)"),
    )
    kind, hints = type(graph), [f"make one with `scr.{way}`" for is_kind, way in ways if is_kind]
    raise GraphError(
        f"The graph is a {kind.__module__.partition('.')[0]} `{kind.__name__}`; expected a "
        "`scr.Graph`",
        hint=hints[0] if hints else None,
    )
