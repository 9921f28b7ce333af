"""Rows of encoders that are trained on subgraphs which a sampler draws, whoever is in them.

Elsewhere labeled and confident nodes are drawn, and neighbors around them. Here a subgraph comes
first: a step's labeled nodes are the training nodes in it, and its confident ones those of the
confident set that are in it. What is drawn is a function of the seed, the epoch and the step.

GraphSAINT's factors make the loss on labels unbiased. The terms of confident and reliable nodes are
means over those that are drawn, in which nodes of many walks count more.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from scr.networks import ClusterGCNConfig, GraphBatch, GraphSAINTConfig
from scr.networks.sampling import ClusterSampler, SaintSampler, SubgraphBatch
from scr.training._batches import EpochNodes, Step
from scr.training._graph_rows import GraphRows
from scr.training._row_source import Item


class SubgraphDraw(NamedTuple):
    """A step: as of `epoch_batches`, and where all of its nodes are."""

    labeled: Tensor
    """Positions among the training nodes."""
    unlabeled: Tensor
    """Confident nodes."""
    relied_on: Tensor
    """Positions among the reliable nodes."""
    subgraph: SubgraphBatch
    share: float
    """Of the training nodes that are in the subgraph."""


class SubgraphRows(GraphRows):
    """Batches of clusters or of random walks."""

    @cached_property
    def _subgraphs(self) -> ClusterSampler | SaintSampler:
        settings, graph = self.prepared.settings, self.prepared.graph
        if isinstance(settings, ClusterGCNConfig):
            parts = self.prepared.clusters
            return ClusterSampler(graph, parts, settings.clusters_per_batch, self.seed)
        assert isinstance(settings, GraphSAINTConfig)
        return SaintSampler(
            graph,
            "walk",
            settings.roots,
            walk_length=settings.walk_length,
            coverage=settings.coverage,
            seed=self.seed,
        )

    @property
    def steps(self) -> int:
        """Subgraphs of an epoch."""
        settings = self.prepared.settings
        if isinstance(self._subgraphs, ClusterSampler):
            return len(self._subgraphs)
        assert isinstance(settings, GraphSAINTConfig)
        per_step = settings.roots * (settings.walk_length + 1)
        return settings.steps or -(-self.prepared.graph.num_nodes // per_step)

    def draws(
        self, epoch: int, train: Tensor, confident: Tensor, reliable: Tensor
    ) -> Iterator[SubgraphDraw]:
        """The steps of an epoch; a subgraph with no node to learn from is left out.

        Args:
            epoch: From 0.
            train: Training nodes; one may come twice.
            confident: Nodes of the consistency term.
            reliable: Nodes that an earlier stage labeled.
        """
        here = np.zeros(self.prepared.graph.num_nodes, np.bool_)
        for step in range(epoch * self.steps, (epoch + 1) * self.steps):
            subgraph = self._subgraphs.sample(step)
            here[subgraph.nodes] = True
            inside = torch.from_numpy(here)
            labeled = inside[train].nonzero()[:, 0]
            unlabeled = confident[inside[confident]]
            relied_on = inside[reliable].nonzero()[:, 0]
            here[subgraph.nodes] = False
            if len(labeled) + len(unlabeled) + len(relied_on):
                share = len(labeled) / len(train)
                yield SubgraphDraw(labeled, unlabeled, relied_on, subgraph, share)

    def epoch_steps(self, nodes: EpochNodes) -> Generator[tuple[Step, GraphBatch]]:
        """The subgraphs of an epoch; sizes of batches have no say."""
        drawn = self.draws(nodes.epoch, nodes.train, nodes.confident, nodes.reliable)
        batches = self.stream(drawn, lambda draw: nodes.index(Step(*draw[:3])))
        return ((Step(*draw[:3]), batch) for draw, batch in batches)

    def stream(
        self, items: Iterable[Item], index_of: Callable[[Item], Tensor]
    ) -> Generator[tuple[Item, GraphBatch]]:
        """Each item of `draws` with its subgraph, for the logits of its nodes."""
        positions = np.empty(self.prepared.graph.num_nodes, np.int64)
        self._layerwise.forget()
        for item in items:
            drawn = cast(SubgraphDraw, item)
            subgraph = drawn.subgraph
            positions[subgraph.nodes] = np.arange(subgraph.num_nodes)
            index = index_of(item)
            seeds = torch.from_numpy(positions[index.numpy()])
            weight = None
            if subgraph.node_weight is not None:
                # The mean over a step's labeled rows times the share of all that they are, is the
                # paper's sum over them, divided by the number of all: L_i / lambda_i / N_L.
                weight = torch.from_numpy(subgraph.node_weight)[seeds] * drawn.share
            batch = self.of_subgraph(subgraph, seeds, index, weight)
            yield item, self._on_device(batch)
