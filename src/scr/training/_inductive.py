"""Training that sees neither test nodes nor, in its steps, validation nodes: the inductive setting.

Two graphs are prepared. Training reads the first one, of all nodes that are in neither split: its
edges, its features, which scaling and reduction are fitted on, its unlabeled nodes. Validation
nodes are scored on the second one, which has them as well. No test node is in either, so that
neither weights nor the epoch that is kept depend on their features or edges. Predictions are made
on the whole graph.

Validation nodes have the last numbers of the second graph; all others have the same in both.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from scr.encoders import ProblemShape
from scr.errors import ConfigError
from scr.graph import Graph, induced
from scr.training._batches import EpochNodes, Step
from scr.training._records import Handover
from scr.training._rows import RowSource

if TYPE_CHECKING:
    from scr.training._prepare import PreparedHops, SubsetNames
    from scr.training._prepare_graph import Preparation, PreparedGraph
    from scr.training._recipe import Recipe


def seen_nodes(graph: Graph) -> NDArray[np.int64]:
    """Target nodes that are in neither validation nor test set, ascending."""
    seen = np.ones(graph.num_targets, bool)
    seen[np.asarray(graph.valid)] = seen[np.asarray(graph.test)] = False
    return np.flatnonzero(seen)


def graph_to_select_on(graph: Graph) -> Graph:
    """The graph without its test nodes; validation nodes have the last numbers."""
    return induced(graph, np.concatenate([seen_nodes(graph), np.asarray(graph.valid)]))


def check_inductive(recipe: Recipe) -> None:
    """Refuse what cannot be trained on one graph and asked about another."""
    if not recipe.training.inductive:
        return
    if recipe.training.refit:
        raise ConfigError(
            "training.inductive", True, "false with a refit, which trains on validation nodes"
        )
    if recipe.encoder_settings.get("subset_sample") is not None:
        raise ConfigError(
            "training.inductive", True, "false with `encoder.subset_sample`",
            hint="leave it out: all subsets of relations are then trained together",
        )  # fmt: skip
    if recipe.encoder_settings.get("node_embeddings"):
        raise ConfigError(
            "training.inductive", True, "false with `encoder.node_embeddings`: unseen nodes have "
            "no learned vector",
        )  # fmt: skip


def in_whole_graph(handover: Handover | None, graph: Graph) -> Handover | None:
    """A handover of nodes that are seen, under their numbers in the whole graph."""
    if handover is None:
        return None
    numbers = torch.from_numpy(seen_nodes(graph))
    return handover._replace(nodes=numbers[handover.nodes], confident=numbers[handover.confident])


@dataclass(frozen=True, eq=False)
class InductivePrepared:
    """What is trained on, and what validation nodes are scored on."""

    seen: Graph
    known: Graph
    """With validation nodes."""
    trained: PreparedHops | PreparedGraph
    scored: PreparedHops | PreparedGraph
    """Prepared as `trained` was."""

    @property
    def kept(self) -> NDArray[np.int64]:
        """Nodes that training may read."""
        return np.arange(self.seen.num_targets)

    @property
    def features(self) -> Preparation:
        """The preparation that was fitted on the nodes seen."""
        return self.trained.features

    @property
    def subsets(self) -> SubsetNames | None:
        """Subsets of relations that hops were computed over."""
        return self.trained.subsets

    @property
    def seconds(self) -> float:
        """Of both."""
        return self.trained.seconds + self.scored.seconds

    def averages(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """As of `PreparedHops`, of nodes that are seen."""
        return self.trained.averages(rows)


@dataclass(frozen=True, eq=False)
class InductiveRows(RowSource):
    """Rows of the graph that is trained on, and of validation nodes in theirs."""

    trained: RowSource
    scored: RowSource

    @property
    def classes(self) -> int:  # type: ignore[override]
        """As both have them."""
        return self.trained.classes

    @property
    def device(self) -> Any:  # type: ignore[override]
        """Where batches are put."""
        return self.trained.device

    @property
    def kept(self) -> NDArray[np.int64]:  # type: ignore[override]
        """Nodes that training may read."""
        return self.trained.nodes()

    def __len__(self) -> int:
        return len(self.trained)

    @property
    def shape(self) -> ProblemShape:
        return self.trained.shape

    @property
    def reads_ahead(self) -> bool:
        return self.trained.reads_ahead

    def _of(self, index: Tensor) -> RowSource:
        """The rows that nodes are in; they are all seen, or all validation nodes."""
        if len(index) == 0 or int(index.max()) < len(self.trained):
            return self.trained
        assert int(index.min()) >= len(self.trained)
        return self.scored

    def read(self, index: Tensor) -> Any:
        """What an encoder reads of some nodes, in main memory."""
        return self._of(index).read(index)

    def finish(self, batch: Any, index: Tensor) -> Any:
        """The batch of these nodes on the device."""
        return self._of(index).finish(batch, index)

    def epoch_steps(self, nodes: EpochNodes) -> Generator[tuple[Step, Any]]:
        """The steps of an epoch, all of them on nodes that are seen."""
        return self.trained.epoch_steps(nodes)

    def stream_logits(
        self, model: nn.Module, index: Tensor, at_once: int
    ) -> Generator[tuple[Tensor, Tensor]]:
        """As of `RowSource`, from the graph that the nodes are in."""
        return self._of(index).stream_logits(model, index, at_once)
