"""The rows that training and prediction read: hops by node number, in memory or on disk.

Hops may be there for some nodes only, such as the labeled ones of a very large graph. Whoever asks
names nodes by their numbers in the graph, always; where their rows lie is known here alone.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scr.compute import map_in_order
from scr.encoders import HopBatch, ProblemShape
from scr.errors import GraphError
from scr.storage import FileRows
from scr.training._row_source import CPU, Item, RowSource


@dataclass(frozen=True)
class Rows(RowSource):
    """Hops, and label hops where the encoder reads them, of all nodes or of those kept."""

    hops: NDArray[np.floating]
    """Shape (rows, hops, features), float32 or float16, in memory or memory-mapped."""
    classes: int
    labels: NDArray[np.floating] | None = None
    """Propagated training labels, shape (rows, label hops, classes)."""
    device: torch.device = CPU
    kept: NDArray[np.int64] | None = None
    """The node of each row, ascending; none: row i is node i."""
    subsets: int = 1
    """Subsets of relations that the hops are of: hop 0, then all others of each subset."""
    noise: Callable[[HopBatch, Tensor], HopBatch] | None = None
    """From a batch and its nodes to one that makes noisy views by itself (`_random_rows.py`)."""

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
        """Sizes for `make_encoder`."""
        return ProblemShape(
            features=self.hops.shape[2],
            hops=1 + (self.hops.shape[1] - 1) // self.subsets,
            classes=self.classes,
            label_hops=0 if self.labels is None else self.labels.shape[1],
            subsets=self.subsets,
        )

    def batch(self, index: Tensor) -> HopBatch:
        """All hops of some nodes, as float32 on the device.

        Raises:
            GraphError: A node has no hops.
        """
        return self._finish(self._read(index), index)

    def stream(
        self, items: Iterable[Item], index_of: Callable[[Item], Tensor]
    ) -> Generator[tuple[Item, HopBatch]]:
        """Each item with the batch of its nodes; rows on disk are read ahead by another thread."""
        if not self.on_disk:
            # A gather in memory is so quick that a second thread would only be in the way.
            for item in items:
                yield item, self.batch(index_of(item))
            return
        indexed = ((item, index_of(item)) for item in items)
        read = map_in_order(lambda pair: (*pair, self._read(pair[1])), indexed)
        with closing(read):
            for item, index, batch in read:
                yield item, self._finish(batch, index)

    @property
    def on_disk(self) -> bool:
        """Whether hops are read from a file for every batch."""
        return self._file is not None

    @cached_property
    def _file(self) -> FileRows | None:
        return FileRows.behind(self.hops)

    def _read(self, index: Tensor) -> HopBatch:
        """A batch in memory, float32 if it was on disk."""
        positions = index.numpy() if self.kept is None else positions_of(index.numpy(), self.kept)
        labels = self.labels
        if self._file is None:
            hops = _gather(self.hops, positions)
            return HopBatch(hops, None if labels is None else _gather(labels, positions))
        # In another thread than the steps: torch's own threads are theirs.
        hops = torch.from_numpy(self._file.take(positions).astype(np.float32, copy=False))
        return HopBatch(hops, None if labels is None else torch.from_numpy(labels[positions]))

    def _finish(self, batch: HopBatch, index: Tensor) -> HopBatch:
        """As float32 on the device, with noise where there is any."""
        labels = batch.labels
        batch = HopBatch(
            batch.hops.to(self.device, torch.float32),
            None if labels is None else labels.to(self.device, torch.float32),
        )
        return batch if self.noise is None else self.noise(batch, index)


def positions_of(nodes: NDArray[np.int64], kept: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where nodes are among the kept ones.

    Raises:
        GraphError: A node is not among them.
    """
    positions = np.searchsorted(kept, nodes)
    is_kept = positions < len(kept)
    is_kept[is_kept] = kept[positions[is_kept]] == nodes[is_kept]
    if not is_kept.all():
        missing = nodes[~is_kept][0]
        raise GraphError(
            f"Node {missing} has no hops; they were kept for {len(kept):,} nodes",
            hint="propagate again with `rows` that hold this node, such as `all`",
        )
    return positions


def _gather(array: NDArray[np.floating], positions: NDArray[np.int64]) -> Tensor:
    if not array.flags.writeable:  # torch wants to be able to write
        return torch.from_numpy(array[positions])
    return torch.from_numpy(array).index_select(0, torch.from_numpy(positions))
