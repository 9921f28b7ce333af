"""All hops of all nodes, or of those that are kept: one array of shape (rows, hops + 1, features).

The hops of a node lie together, so a training batch gathers each of its rows in one read, whether
the array is in memory or a memory map of an artifact on disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from scr.errors import StoreError
from scr.propagation._kept_rows import positions_of
from scr.storage import ArtifactWriter, array_file, open_array, read_manifest, verify_once

KIND = "hops"
SCHEMA = 1
ARRAY = "hops"
ROWS = "rows"
"""Numbers of the nodes that are kept, where not all are."""


class Hops:
    """The features of every node, and their weighted averages over growing neighborhoods."""

    def __init__(
        self,
        array: NDArray[Any],
        *,
        path: Path | None = None,
        settings: Mapping[str, Any] | None = None,
        nodes_kept: NDArray[np.int64] | None = None,
    ) -> None:
        self.array = array
        self.nodes_kept = nodes_kept
        """Sorted numbers of the nodes that the rows belong to; none: row i is node i."""
        self.path = path
        """The artifact on disk, if there is one."""
        self.settings: dict[str, Any] = dict(settings or {})
        """How the hops were made."""

    @property
    def nodes(self) -> int:
        """Rows: all nodes, or those that are kept."""
        return int(self.array.shape[0])

    @property
    def count(self) -> int:
        """Matrices per row, hop 0 included."""
        return int(self.array.shape[1])

    @property
    def features(self) -> int:
        """Columns of each hop."""
        return int(self.array.shape[2])

    @property
    def shape(self) -> tuple[int, int, int]:
        """(nodes, count, features)."""
        return self.nodes, self.count, self.features

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float16."""
        return self.array.dtype

    @property
    def nbytes(self) -> int:
        """Size of the array, wherever it is."""
        return int(self.array.nbytes)

    def rows(self, index: NDArray[Any] | slice) -> NDArray[Any]:
        """All hops of some nodes, by their numbers. Shape (len(index), hops + 1, features).

        Raises:
            GraphError: The hops of a node were not kept.
        """
        return np.asarray(self.array[self.positions(index)])

    def positions(self, index: NDArray[Any] | slice) -> NDArray[Any] | slice:
        """Rows of some nodes."""
        kept = self.nodes_kept
        if kept is None:
            return index
        if isinstance(index, slice):
            index = np.arange(int(kept[-1]) + 1 if len(kept) else 0)[index]
        nodes = np.asarray(index)
        return positions_of(np.flatnonzero(nodes) if nodes.dtype == bool else nodes, kept)

    def hop(self, k: int) -> NDArray[Any]:
        """One hop of all rows, as a view. Shape (nodes, features)."""
        return np.asarray(self.array[:, k])

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the hops as an artifact that `Hops.open` reads back."""
        with ArtifactWriter(path, kind=KIND, schema=SCHEMA, overwrite=overwrite) as writer:
            writer.metadata.update(self.settings)
            writer.write_array(ARRAY, self.array)
            if self.nodes_kept is not None:
                writer.write_array(ROWS, self.nodes_kept)
        return Path(path)

    @classmethod
    def open(cls, path: str | Path) -> Hops:
        """Map hops on disk into memory, read-only.

        Raises:
            StoreError: There are no hops at `path`, or they are damaged.
        """
        manifest = read_manifest(path, KIND, schema=SCHEMA)
        verify_once(manifest)
        array, kept = open_array(manifest, ARRAY), None
        if array.ndim != 3 or array.dtype not in (np.float32, np.float16):
            raise StoreError(
                f"`{array_file(manifest, ARRAY)}` holds {array.dtype} of shape {array.shape}; "
                "expected float32 or float16 of shape (nodes, hops, features)"
            )
        if ROWS in manifest.arrays:
            kept = np.array(open_array(manifest, ROWS))
            _check_rows(kept, len(array), array_file(manifest, ROWS))
        return cls(array, path=Path(path), settings=manifest.metadata, nodes_kept=kept)

    def __len__(self) -> int:
        return self.nodes

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        # `asarray` of a memory map is the same memory as a plain array.
        return np.array(np.asarray(self.array), dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        where = "" if self.path is None else f", path={str(self.path)!r}"
        sizes = f"nodes={self.nodes}, count={self.count}, features={self.features}"
        return f"Hops({sizes}, dtype={self.dtype}{where})"


def _check_rows(kept: NDArray[Any], count: int, file: Path) -> None:
    """Refuse numbers of nodes that are not ascending, or not one for each row."""
    if kept.dtype != np.int64 or kept.shape != (count,):
        raise StoreError(
            f"`{file}` holds {kept.dtype} of shape {kept.shape}; expected int64 of shape ({count},)"
        )
    before = np.concatenate([[-1], kept[:-1]])
    bad = np.flatnonzero(kept <= before)
    if len(bad):
        position = int(bad[0])
        raise StoreError(
            f"`{file}` holds {kept[position]} at position {position}; "
            f"expected more than {before[position]}"
        )
