"""NARS: any encoder that reads hops apart, on hops that are mixed over subsets of relations.

A graph of several relations becomes several graphs, one for each of some subsets of its relations.
Their hops are computed before training, a learned mixture (`_subset_mixture.py`) joins those of
equal length, and an encoder for graphs of one relation does the rest. On a graph of one relation
there is one subset, and all that is added is a scale per hop and feature.

Paper: Yu et al. 2020, "Scalable Graph Neural Networks for Heterogeneous Graphs", arXiv:2011.09679.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar, cast

from torch import Tensor

from scr.config import Count, Settings
from scr.encoders._base import Encoder, EncoderConfig, HopBatch, ProblemShape
from scr.encoders.layers._subset_mixture import Mixing, SubsetMixture

PREFIX = "nars-"


@dataclass(frozen=True, kw_only=True)
class SubsetSettings(Settings):
    """What NARS adds to the settings of an encoder."""

    mixing: Mixing = "mean"
    """What the mixture of subsets starts as: their mean, their sum, or, as in the paper's code,
    drawn by Xavier's rule. Rows of length 1 want the sum: their mean is a weak signal."""
    subset_sample: Count | None = None
    """Subsets that are trained at a time, to save memory; none: all."""
    resample: Count = 10
    """Epochs after which other subsets are trained, with `subset_sample`."""


class NARS(Encoder):
    """A mixture of subsets, then an encoder; `over` makes the class for one."""

    mixes_subsets = True
    inner_class: ClassVar[type[Encoder]]

    def __init__(self, config: EncoderConfig, shape: ProblemShape) -> None:
        super().__init__()
        self.settings = cast(SubsetSettings, config)
        self.mixture = SubsetMixture(
            shape.subsets, shape.hops - 1, shape.features, self.settings.mixing
        )
        self.inner = self.inner_class(config, dataclasses.replace(shape, subsets=1))

    def forward(self, batch: HopBatch) -> Tensor:
        """Logits of shape (rows, classes), of hops of shape (rows, 1 + subsets * K, features)."""
        logits: Tensor = self.inner(HopBatch(self.mixture(batch.hops), batch.labels))
        return logits

    @classmethod
    def over(cls, inner: type[Encoder]) -> type[NARS]:
        """NARS with an encoder that reads hops apart, under the encoder's name and settings."""
        what = f"`{inner.__name__}` over subsets of relations."
        config = dataclasses.make_dataclass(
            f"NARS{inner.config_class.__name__}", [], bases=(SubsetSettings, inner.config_class),
            namespace={"__doc__": f"Settings of {what}", "__module__": __name__},
            frozen=True, kw_only=True,
        )  # fmt: skip
        about = {
            "__doc__": what, "__module__": __name__, "name": PREFIX + inner.name,
            "config_class": config, "inner_class": inner,
        }  # fmt: skip
        return type(f"NARS{inner.__name__}", (cls,), about)
