from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.propagation.graphs import graphs

from scr.propagation import edge_chunks, kernel
from scr.propagation.normalization import normalize


@settings(max_examples=50, deadline=None)
@given(
    drawn=graphs(),
    self_loops=st.booleans(),
    width=st.sampled_from([1, 3, 16, 17]),
    hub=st.sampled_from([2, 7, 1000]),
    share=st.floats(0, 1),
    seed=st.integers(0, 1000),
)
def test_chosen_rows_are_those_of_the_whole_product_to_the_bit(
    drawn, self_loops, width, hub, share, seed
):
    graph, _ = drawn
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(graph.num_nodes, width)).astype(np.float32)
    chosen = rng.random(graph.num_nodes) < share
    adjacency = normalize(graph, norm="row", self_loops=self_loops)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "HUB_EDGES", hub)
        expected, made = np.full_like(matrix, np.nan), np.full_like(matrix, np.nan)
        assert kernel.product(adjacency, matrix, expected, threads=1)
        assert edge_chunks.product_by_chunks(
            adjacency, matrix, made, chunks=edge_chunks.edge_chunks(adjacency.indptr, 10),
            threads=2, rows=np.flatnonzero(chosen),
        )  # fmt: skip
    assert np.array_equal(made[chosen].view(np.uint32), expected[chosen].view(np.uint32))
    assert np.isnan(made[~chosen]).all()
