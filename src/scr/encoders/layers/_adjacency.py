"""Sparse rows that a layer sums over: the neighbors of some nodes, and the product with them.

An encoder that reads the graph multiplies activations by the adjacency in every layer, forward, and
by its transpose, backward. Both products are those of `scr.propagation.kernel`, so results are the
same to the last bit for any number of threads; the transpose is made when it is first needed and
kept. Other devices and precisions take torch's own `index_add`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from scr.compute import empty, ends_of
from scr.encoders.fused._parallel import fits_kernels
from scr.propagation import NormalizedAdjacency
from scr.propagation.kernel import product

PRODUCT_SPEEDUP = 16
"""Multiplications that a dense product does in the time in which a gather does one."""


@dataclass(frozen=True, eq=False)
class Adjacency:
    """Receiving nodes by row, sending nodes by column: out_i = r_i sum_j w_ij c_j x_j."""

    indptr: NDArray[np.int64]
    """Shape (rows + 1,)."""
    indices: NDArray[Any]
    """Shape (edges,)."""
    columns: int
    weights: NDArray[np.float32] | None = None
    """w, one per edge; none: all are 1."""
    row_scale: NDArray[np.float32] | None = None
    """r, one per row; none: all are 1."""
    column_scale: NDArray[np.float32] | None = None
    """c, one per column; none: all are 1."""
    codes: NDArray[Any] | None = None
    """The relation and direction of each edge; none where all edges are alike."""
    own: int | NDArray[np.int64] = 0
    """The column that is each row's own node: the first of a range of columns, or all of them."""

    @property
    def rows(self) -> int:
        """How many nodes receive."""
        return len(self.indptr) - 1

    @property
    def num_edges(self) -> int:
        """How many edges there are."""
        return int(self.indptr[-1])

    def own_rows(self, x: Tensor) -> Tensor:
        """What the receiving nodes have themselves. Shape (rows, features)."""
        if isinstance(self.own, int):
            return x[self.own : self.own + self.rows]
        return x.index_select(0, torch.from_numpy(self.own).to(x.device))

    def multiply(self, x: Tensor) -> Tensor:
        """Sum over neighbors, from (columns, features) to (rows, features), with a gradient."""
        return cast(Tensor, _Product.apply(x, self))  # type: ignore[no-untyped-call]

    def times(self, x: Tensor) -> Tensor:
        """As `multiply`, without a gradient."""
        x = x.detach()
        if self.column_scale is not None:
            x = x * _vector(self.column_scale, x)[:, None]
        if not fits_kernels(x):
            return self._times_elsewhere(x)
        sums = empty((self.rows, x.shape[1]), x)
        matrix = NormalizedAdjacency(
            self.indptr, self.indices, self.weights, self.row_scale, None, self_loops=False
        )
        threads = torch.get_num_threads()
        product(matrix, x.contiguous().numpy(), sums.numpy(), threads=threads)
        return sums

    def _times_elsewhere(self, x: Tensor) -> Tensor:
        """On any device, in any precision, with a copy of a row for each edge."""
        senders, receivers = self.edge_index(x.device)
        gathered = x.index_select(0, senders)
        if self.weights is not None:
            gathered = gathered * _vector(self.weights, x)[:, None]
        sums = x.new_zeros(self.rows, x.shape[1])
        sums.index_add_(0, receivers, gathered)
        return sums if self.row_scale is None else sums * _vector(self.row_scale, x)[:, None]

    def edge_index(self, device: torch.device) -> Tensor:
        """Senders and receivers of all edges, by receiver; made once for a device."""
        if device not in self._pairs:
            receivers = np.repeat(np.arange(self.rows), np.diff(self.indptr))
            pairs = np.stack([self.indices.astype(np.int64), receivers])
            self._pairs[device] = torch.from_numpy(pairs).to(device)
        return self._pairs[device]

    @cached_property
    def _pairs(self) -> dict[torch.device, Tensor]:
        return {}

    @cached_property
    def transposed(self) -> Adjacency:
        """Sending nodes by row, for gradients."""
        values = np.ones(len(self.indices), np.int8) if self.weights is None else self.weights
        turned = self._turned(values)
        return Adjacency(
            turned.indptr.astype(np.int64, copy=False), turned.indices, self.rows,
            None if self.weights is None else turned.data.astype(np.float32, copy=False),
            self.column_scale, self.row_scale,
        )  # fmt: skip

    @cached_property
    def transposed_order(self) -> NDArray[np.int64]:
        """The place of each edge of `transposed` among the edges."""
        places = np.arange(len(self.indices), dtype=np.int64)
        return cast("NDArray[np.int64]", self._turned(places).data)

    def _turned(self, values: NDArray[Any]) -> sp.csr_array:
        shape = (self.rows, self.columns)
        return sp.csr_array((values, self.indices, self.indptr), shape=shape).T.tocsr()

    def first_rows(self, rows: int, columns: int) -> Adjacency:
        """The first rows, which have no edges to columns beyond the first ones."""
        if (rows, columns) == (self.rows, self.columns):
            return self
        some = self.range(0, rows)
        scale = None if self.column_scale is None else self.column_scale[:columns]
        return replace(some, columns=columns, column_scale=scale)

    def range(self, start: int, stop: int) -> Adjacency:
        """A range of rows, with views of their edges."""
        first, last = int(self.indptr[start]), int(self.indptr[stop])
        own = self.own + start if isinstance(self.own, int) else self.own[start:stop]
        indptr = self.indptr[start : stop + 1] - first
        return self._select(indptr, slice(start, stop), slice(first, last), own)

    def take(self, rows: NDArray[np.int64]) -> Adjacency:
        """Some rows in any order, with copies of their edges; rows may repeat."""
        starts = self.indptr[rows]
        counts = self.indptr[rows + 1] - starts
        indptr = ends_of(counts)
        edges = np.repeat(starts - indptr[:-1], counts) + np.arange(indptr[-1])
        own = self.own + rows if isinstance(self.own, int) else self.own[rows]
        return self._select(indptr, rows, edges, own)

    def _select(self, indptr: NDArray[np.int64], rows: Any, edges: Any, own: Any) -> Adjacency:
        return replace(
            self, indptr=indptr, indices=np.asarray(self.indices[edges]),
            weights=None if self.weights is None else self.weights[edges],
            row_scale=None if self.row_scale is None else self.row_scale[rows],
            codes=None if self.codes is None else np.asarray(self.codes[edges]), own=own,
        )  # fmt: skip

    def transforms_first(self, inputs: int, outputs: int) -> bool:
        """Whether A (X W) is less work than (A X) W, for W of shape (inputs, outputs)."""
        dense = inputs * outputs / PRODUCT_SPEEDUP
        after = self.num_edges * inputs + self.rows * dense
        return self.num_edges * outputs + self.columns * dense < after


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, adjacency: Adjacency) -> Tensor:
        ctx.adjacency = adjacency
        return adjacency.times(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, None]:
        if not ctx.needs_input_grad[0]:
            return None, None
        return ctx.adjacency.transposed.times(gradient), None


def _vector(numbers: NDArray[np.float32], like: Tensor) -> Tensor:
    return torch.from_numpy(np.array(numbers)).to(like.device, like.dtype)


def inverse(sums: NDArray[Any], power: float = -1.0) -> NDArray[np.float32]:
    """sums^power in float32, 0 where a sum is 0."""
    powers = np.zeros(len(sums), np.float64)
    np.power(np.asarray(sums, np.float64), power, out=powers, where=np.asarray(sums) > 0)
    return powers.astype(np.float32)
