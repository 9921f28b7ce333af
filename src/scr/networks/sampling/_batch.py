"""What every sampler gives: some nodes, the edges between them, and where both are in the graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.errors import SCRError


@dataclass(frozen=True, eq=False, kw_only=True)
class SubgraphBatch:
    """A part of a graph with node numbers of its own, 0 to `num_nodes` - 1.

    Where the batch comes from sampled neighbors, layer l of a GNN of L layers (l = 0 reads the
    features) needs the first ``layer_nodes[l]`` rows and the first ``layer_edges[l]`` edges, and
    gives the first ``layer_nodes[l + 1]`` rows; ``layer_nodes[L]`` is the number of seeds.
    """

    nodes: NDArray[np.int64]
    """The node of the graph behind each row, seeds first. Shape (nodes,)."""
    indptr: NDArray[np.int64]
    """Where each row's neighbors begin. Shape (nodes + 1,)."""
    indices: NDArray[np.int32]
    """Row i lists the rows j that node i receives from. Shape (edges,)."""
    edges: NDArray[np.int64]
    """Place of each edge in the graph's own ``indices``: ``graph.weights[batch.edges]``."""
    num_seeds: int
    """How many of the rows were asked for; the others are there for their sake."""
    edge_weight: NDArray[np.float32] | None = None
    """Factor of each edge that makes a sum over a row's edges an unbiased estimate of the sum over
    all edges of that node; none: 1. It does not include the weights of the graph."""
    node_weight: NDArray[np.float32] | None = None
    """Factor of each node that makes a sum over the seeds an unbiased estimate of the sum over all
    nodes; none: 1."""
    layer_nodes: tuple[int, ...] = ()
    """Rows that each layer reads, then the rows of the result; empty: every layer reads all."""
    layer_edges: tuple[int, ...] = ()
    """Edges that each layer sums over; empty: all."""

    @property
    def num_nodes(self) -> int:
        """How many nodes are in the batch."""
        return len(self.nodes)

    @property
    def num_edges(self) -> int:
        """How many edges are in the batch."""
        return len(self.indices)

    def edge_index(self) -> NDArray[np.int64]:
        """Edges as PyG has them, in the order of `edges`: a row of sources, a row of targets.

        The target is the node that receives. Shape (2, edges).
        """
        targets = np.repeat(np.arange(self.num_nodes), np.diff(self.indptr))
        return np.stack([self.indices.astype(np.int64), targets])

    def to_pyg(self) -> Any:
        """A torch_geometric ``Data`` with the names that PyG's ``NeighborLoader`` gives.

        It has ``edge_index`` (source to target), ``n_id``, ``e_id``, ``batch_size``, ``input_id``
        (the seeds), and where there are any ``edge_weight``, ``node_weight``,
        ``num_sampled_nodes`` and ``num_sampled_edges`` (for ``trim_to_layer``). Features are left
        to the caller: ``data.x = features[data.n_id]``.

        Raises:
            SCRError: torch_geometric is not installed.
        """
        try:
            from torch_geometric.data import Data
        except ImportError as error:
            raise SCRError(
                "`to_pyg` needs torch_geometric, which cannot be imported",
                hint="install it with `pip install torch-geometric`",
            ) from error
        import torch

        nodes = torch.from_numpy(self.nodes)
        data = Data(
            edge_index=torch.from_numpy(self.edge_index()), num_nodes=self.num_nodes, n_id=nodes,
            e_id=torch.from_numpy(self.edges), batch_size=self.num_seeds,
            input_id=nodes[: self.num_seeds],
        )  # fmt: skip
        if self.edge_weight is not None:
            data.edge_weight = torch.from_numpy(self.edge_weight)
        if self.node_weight is not None:
            data.node_weight = torch.from_numpy(self.node_weight)
        if self.layer_nodes:
            data.num_sampled_nodes = _per_hop(self.layer_nodes)
            data.num_sampled_edges = _per_hop((*self.layer_edges, 0))[1:]
        return data


def _per_hop(totals: tuple[int, ...]) -> list[int]:
    """What each hop adds, from the seeds outwards."""
    outwards = totals[::-1]
    return [outwards[0], *(int(more) for more in np.diff(outwards))]
