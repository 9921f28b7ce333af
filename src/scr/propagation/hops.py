"""All hops of all nodes: one array of shape (nodes, hops + 1, features).

The hops of a node lie together, so a training batch gathers each of its rows in one read, whether
the array is in memory or a memory map of an artifact on disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

SCHEMA = "scr.hops"


class Hops:
    """The features of every node, and their weighted averages over growing neighborhoods."""

    def __init__(
        self,
        array: NDArray[Any],
        *,
        path: Path | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.array = array
        self.path = path
        """The artifact on disk, if there is one."""
        self.settings: dict[str, Any] = dict(settings or {})
        """How the hops were made."""

    @property
    def nodes(self) -> int:
        return int(self.array.shape[0])

    @property
    def count(self) -> int:
        """Matrices per row, hop 0 included."""
        return int(self.array.shape[1])

    @property
    def features(self) -> int:
        return int(self.array.shape[2])

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.dtype

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.nodes, self.count, self.features

    @property
    def nbytes(self) -> int:
        return int(self.array.nbytes)

    def rows(self, index: NDArray[Any] | slice) -> NDArray[Any]:
        """All hops of some nodes. Shape (len(index), hops + 1, features)."""
        return np.asarray(self.array[index])

    def hop(self, k: int) -> NDArray[Any]:
        """One hop of all nodes, as a view. Shape (nodes, features)."""
        return np.asarray(self.array[:, k])

    def __len__(self) -> int:
        return self.nodes

    def __array__(self, dtype: DTypeLike = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.array, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        where = f", path={str(self.path)!r}" if self.path else ""
        return f"Hops(nodes={self.nodes}, count={self.count}, features={self.features}, {self.dtype}{where})"
