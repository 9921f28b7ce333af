"""Rows: what training and prediction read of nodes, whatever an encoder reads of the graph.

`RowSource` is what they ask for; `Rows` are hops, in memory or on disk (`GraphRows` of
`_graph_rows.py` read the graph itself). Hops may be there for some nodes only, such as the labeled
ones of a very large graph. Callers always name nodes by their numbers in the graph; where
their rows are is known only here.

Predictions for any number of rows come in bounded memory. A caller that needs less than all logits,
such as the nodes that a model is sure of, takes them part by part from `stream_logits`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from scr.compute import current_group, map_in_order
from scr.encoders import HopBatch, ProblemShape
from scr.errors import GraphError
from scr.propagation import positions_of as positions_of
from scr.storage import FileRows
from scr.training._batches import EpochNodes, Step

CPU = torch.device("cpu")
ROWS_AT_ONCE = 16_384
"""Rows of one forward pass: enough for full speed, and hidden layers stay small."""

LabelHops = NDArray[np.floating[Any]] | None
"""Propagated training labels, shape (rows, label hops, classes)."""
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

    @property
    @abstractmethod
    def reads_ahead(self) -> bool:
        """Whether the next batches are read by another thread, because that takes long."""

    @abstractmethod
    def read(self, index: Tensor) -> Any:
        """What an encoder reads of some nodes, in main memory."""

    @abstractmethod
    def finish(self, batch: Any, index: Tensor) -> Any:
        """The batch of these nodes on the device."""

    def batch(self, index: Tensor) -> Any:
        """What an encoder reads of some nodes; one that cannot be asked for is an error."""
        return self.finish(self.read(index), index)

    def stream(
        self, items: Iterable[Item], index_of: Callable[[Item], Tensor]
    ) -> Generator[tuple[Item, Any]]:
        """Each item with the batch of its nodes, which `index_of` gives, in order.

        Close it (`contextlib.closing`) where it may be left early.
        """
        if not self.reads_ahead:
            for item in items:
                yield item, self.batch(index_of(item))
            return
        indexed = ((item, index_of(item)) for item in items)
        read = map_in_order(lambda pair: (*pair, self.read(pair[1])), indexed)
        with closing(read):
            for item, index, batch in read:
                yield item, self.finish(batch, index)

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
        """Parts of `index`, at most `at_once` nodes each, in order, with their logits on the CPU.

        The model is in evaluation mode.
        """
        with closing(self.stream(index.split(at_once), lambda part: part)) as batches:
            for part, batch in batches:
                with torch.no_grad():
                    logits = model(batch).cpu()
                yield part, logits


@dataclass(frozen=True)
class Rows(RowSource):
    """Hops, and label hops where the encoder reads them, of all nodes or of those kept."""

    hops: NDArray[np.floating]
    """Shape (rows, hops, features), float32 or float16, in memory or memory-mapped."""
    classes: int
    labels: LabelHops = None
    device: torch.device = CPU
    kept: NDArray[np.int64] | None = None
    """The node of each row, ascending; none: row i is node i."""
    subsets: int = 1
    """Subsets of relations that the hops are of: hop 0, then all others of each subset."""
    noise: Callable[[HopBatch, Tensor], HopBatch] | None = None
    """From a batch and its nodes to one that makes noisy views by itself (`NodeDropper`)."""

    def __post_init__(self) -> None:
        counts = {"label hops": self.labels, "numbers of nodes": self.kept}
        for what, array in counts.items():
            if array is not None and len(array) != len(self.hops):
                raise GraphError(
                    f"There are {len(array):,} rows of {what}; expected {len(self.hops):,}, one "
                    "for each row of hops"
                )

    def __len__(self) -> int:
        return int(self.hops.shape[0])

    @property
    def shape(self) -> ProblemShape:
        return ProblemShape(
            features=self.hops.shape[2], hops=1 + (self.hops.shape[1] - 1) // self.subsets,
            classes=self.classes, label_hops=0 if self.labels is None else self.labels.shape[1],
            subsets=self.subsets,
        )  # fmt: skip

    @property
    def on_disk(self) -> bool:
        """Whether hops are read from a file for every batch."""
        return self._file is not None

    @property
    def reads_ahead(self) -> bool:
        # A gather in memory is so quick that a second thread would only be in the way.
        return self.on_disk

    @cached_property
    def _file(self) -> FileRows | None:
        return FileRows.behind(self.hops)

    def read(self, index: Tensor) -> HopBatch:
        """All hops of some nodes, float32 if they were on disk."""
        positions = index.numpy() if self.kept is None else positions_of(index.numpy(), self.kept)
        labels = self.labels
        if self._file is None:
            hops = _gather(self.hops, positions)
            return HopBatch(hops, None if labels is None else _gather(labels, positions))
        # In another thread than the steps: torch's own threads are theirs.
        hops = torch.from_numpy(self._file.take(positions).astype(np.float32, copy=False))
        return HopBatch(hops, None if labels is None else torch.from_numpy(labels[positions]))

    def finish(self, batch: HopBatch, index: Tensor) -> HopBatch:
        """As float32 on the device, with noise where there is any."""
        labels = batch.labels
        batch = HopBatch(
            batch.hops.to(self.device, torch.float32),
            None if labels is None else labels.to(self.device, torch.float32),
        )
        return batch if self.noise is None else self.noise(batch, index)


def _gather(array: NDArray[np.floating], positions: NDArray[np.int64]) -> Tensor:
    if not array.flags.writeable:  # torch wants to be able to write
        return torch.from_numpy(array[positions])
    return torch.from_numpy(array).index_select(0, torch.from_numpy(positions))


def stream_logits(
    model: nn.Module, rows: RowSource, index: Tensor, *, at_once: int = ROWS_AT_ONCE
) -> Generator[tuple[Tensor, Tensor]]:
    """Yield parts of `index`, in order, each with its logits without dropout, on the CPU.

    Between two parts the model is in evaluation mode; at the end it is in the mode that it was in.
    """
    if len(index) == 0:
        return
    was_training = model.training
    model.eval()
    try:
        yield from rows.stream_logits(model, index, at_once)
    finally:
        model.train(was_training)


def predict_logits(
    model: nn.Module, rows: RowSource, index: Tensor, *, at_once: int = ROWS_AT_ONCE
) -> Tensor:
    """Logits without dropout, on the CPU, in the order of `index`; shape (nodes, classes).

    In a group, each process computes its share, and all get all.
    """
    group = current_group()
    own = index[group.share(len(index))]
    parts = (logits.float() for _, logits in stream_logits(model, rows, own, at_once=at_once))
    return group.join(stacked(parts, len(own), rows.classes), len(index))


def as_probabilities(logits: Tensor, multilabel: bool) -> Tensor:
    """Probabilities of classes, or of several targets, each for itself."""
    return torch.sigmoid(logits) if multilabel else torch.softmax(logits, dim=-1)


def predict_probabilities(
    model: nn.Module,
    rows: RowSource,
    index: Tensor,
    *,
    at_once: int = ROWS_AT_ONCE,
    multilabel: bool = False,
) -> Tensor:
    """Probabilities of classes, or of several targets, without dropout; see `predict_logits`."""
    parts = (logits for _, logits in stream_logits(model, rows, index, at_once=at_once))
    probabilities = (as_probabilities(logits, multilabel).float() for logits in parts)
    return stacked(probabilities, len(index), rows.classes)


def stacked(parts: Iterable[Tensor], rows: int, columns: int = 0) -> Tensor:
    """Parts below each other, of which two at most are in memory beside the result.

    The number of columns is that of the parts; `columns` where there are none.
    """
    whole, start = torch.empty(0, columns), 0
    for part in parts:
        if start == 0:
            whole = part.new_empty(rows, part.shape[1])
        whole[start : start + len(part)] = part
        start += len(part)
    return whole
