"""The recipe section `propagation`: which powers of which adjacency are computed, and how stored.

Everything here decides the numbers that an encoder sees; how much memory the work may take does
not, and so is an argument of `propagate` instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from scr.config import Natural, Settings, check
from scr.errors import ConfigError

Norm = Literal["row", "sym", "col"]
Direction = Literal["both", "out", "in", "separate"]
HopScale = Literal["none", "unit"]
LabelGuard = Literal["none", "far", "exact", "folds"]
StorageType = Literal["float32", "float16"]

EXACT_GUARD_HOPS = 2
"""Cycles longer than this have no cheap closed form, so `exact` stops here."""


@dataclass(frozen=True, kw_only=True)
class PropagationConfig(Settings):
    """What is propagated before training starts."""

    section: ClassVar[str] = "propagation"

    hops: Natural = 5
    """Largest power K of the adjacency; hop 0, the features themselves, is always kept."""
    norm: Norm = "sym"
    """`row` is D^-1 A, `sym` is D^-1/2 A D^-1/2, `col` is A D^-1."""
    self_loops: bool = False
    """Add the identity to the adjacency before its degrees are taken."""
    direction: Direction = "both"
    """Of a directed graph: ignore it, follow edges, go against them, or both ways apart."""
    dtype: StorageType = "float32"
    """How hops are stored; sums are always taken in float32."""
    hop_scale: HopScale = "none"
    """`unit` gives every row of every hop length 1, once all hops are computed."""
    row_scale: HopScale = "none"
    """`unit` gives every row that an encoder reads length 1: of each hop, or of the mixture where
    an encoder reads a fixed mixture of hops."""
    subsets: int | str = 8
    """Of a graph of several relations, for encoders that mix subsets of them: how many are drawn,
    `single` (every relation alone), `all` (one subset with all), or a file with one per line."""
    subset_seed: Natural = 0
    """Decides which subsets are drawn."""
    label_hops: Natural = 0
    """Largest power of the adjacency that training labels are propagated by; 0 leaves them out."""
    label_keep: Literal["last", "all"] = "last"
    """Keep only the farthest label hop, or all of them."""
    label_norm: Norm = "row"
    """As `norm`, for the labels."""
    label_self_loops: bool = False
    """As `self_loops`, for the labels."""
    label_direction: Literal["both", "out", "in"] = "both"
    """As `direction`, for the labels."""
    label_guard: LabelGuard = "folds"
    """What keeps a training node's own label from coming back to it through cycles."""
    label_paths: tuple[str, ...] = ()
    """Metapaths that bring labels too, each one matrix more: relations from the target type
    outward and back to it, `^` before those taken backward, such as `^writes writes`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.subsets, str):
            text = self.subsets.strip()
            is_valid = text != "" and not text.lstrip("-").isdecimal()
        else:
            is_valid = self.subsets >= 1
        check(is_valid, "propagation.subsets", self.subsets,
              "a whole number, 1 or more, `single`, `all` or a file")  # fmt: skip
        if self.label_guard == "exact" and self.label_hops > EXACT_GUARD_HOPS:
            raise ConfigError(
                "propagation.label_hops", self.label_hops,
                f"at most {EXACT_GUARD_HOPS} with label_guard = `exact`",
                hint="`label_guard = \"folds\"` guards any number of hops",
            )  # fmt: skip
        for path in self.label_paths:
            self._check_path(path)

    def _check_path(self, path: str) -> None:
        steps = len(path.split())
        check(steps > 0, "propagation.label_paths", path, "names of relations")
        if self.label_guard == "far":
            raise ConfigError(
                "propagation.label_guard", "far", "`folds`, `exact` or `none` with label_paths",
                hint="a path has no farthest hop in which the own label would be diluted",
            )  # fmt: skip
        if self.label_guard == "exact" and steps > EXACT_GUARD_HOPS:
            raise ConfigError(
                "propagation.label_paths", path,
                f"at most {EXACT_GUARD_HOPS} steps with label_guard = `exact`",
                hint="`label_guard = \"folds\"` guards paths of any length",
            )  # fmt: skip

    @property
    def matrices(self) -> int:
        """Matrices per row, hop 0 included, without subsets of relations (`ways.matrices_of`)."""
        return (2 if self.direction == "separate" else 1) * self.hops + 1

    @property
    def label_matrices(self) -> int:
        """Label matrices per row, as `label_hops` makes them: of hops, then one for each path."""
        return self.label_hop_matrices + len(self.label_paths)

    @property
    def label_hop_matrices(self) -> int:
        """Label matrices per row, those of paths left out."""
        if self.label_keep == "last" or self.label_guard == "far":
            return min(self.label_hops, 1)
        return self.label_hops
