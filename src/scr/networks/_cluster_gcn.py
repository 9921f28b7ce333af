"""Cluster-GCN: GraphSAGE's layers, trained on parts of the graph that have few edges between them.

Paper: Chiang et al. 2019, "Cluster-GCN: An Efficient Algorithm for Training Deep and Large Graph
Convolutional Networks", arXiv:1905.07953. Layers are those of OGB's example for ogbn-products, in
which a node's own vector has a weight of its own, as the paper wants by other means (its eq. 10).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from scr.config import Count
from scr.networks._base import GraphEncoderConfig
from scr.networks._graphsage import GraphSAGE


@dataclass(frozen=True, kw_only=True)
class ClusterGCNConfig(GraphEncoderConfig):
    """Settings of `ClusterGCN`; a part has as many nodes as OGB's for ogbn-products."""

    neighbors: None = None
    """Always none: parts are trained on, not neighbors."""
    clusters: Count | None = None
    """Parts that the graph is cut into; none: one for every 160 nodes."""
    clusters_per_batch: Count = 32
    """Parts of a step, with the edges between them; `training.batch_size` has no say."""
    partition: Literal["auto", "metis", "label-propagation", "random"] = "auto"
    """How the graph is cut; `auto` is METIS where it is installed, else label propagation."""


class ClusterGCN(GraphSAGE):
    """GraphSAGE whose batches are some parts of the graph."""

    name = "cluster-gcn"
    config_class = ClusterGCNConfig
