from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.propagation.graphs import graphs

from scr.propagation import normalize
from scr.propagation.disk import _edge_chunks as edge_chunks
from scr.propagation.kernel import _nonzero_rows as nonzero_rows
from scr.propagation.kernel import _product as kernel
from scr.propagation.kernel import _rows as rows_module


@settings(max_examples=50, deadline=None)
@given(
    drawn=graphs(),
    self_loops=st.booleans(),
    width=st.sampled_from([1, 3, 16, 17]),
    hub=st.sampled_from([2, 7, 1000]),
    filled=st.floats(0, 1),
    seed=st.integers(0, 1000),
)
def test_leaving_out_zero_rows_changes_no_bit(drawn, self_loops, width, hub, filled, seed):
    graph, _ = drawn
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(graph.num_nodes, width)).astype(np.float32)
    matrix *= rng.random((graph.num_nodes, 1)) < filled
    adjacency = normalize(graph, norm="row", self_loops=self_loops)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows_module, "HUB_EDGES", hub)
        patch.setattr(nonzero_rows, "MOST_FILLED", 1)
        patch.setattr(nonzero_rows, "ROWS_PER_TASK", 5)
        patch.setattr(nonzero_rows, "ROWS_PER_STEP", 8)
        expected, made = np.full_like(matrix, np.nan), np.full_like(matrix, np.nan)
        assert kernel.product(adjacency, matrix, expected, threads=1)
        assert edge_chunks.product_by_chunks(
            adjacency, matrix, made, chunks=edge_chunks.edge_chunks(adjacency.indptr, 10),
            threads=2, nonzero=nonzero_rows.nonzero_bits(matrix),
        )  # fmt: skip
    assert np.array_equal(made.view(np.uint32), expected.view(np.uint32))


def test_bits_tell_which_rows_are_not_zero():
    matrix = np.zeros((100, 3), np.float32)
    filled = [0, 7, 8, 63, 99]
    matrix[filled, [0, 1, 2, 0, 1]] = [1, -1, 1e-30, 2, 3]
    bits = nonzero_rows.nonzero_bits(matrix)
    assert np.flatnonzero(np.unpackbits(bits, bitorder="little")).tolist() == filled


def test_there_are_no_bits_where_too_many_rows_are_filled():
    matrix = np.zeros((100, 3), np.float32)
    matrix[:25] = 1
    assert nonzero_rows.nonzero_bits(matrix) is not None
    matrix[25] = 1
    assert nonzero_rows.nonzero_bits(matrix) is None
