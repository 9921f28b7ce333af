from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.propagation.graphs import graphs, make_graph

from scr.propagation import normalize
from scr.propagation.disk import _edge_chunks as edge_chunks
from scr.propagation.kernel import _chosen_rows as chosen_rows
from scr.propagation.kernel import _product as kernel
from scr.propagation.kernel import _rows as rows_module
from scr.propagation.kernel._row_sets import RowSet


@settings(max_examples=50, deadline=None)
@given(
    drawn=graphs(),
    self_loops=st.booleans(),
    width=st.sampled_from([1, 3, 16, 17]),
    hub=st.sampled_from([2, 7, 1000]),
    part=st.sampled_from([1, 9, 1000]),
    share=st.floats(0, 1),
    gap=st.sampled_from([0, 3, 1000]),
    seed=st.integers(0, 1000),
)
def test_chosen_rows_are_those_of_the_whole_product_to_the_bit(
    drawn, self_loops, width, hub, part, share, gap, seed
):
    graph, _ = drawn
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(graph.num_nodes, width)).astype(np.float32)
    chosen = rng.random(graph.num_nodes) < share
    adjacency = normalize(graph, norm="row", self_loops=self_loops)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows_module, "HUB_EDGES", hub)
        patch.setattr(chosen_rows, "PART_EDGES", part)
        patch.setattr(edge_chunks, "GAP_EDGES", gap)
        patch.setattr(edge_chunks, "CHUNK_ROWS", 11)
        expected = np.full_like(matrix, np.nan)
        made = np.full((chosen.sum(), width), np.nan, np.float32)
        assert kernel.product(adjacency, matrix, expected, threads=1)
        rows = RowSet(graph.num_nodes, np.flatnonzero(chosen))
        assert edge_chunks.product_by_chunks(
            adjacency, matrix, made, chunks=edge_chunks.edge_chunks(adjacency.indptr, 10, rows),
            threads=2, rows=rows,
        )  # fmt: skip
    assert np.array_equal(made.view(np.uint32), expected[chosen].view(np.uint32))


def test_however_many_rows_are_chosen_little_memory_is_taken():
    count, edges = 150_000, 2_000_000
    ends = np.random.default_rng(0).integers(0, count, (2, edges))
    matrix = sp.coo_array((np.ones(edges), tuple(ends)), shape=(count, count)).tocsr()
    adjacency = normalize(make_graph(matrix, directed=False, weighted=False), norm="row")
    x, out = np.ones((count, 64), np.float32), np.empty((count - 1, 64), np.float32)
    rows = RowSet(count, np.arange(1, count))
    chunks = edge_chunks.edge_chunks(adjacency.indptr, rows=rows)
    tracemalloc.start()
    edge_chunks.product_by_chunks(adjacency, x, out, chunks=chunks, threads=1, rows=rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * 2**20
