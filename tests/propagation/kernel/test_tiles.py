from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.propagation.graphs import graphs

from scr.compute import aligned_empty
from scr.propagation import NormalizedAdjacency, normalize
from scr.propagation.disk import _edge_chunks as edge_chunks
from scr.propagation.kernel import _product as kernel
from scr.propagation.kernel import _rows as rows_module
from scr.propagation.kernel import _tiles as tiles

KNOWN = {bits: [1.0, 0.0] for bits in range(64)}
"""Tiles are faster for matrices of any size."""


@settings(max_examples=60, deadline=None)
@given(
    drawn=graphs(),
    norm=st.sampled_from(["row", "col"]),
    self_loops=st.booleans(),
    width=st.sampled_from([16, 32]),
    dtype=st.sampled_from(["float32", "float16"]),
    hub=st.sampled_from([2, 7, 1000]),
    tile=st.sampled_from([1, 256, 4096]),
    probe=st.sampled_from([0, 1, 3]),
    seed=st.integers(0, 1000),
)
def test_tiles_change_no_bit(drawn, norm, self_loops, width, dtype, hub, tile, probe, seed):
    graph, _ = drawn
    rng = np.random.default_rng(seed)
    matrix = aligned_empty((graph.num_nodes, width), dtype)
    matrix[...] = rng.normal(size=matrix.shape)
    found = normalize(graph, norm=norm, self_loops=self_loops)
    adjacency = NormalizedAdjacency(
        found.indptr, found.indices, None, found.row_scale, found.column_scale, self_loops
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows_module, "HUB_EDGES", hub)
        expected = np.full_like(matrix, np.nan)
        assert not tiles.tiles_may_pay(matrix, None)
        assert kernel.product(adjacency, matrix, expected, threads=1)
        patch.setattr(tiles, "TILED_BYTES", 0)
        patch.setattr(tiles, "CACHE_LINE", 128)  # float32 too
        patch.setattr(tiles, "TILE_BYTES", tile)
        patch.setattr(kernel, "PROBE_EDGES", max(probe, 1))
        # Measured on the way, or known to be faster.
        patch.setattr(kernel, "_seconds", {} if probe else dict(KNOWN))
        patch.setattr(tiles, "PIECE_EDGES", 5)
        patch.setattr(tiles, "PIECE_ROWS", 3)
        whole, parts = np.full_like(matrix, np.nan), np.full_like(matrix, np.nan)
        assert kernel.product(adjacency, matrix, whole, threads=2)
        assert edge_chunks.product_by_chunks(
            adjacency, matrix, parts, chunks=edge_chunks.edge_chunks(adjacency.indptr, 10),
            threads=2,
        )  # fmt: skip
    assert np.array_equal(whole, expected)
    assert np.array_equal(parts, expected)


def test_a_sum_beyond_float16_is_told_of():
    indptr, indices = np.array([0, 2, 2, 2]), np.array([1, 2], np.int32)
    adjacency = NormalizedAdjacency(indptr, indices, None, None, None, False)
    matrix = aligned_empty((3, 16), "float16")
    matrix[...] = 60_000
    out = np.zeros_like(matrix)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "TILED_BYTES", 0)
        patch.setattr(kernel, "_seconds", KNOWN)
        assert not kernel.product(adjacency, matrix, out, threads=1)


def test_the_way_that_was_faster_is_gone(monkeypatch):
    indptr, indices = np.arange(101) * 2, np.zeros(200, np.int32)
    adjacency = NormalizedAdjacency(indptr, indices, None, None, None, False)
    matrix = aligned_empty((100, 16), "float16")
    matrix[...] = 1
    out, gone = np.zeros_like(matrix), []
    # Three seconds in registers, one by tiles, then five each: something else ran.
    clock = iter([0.0, 3.0, 10.0, 11.0, 20.0, 25.0, 30.0, 35.0])

    def way(name, done):
        def go(indptr, chunk, arrays, threads):
            gone.append((name, chunk.first, chunk.last))
            return done(indptr, chunk, arrays, threads)

        return go

    ways = (way("registers", kernel._in_registers), way("tiles", tiles.product_by_tiles))
    monkeypatch.setattr(kernel, "_WAYS", ways)
    monkeypatch.setattr(kernel, "_seconds", {})
    monkeypatch.setattr(kernel, "PROBE_EDGES", 20)
    monkeypatch.setattr(kernel, "PROBES", 2)
    monkeypatch.setattr(kernel.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(tiles, "TILED_BYTES", 0)
    assert kernel.product(adjacency, matrix, out, threads=1)
    probes = [("registers", 0, 10), ("tiles", 10, 20), ("registers", 20, 30), ("tiles", 30, 40)]
    twice = [each for each in probes for _ in range(2)]  # the first time without the clock
    assert gone == [*twice, ("tiles", 40, 100)]
    assert (out == 2).all()
