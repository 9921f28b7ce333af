"""What every encoder is: a module from a batch of rows to their logits.

A decoupled encoder never sees the graph, a device, a path or a split: only a batch of rows whose
hops were computed once, before training. That is why SCR with these encoders scales. Coupled ones,
which read the graph in every step, are in `scr.networks`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from scr.config import Chance, Count, Settings
from scr.encoders._explanation import AttentionKind


@dataclass(frozen=True, kw_only=True)
class ProblemShape:
    """The sizes that an encoder is built for."""

    features: int
    """Columns of one hop."""
    hops: int
    """Matrices per row, hop 0 included."""
    classes: int
    label_hops: int = 0
    """Label matrices per row; 0 leaves the label branch out."""
    subsets: int = 1
    """Subsets of relations, each with `hops` matrices of which hop 0 is shared."""
    relations: int = 1
    """Kinds of edges that a coupled encoder tells apart, each direction for itself."""
    embedded: int = 0
    """Nodes that have learned vectors instead of features."""


@dataclass(frozen=True)
class HopBatch:
    """Some rows of the graph, ready for an encoder."""

    hops: Tensor
    """Shape (rows, hops, features); all hops of a row lie together. With several subsets of
    relations: hop 0, then subset after subset its other hops."""
    labels: Tensor | None = None
    """Propagated training labels, shape (rows, label_hops, classes)."""

    def __len__(self) -> int:
        return self.hops.shape[0]

    def between(self, start: int, stop: int) -> HopBatch:
        """Some of the rows."""
        labels = None if self.labels is None else self.labels[start:stop]
        return HopBatch(self.hops[start:stop], labels)


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(Settings):
    """Settings that every encoder has; each encoder file adds its own.

    A subclass that only has another default leaves the text below the field to this one.
    """

    section: ClassVar[str] = "encoder"

    hidden: Count = 256
    """Width of hidden layers."""
    dropout: Chance = 0.5
    """Chance that a hidden unit is dropped out: the noise that SCR's views differ by."""
    input_dropout: Chance = 0.0
    """Chance that an input feature is dropped out."""
    norm: Literal["batch", "layer", "none"] = "batch"
    """Normalization before every activation; `none` suits small training sets."""
    label_layers: Count = 4
    """Linear layers of the branch that reads propagated labels."""
    label_dropout: Chance = 0.0
    """Chance that a propagated label is dropped out."""


class Encoder(nn.Module, ABC):
    """A batch in, logits out."""

    name: ClassVar[str]
    config_class: ClassVar[type[EncoderConfig]]
    batch_kind: ClassVar[type] = HopBatch
    """What a batch is: hops of some rows, or for coupled encoders a `GraphBatch`."""
    attention_kind: ClassVar[AttentionKind] = "attention"
    """What `hop_attention` means."""
    mixes_subsets: ClassVar[bool] = False
    """Whether it reads hops of several subsets of the relations of a graph."""

    @classmethod
    def fixed_mixture(cls, config: EncoderConfig, hops: int) -> NDArray[np.float32] | None:
        """Weights of a mixture of hops that never changes, or none if hops stay apart.

        Where an encoder only ever reads a fixed weighted sum of the hops (SGC, S2GC, MLP), the sum
        is taken once, before training, and the encoder gets it as its only hop. `hops` counts hop 0
        too, and the result has the shape (hops,).
        """
        return None

    def hop_attention(self, batch: HopBatch) -> Tensor | None:
        """How much each hop counts for each row, without dropout; see `attention_kind`.

        Shape (rows, hops), or none where an encoder has no such thing. A path around the mixture,
        such as a residual from hop 0, is not in it.
        """
        return None

    def with_labels(self, logits: Tensor, labels: Tensor | None) -> Tensor:
        """Add what propagated labels say, where the encoder was built with a label branch."""
        branch = cast("nn.Module | None", self.label_branch)
        if branch is None:
            return logits
        if labels is None:
            raise ValueError("The encoder has a label branch, but the batch has no labels")
        return logits + cast(Tensor, branch(labels))

    @abstractmethod
    def forward(self, batch: Any) -> Tensor:
        """Logits of shape (rows, classes)."""
