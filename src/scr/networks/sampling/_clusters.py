"""ClusterGCN: cut the graph into parts once, then train on a few whole parts at a time.

Paper: Chiang et al. 2019, "Cluster-GCN: An Efficient Algorithm for Training Deep and Large Graph
Convolutional Networks", arXiv:1905.07953. Its stochastic multiple partitions (section 3.2) are
`ClusterSampler`: edges between the parts of one batch are kept.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from scr.compute import ends_of, read_only
from scr.errors import ConfigError, GraphError, SCRError
from scr.graph import Graph, as_numpy, check_graph
from scr.networks.sampling._batch import SubgraphBatch
from scr.networks.sampling._checks import check_count
from scr.networks.sampling._label_propagation import propagate_labels
from scr.networks.sampling._metis import metis_partition, symmetric_rows
from scr.networks.sampling._subgraph import LocalNumbers, induced_subgraph

Method = Literal["auto", "metis", "label-propagation", "random"]


def partition(
    graph: Graph, parts: int, method: Method = "auto", seed: int = 0
) -> NDArray[np.int32]:
    """Give each node to one of several parts of about equal size.

    Args:
        graph: Directed edges count both ways; weights do not count.
        parts: How many, at most as many as there are nodes.
        method: ``metis`` (needs the extra ``clusters``) or ``label-propagation`` keep neighbors
            together, ``random`` does not; ``auto`` is METIS where it works, and otherwise label
            propagation, with a warning. No part of the last two is empty or larger than one and a
            half times the average, rounded up to a node.
        seed: Of everything random.

    Returns:
        Numbers from 0 to `parts` - 1. Shape (nodes,).
    """
    check_graph(graph)
    if method not in get_args(Method):
        raise ConfigError("method", method, f"one of {', '.join(get_args(Method))}")
    if check_count("parts", parts) > graph.num_nodes:
        raise ConfigError("parts", parts, f"at most {graph.num_nodes:,}, one for each node")
    seed = check_count("seed", seed, least=0)
    if method == "random":
        order = np.random.default_rng(seed).permutation(graph.num_nodes)
        return (order * parts // graph.num_nodes).astype(np.int32)
    if method != "label-propagation":
        try:
            return metis_partition(graph, parts, seed)
        except SCRError as error:
            if method == "metis":
                raise
            warnings.warn(f"Parts are made by label propagation: {error.message}", stacklevel=2)
    indptr, indices = symmetric_rows(graph) if graph.directed else (graph.indptr, graph.indices)
    return propagate_labels(read_only(indptr), read_only(indices), parts, seed)


class ClusterSampler:
    """Gives the subgraphs that a few parts induce together; each epoch combines them anew."""

    def __init__(
        self,
        graph: Graph,
        membership: Any,
        clusters_per_batch: int = 1,
        seed: int = 0,
        *,
        threads: int | None = None,
    ) -> None:
        """Sort the nodes by part.

        Args:
            graph: Read by row: row i lists the nodes that node i receives from.
            membership: The part of each node, such as `partition` gives. Shape (nodes,).
            clusters_per_batch: Parts of a batch; the last batch of an epoch may have fewer.
            seed: Of the order of the parts.
            threads: Cores to use; none: as many as numba may use. The result does not depend on it.
        """
        self.graph, self.threads = check_graph(graph), threads
        self.seed = check_count("seed", seed, least=0)
        self.clusters_per_batch = check_count("clusters_per_batch", clusters_per_batch)
        numbers = as_numpy(membership)
        if numbers.shape != (graph.num_nodes,) or numbers.dtype.kind not in "iu":
            raise GraphError(
                f"The membership is of the type {numbers.dtype} and shape {numbers.shape}; "
                f"expected {graph.num_nodes:,} whole numbers, the part of each node"
            )
        # Parts without nodes, which METIS may leave, are not parts here.
        _, sizes = np.unique(numbers, return_counts=True)
        self._members, self._begins = np.argsort(numbers, kind="stable"), ends_of(sizes)
        self._numbers = LocalNumbers(graph.num_nodes)

    @property
    def num_clusters(self) -> int:
        """Parts that have nodes."""
        return len(self._begins) - 1

    def __len__(self) -> int:
        """Batches of an epoch."""
        return -(-self.num_clusters // self.clusters_per_batch)

    def epoch(self, number: int) -> Iterator[SubgraphBatch]:
        """The batches of an epoch; together they have every node once."""
        return (self.sample(number * len(self) + place) for place in range(len(self)))

    def sample(self, step: int) -> SubgraphBatch:
        """One batch; steps are counted through all epochs."""
        epoch, place = divmod(check_count("step", step, least=0), len(self))
        order = np.random.default_rng((self.seed, epoch)).permutation(self.num_clusters)
        first = place * self.clusters_per_batch
        clusters = order[first : first + self.clusters_per_batch]
        members = [self._members[self._begins[c] : self._begins[c + 1]] for c in clusters]
        # Ascending, so that rows of features are read in the order in which they lie.
        nodes = np.sort(np.concatenate(members))
        return induced_subgraph(self.graph, nodes, threads=self.threads, numbers=self._numbers)
