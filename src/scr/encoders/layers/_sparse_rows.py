"""Features of which most are zero, such as bags of words: multiplied with weights as they are.

A row of words is to a layer's weights what a node's neighbors are to their activations: numbers to
sum rows by. So the product is that of `Adjacency`, and so is the gradient of the weights. Dropout
drops stored numbers only, since zeros stay zero anyway. So a step and its memory grow with the
words that are present, not with all words that there are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from scr.encoders.fused._dropout import dropout
from scr.encoders.layers._adjacency import Adjacency


class Projected(NamedTuple):
    """Rows that have been multiplied with all weights of a layer which each row needs by itself."""

    rows: Tensor


@dataclass(frozen=True, eq=False)
class SparseRows:
    """A sparse matrix in main memory, in float32."""

    places: Adjacency
    """The columns of the numbers of each row; made once, whatever dropout makes of the numbers."""
    values: Tensor
    """The numbers. Shape (stored,)."""

    @classmethod
    def of(cls, matrix: sp.csr_array) -> SparseRows:
        """Take a matrix of scipy, without a copy where its numbers are float32."""
        values = torch.from_numpy(np.asarray(matrix.data, np.float32))
        indptr = np.asarray(matrix.indptr, np.int64)
        return cls(Adjacency(indptr, np.asarray(matrix.indices), matrix.shape[1]), values)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.places.rows, self.places.columns

    @property
    def device(self) -> torch.device:
        """Where the numbers are."""
        return self.values.device

    def __len__(self) -> int:
        return self.places.rows

    def take(self, rows: NDArray[np.int64]) -> SparseRows:
        """Copies of some rows."""
        numbered = replace(self.places, weights=self.values.numpy()).take(rows)
        assert numbered.weights is not None
        return SparseRows(
            replace(numbered, weights=None, own=0), torch.from_numpy(numbered.weights)
        )

    def dropout(self, chance: float, training: bool) -> SparseRows:
        """Drop numbers at random and scale the others, as of a dense matrix."""
        return replace(self, values=dropout(self.values, chance, training))

    def linear(self, weight: Tensor) -> Tensor:
        """X W^T, with a gradient for W of shape (outputs, columns)."""
        return cast(Tensor, _Linear.apply(weight, self))  # type: ignore[no-untyped-call]


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, rows: SparseRows) -> Tensor:
        ctx.rows = rows
        return replace(rows.places, weights=rows.values.numpy()).times(weight.detach().t())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        places, values = ctx.rows.places, ctx.rows.values.numpy()
        turned = replace(places.transposed, weights=values[places.transposed_order])
        return turned.times(gradient).t(), None
