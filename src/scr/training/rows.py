"""The rows that training and prediction read: the hops of every node, gathered by index."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scr.encoders.base import HopBatch, ProblemShape

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Rows:
    """Hops, and label hops where the encoder reads them, of all nodes."""

    hops: NDArray[np.floating]
    """Shape (nodes, hops, features), float32 or float16, in memory or memory-mapped."""
    classes: int
    labels: NDArray[np.floating] | None = None
    """Propagated training labels, shape (nodes, label hops, classes)."""
    device: torch.device = CPU

    def __len__(self) -> int:
        return int(self.hops.shape[0])

    @property
    def shape(self) -> ProblemShape:
        """Sizes for `make_encoder`."""
        return ProblemShape(
            features=self.hops.shape[2],
            hops=self.hops.shape[1],
            classes=self.classes,
            label_hops=0 if self.labels is None else self.labels.shape[1],
        )

    def batch(self, index: Tensor) -> HopBatch:
        """All hops of some nodes, as float32 on the device."""
        labels = None if self.labels is None else self._gather(self.labels, index)
        return HopBatch(self._gather(self.hops, index), labels)

    def _gather(self, array: NDArray[np.floating], index: Tensor) -> Tensor:
        if not array.flags.writeable:  # a memory map of hops on disk
            gathered = torch.from_numpy(array[index.numpy()])
        else:
            gathered = torch.from_numpy(array).index_select(0, index)
        return gathered.to(self.device, torch.float32)

    def batches(self, index: Tensor, size: int) -> Iterator[HopBatch]:
        """The same in parts of at most `size` rows, in the order of `index`."""
        for part in index.split(size):
            yield self.batch(part)
