from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.propagation.graphs import graphs, make_graph, random_matrix

from scr.propagation import normalize, propagate
from scr.propagation.disk import _edge_chunks as edge_chunks
from scr.propagation.disk import _plan as disk_plan
from scr.propagation.disk import _reach as reach
from scr.propagation.kernel import _product as kernel
from scr.propagation.kernel import _rows as rows_module
from scr.propagation.kernel import _tiles as tiles
from scr.propagation.kernel import product
from scr.sources import load_graph


@settings(max_examples=100, deadline=None)
@given(
    drawn=graphs(),
    self_loops=st.booleans(),
    hops=st.integers(1, 4),
    share=st.floats(0, 0.5),
    nodes_per_edge=st.sampled_from([2, 0.2, 0.02]),
    seed=st.integers(0, 1000),
)
def test_reached_rows_are_those_that_powers_of_the_matrix_reach(
    drawn, self_loops, hops, share, nodes_per_edge, seed
):
    graph, _ = drawn
    count = graph.num_nodes
    adjacency = normalize(graph, norm="sym", self_loops=self_loops)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reach, "NODES_PER_EDGE", nodes_per_edge)
        patch.setattr(edge_chunks, "CHUNK_ROWS", 11)
        patch.setattr(reach, "CHUNK_ROWS", 7)
        kept = np.flatnonzero(np.random.default_rng(seed).random(count) < share)
        found = reach.reached_hops(adjacency, kept, hops, chunk_edges=5)
    # By the definition: rows of each hop that have a path to a kept one, through dense matrices.
    steps = (adjacency.to_scipy().toarray() > 0) | (self_loops * np.eye(count, dtype=bool))
    expected = np.isin(np.arange(count), kept)
    assert hops in found
    for hop in range(hops, min(found) - 1, -1):
        rows = found[hop].rows.between(0, count)
        assert np.array_equal(rows, np.flatnonzero(expected))
        places = np.arange(len(rows)) if found[hop].kept is None else found[hop].kept
        assert np.array_equal(rows[places], kept)
        expected = expected @ steps > 0
        expected[kept] = True
    assert all(found[hop].edges is not None for hop in found if hop > min(found))


def test_held_edges_make_the_same_rows_as_all_edges():
    rng = np.random.default_rng(0)
    graph = make_graph(random_matrix(rng, 500, 2000, directed=True, weighted=True), directed=True)
    adjacency = normalize(graph, norm="sym", self_loops=True, direction="out")
    x = rng.normal(size=(500, 16)).astype(np.float32)
    whole = np.empty_like(x)
    product(adjacency, x, whole)
    kept = np.array([3, 77, 400])
    found = reach.reached_hops(adjacency, kept, 2)
    made = np.empty((3, 16), np.float32)
    product(found[2].edges, x[found[1].rows.between(0, 500)], made)
    assert made.tobytes() == whole[kept].tobytes()


def test_an_edge_of_a_row_to_itself_is_added_last_however_large_the_matrix_is(monkeypatch):
    monkeypatch.setattr(tiles, "TILED_BYTES", 0)
    monkeypatch.setattr(tiles, "TILE_BYTES", 1000)
    monkeypatch.setattr(kernel, "_by_the_faster", tiles.product_by_tiles)
    rng = np.random.default_rng(0)
    matrix = random_matrix(rng, 4000, 40_000, directed=False, weighted=False)
    adjacency = normalize(make_graph(matrix, directed=False, weighted=False), self_loops=True)
    x = rng.normal(size=(4000, 16)).astype(np.float32)
    whole = np.empty_like(x)
    product(adjacency, x, whole)
    kept = np.arange(5, 4000, 100)
    edges = reach.reached_hops(adjacency, kept, 1)[1].edges
    assert edges is not None
    made = np.empty((len(kept), 16), np.float32)
    reach.product_along_held(edges, x, made)
    assert made.tobytes() == whole[kept].tobytes()
    product(edges, x, made)  # by tiles, which moves the edge
    assert made.tobytes() != whole[kept].tobytes()


