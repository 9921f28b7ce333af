"""What training and prediction ask of rows, whatever an encoder reads: hops, or the graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from scr.encoders import ProblemShape
from scr.training._batches import EpochNodes, Step

CPU = torch.device("cpu")
Item = TypeVar("Item")


class RowSource(ABC):
    """Serves batches of nodes, which are named by their numbers in the graph."""

    classes: int
    device: torch.device
    """Where batches are put."""
    kept: NDArray[np.int64] | None
    """Nodes that can be asked for, ascending; none: all."""

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def shape(self) -> ProblemShape:
        """Sizes for `make_encoder`."""

    @abstractmethod
    def batch(self, index: Tensor) -> Any:
        """What an encoder reads of some nodes."""

    @abstractmethod
    def stream(
        self, items: Iterable[Item], index_of: Callable[[Item], Tensor]
    ) -> Generator[tuple[Item, Any]]:
        """Each item with the batch of its nodes, in order.

        Close it (`contextlib.closing`) where it may be left early.

        Args:
            items: In the order in which they are wanted.
            index_of: The nodes of an item.
        """

    def nodes(self) -> NDArray[np.int64]:
        """Numbers of all nodes that can be asked for, ascending."""
        return np.arange(len(self)) if self.kept is None else self.kept

    def has(self, nodes: NDArray[np.int64] | None) -> bool:
        """Whether all of some nodes can be asked for; none counts as what there is."""
        return nodes is None or self.kept is None or bool(np.isin(nodes, self.kept).all())

    def epoch_steps(self, nodes: EpochNodes) -> Generator[tuple[Step, Any]]:
        """The steps of an epoch of training, each with the batch of its nodes."""
        return self.stream(nodes.steps(), nodes.index)

    def stream_logits(
        self, model: nn.Module, index: Tensor, at_once: int
    ) -> Generator[tuple[Tensor, Tensor]]:
        """Parts of `index`, in order, each with its logits on the CPU.

        Args:
            model: In evaluation mode.
            index: Nodes.
            at_once: Most nodes of a part.
        """
        with closing(self.stream(index.split(at_once), lambda part: part)) as batches:
            for part, batch in batches:
                with torch.no_grad():
                    logits = model(batch).cpu()
                yield part, logits
