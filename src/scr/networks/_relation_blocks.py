"""The edges of a batch relation by relation, and a product with another weight for each of them.

A relation joins one type of nodes to another, so few rows receive by it, and few send. Each block
therefore knows only its own rows and columns: what is multiplied is as small as can be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from scr.compute import ends_of
from scr.encoders.layers import Adjacency, inverse
from scr.propagation import row_sums

Selection = slice | NDArray[np.int64]
"""Rows of a matrix: a range, which is taken without a copy, or their numbers."""


@dataclass(frozen=True, eq=False)
class RelationBlock:
    """The edges of one relation in one direction, each row scaled to a mean."""

    code: int
    rows: Selection
    """Nodes that receive."""
    columns: Selection
    """Nodes that send."""
    mean: Adjacency
    """Over these rows and columns only."""


def relation_blocks(adjacency: Adjacency) -> tuple[RelationBlock, ...]:
    """Cut an adjacency by its codes; made once and kept with it.

    Rows without an edge of a code get nothing from it: c_ir is 0 there.
    """
    blocks: tuple[RelationBlock, ...] | None = adjacency.__dict__.get("_relation_blocks")
    if blocks is None:
        receivers = np.repeat(np.arange(adjacency.rows), np.diff(adjacency.indptr))
        codes, weights = adjacency.codes, adjacency.weights
        if codes is None:
            codes = np.zeros(adjacency.num_edges, np.uint8)
        # Stable, so that the edges of a code stay in the order of the rows.
        order = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes, minlength=1))
        blocks = tuple(
            _block(code, receivers[edges], adjacency.indices[edges],
                   None if weights is None else weights[edges])
            for code, edges in enumerate(np.split(order, ends[:-1]))
            if len(edges)
        )  # fmt: skip
        adjacency.__dict__["_relation_blocks"] = blocks
    return blocks


def _block(
    code: int, receivers: NDArray[np.int64], senders: NDArray[Any],
    weights: NDArray[np.float32] | None,
) -> RelationBlock:  # fmt: skip
    rows, row_of, num_rows = _compact(receivers)
    columns, column_of, num_columns = _compact(senders)
    indptr = ends_of(np.bincount(row_of, minlength=num_rows))
    scale = inverse(row_sums(indptr, weights))
    mean = Adjacency(indptr, column_of.astype(np.int32), num_columns, weights, scale)
    return RelationBlock(code, rows, columns, mean)


def _compact(nodes: NDArray[Any]) -> tuple[Selection, NDArray[Any], int]:
    """The distinct nodes, the place of each node among them, and how many they are.

    Where they are more than half of a range, the range is taken: it needs no copy.
    """
    first = int(nodes.min())
    here = np.zeros(int(nodes.max()) - first + 1, np.bool_)
    here[nodes - first] = True
    count = int(np.count_nonzero(here))
    if 2 * count >= len(here):
        return slice(first, first + len(here)), nodes - first, len(here)
    return np.flatnonzero(here) + first, (np.cumsum(here) - 1)[nodes - first], count


def sum_over_relations(x: Tensor, weights: Tensor, adjacency: Adjacency) -> Tensor:
    """Sum over codes r of mean_r(x) W_r.

    As a single step of autograd, each block's gradient is added to the rows that it concerns; torch
    by itself would make a matrix of all rows for every block. From x of shape (columns, inputs) and
    W of shape (codes, inputs, outputs) to (rows, outputs).
    """
    blocks = relation_blocks(adjacency)
    return cast(Tensor, _RelationSum.apply(x, weights, blocks, adjacency.rows))  # type: ignore[no-untyped-call]


class _RelationSum(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weights: Tensor, blocks: Sequence[RelationBlock], rows: int
    ) -> Tensor:
        inputs, outputs = weights.shape[1:]
        out = x.new_zeros(rows, outputs)
        means: list[Tensor] = []
        for block in blocks:
            mean, weight = block.mean, weights[block.code]
            sent = _take(x, block.columns)
            if mean.transforms_first(inputs, outputs):
                received = mean.times(sent @ weight)
            else:
                means.append(mean.times(sent))
                received = means[-1] @ weight
            _add(out, block.rows, received)
        ctx.save_for_backward(x, weights, *means)
        ctx.blocks = blocks
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor, None, None]:
        x, weights, *means = ctx.saved_tensors
        inputs, outputs = weights.shape[1:]
        waiting = iter(means)
        by_x = torch.zeros_like(x) if ctx.needs_input_grad[0] else None
        by_weights = torch.zeros_like(weights)
        for block in ctx.blocks:
            received = _take(gradient, block.rows)
            mean, weight = block.mean, weights[block.code]
            if mean.transforms_first(inputs, outputs):
                sent = mean.transposed.times(received)
                torch.mm(_take(x, block.columns).t(), sent, out=by_weights[block.code])
                if by_x is not None:
                    _add(by_x, block.columns, sent @ weight.t())
            else:
                torch.mm(next(waiting).t(), received, out=by_weights[block.code])
                if by_x is not None:
                    _add(by_x, block.columns, mean.transposed.times(received @ weight.t()))
        return by_x, by_weights, None, None


def _take(x: Tensor, selection: Selection) -> Tensor:
    if isinstance(selection, slice):
        return x[selection]
    return x.index_select(0, torch.from_numpy(selection).to(x.device))


def _add(x: Tensor, selection: Selection, part: Tensor) -> None:
    """Add to rows that are all distinct, for which `index_add_` takes far longer on busy cores."""
    x[selection if isinstance(selection, slice) else torch.from_numpy(selection)] += part