def test_rows_of_a_set_are_scaled_as_among_all(monkeypatch):
    monkeypatch.setattr(reach, "CHUNK_ROWS", 100)
    rng = np.random.default_rng(0)
    x, scale = rng.normal(size=(500, 16)).astype(np.float32), rng.random(500, np.float32)
    rows = reach.RowSet(500, np.array([0, 99, 100, 350, 499]))
    hop = x[rows.between(0, 500)]
    reach.scale_reached(hop, scale, rows, threads=2)
    assert np.array_equal(hop, (x * scale[:, None])[rows.between(0, 500)])
    reach.scale_reached(x, None, None, threads=2)
    whole = x.copy()
    reach.scale_reached(whole, scale, None, threads=2)
    assert np.array_equal(whole, x * scale[:, None])


def stored(path, *, nodes, edges, hub=0, columns=20):
    rng = np.random.default_rng(5)
    matrix = random_matrix(rng, nodes, edges, directed=False, weighted=False).tolil()
    matrix[0, : hub + 1] = matrix[: hub + 1, 0] = 1
    graph = make_graph(matrix.tocsr(), directed=False, weighted=False)
    features = rng.normal(size=(nodes, columns)).astype(np.float32)
    return load_graph(str(replace(graph, features=features).save(path)))


@pytest.mark.parametrize("hops", [1, 2, 3, 4])
@pytest.mark.parametrize("self_loops", [False, True])
@pytest.mark.parametrize("hub", [0, 300])
@pytest.mark.parametrize("by_tiles", [False, True])
def test_few_kept_rows_are_those_of_all(tmp_path, monkeypatch, hops, self_loops, hub, by_tiles):
    monkeypatch.setattr(rows_module, "HUB_EDGES", 100)
    if by_tiles:
        monkeypatch.setattr(tiles, "TILED_BYTES", 0)
        monkeypatch.setattr(tiles, "TILE_BYTES", 1000)
        monkeypatch.setattr(kernel, "_by_the_faster", tiles.product_by_tiles)
    graph = stored(tmp_path / "store", nodes=5000, edges=15_000, hub=hub, columns=16)
    kept = np.array([0, 17, 400, 4999])
    asked = {"hops": hops, "self_loops": self_loops, "dtype": "float32"}
    made = propagate(graph, **asked, rows=kept, out=tmp_path / "hops")
    expected = np.asarray(propagate(graph, **asked))[kept]
    assert np.asarray(made).tobytes() == expected.tobytes()


def test_a_second_matrix_of_few_rows_fits_where_two_whole_ones_do_not(tmp_path, monkeypatch):
    monkeypatch.setattr(disk_plan, "LIBRARY_BYTES", 0)
    monkeypatch.setattr(disk_plan, "process_budget", lambda _: budget)
    monkeypatch.setattr(disk_plan, "resident_bytes", lambda: 0)
    graph = stored(tmp_path / "store", nodes=60_000, edges=120_000, columns=64)
    kept = np.arange(0, 60_000, 600)
    config = disk_plan.PropagationConfig(hops=2, dtype="float32")
    request = disk_plan.DiskRequest(graph, config, graph.features, kept)
    budget = 2**40
    whole = request.plan(tmp_path / "hops")
    assert whole.spare_rows == 60_000
    edges = graph.indices.nbytes  # which stay in memory if they fit
    budget = whole.memory_bytes - edges - 1
    plan = request.plan(tmp_path / "hops")
    # Every kept row with all of its neighbors.
    assert plan.spare_rows == np.diff(graph.indptr)[kept].sum() + len(kept)
    assert plan.block_columns == 64
    assert plan.memory_bytes < budget
    made = propagate(graph, hops=2, rows=kept, out=tmp_path / "hops")
    assert np.asarray(made).tobytes() == np.asarray(propagate(graph, hops=2))[kept].tobytes()
