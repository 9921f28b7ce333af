"""GraphSAINT: GraphSAGE's layers, trained on subgraphs around random walks, without bias.

Paper: Zeng et al. 2020, "GraphSAINT: Graph Sampling Based Inductive Learning Method",
arXiv:1907.04931. A node that is drawn often counts less in the loss, and an edge less in the mean.
"""

from __future__ import annotations

from dataclasses import dataclass

from scr.config import Count, Natural
from scr.networks._base import GraphEncoderConfig
from scr.networks._graphsage import GraphSAGE


@dataclass(frozen=True, kw_only=True)
class GraphSAINTConfig(GraphEncoderConfig):
    """Settings of `GraphSAINT`; roots and lengths are the paper's for Reddit."""

    neighbors: None = None
    """Always none: subgraphs are trained on, not neighbors."""
    roots: Count = 2_000
    """Random walks of a step; `training.batch_size` has no say."""
    walk_length: Count = 2
    """Steps of a walk."""
    steps: Count | None = None
    """Subgraphs of an epoch; none: as many as walks that together are as long as the graph."""
    coverage: Natural = 50
    """Subgraphs are counted beforehand until each node was in as many on average, so that loss and
    means are unbiased; 0: they are left as they are."""


class GraphSAINT(GraphSAGE):
    """GraphSAGE whose batches are subgraphs of random walks."""

    name = "graph-saint"
    config_class = GraphSAINTConfig
