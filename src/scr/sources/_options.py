"""What to do with a source on its way to a graph; the same options for every format."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class IngestOptions:
    """What to do with a source on its way to a graph."""

    symmetrize: bool = True
    """Store each edge in both directions."""
    drop_duplicates: bool = True
    """Merge repeated edges; otherwise how often an edge is listed becomes its weight."""
    drop_self_loops: bool = True
    """Drop edges from a node to itself."""
    id_column: str | None = None
    """Tables: the column of node ids, of the target type; none: `id`, else the first."""
    label_column: str | None = None
    """Tables: the column of classes; none: `label`; the word `none`: there are no labels."""
    split_column: str | None = None
    """Tables: the column that says train, valid or test; none: `split`, if there is one."""
    features: str | Path | None = None
    """A `.npy` with one row of features per target node, instead of the source's own features."""
    splits: str | Path | None = None
    """`per-class:TRAIN,VALID`, `per-class:all`, `random:TRAIN,VALID` or a file of splits; none: the
    source's own."""
    split: int | None = None
    """Which split, where there are several."""
    seed: int = 0
    """Of drawn splits."""

    @property
    def own_split(self) -> int | None:
        """Which of the source's own splits is asked for."""
        return self.split if self.splits is None else None

    @property
    def columns(self) -> dict[str, str]:
        """Columns of tables that are named here, by their roles: `id`, `label` and `split`."""
        named = {"id": self.id_column, "label": self.label_column, "split": self.split_column}
        return {role: name for role, name in named.items() if name}
