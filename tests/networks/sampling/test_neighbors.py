from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import make_random_graph
from tests.networks.sampling.references import (
    assert_is_a_part_of,
    assert_same_batch,
    global_edges,
    small_graph,
    threads_for_little_work,
)
from tests.propagation.graphs import graphs

from scr.errors import ConfigError, GraphError
from scr.graph import Graph
from scr.networks.sampling import NeighborSampler, induced_subgraph

FANOUTS = st.lists(st.integers(1, 6) | st.just(-1), min_size=1, max_size=3)


def drawn_seeds(data, graph):
    return data.draw(st.lists(st.integers(0, graph.num_nodes - 1), unique=True, max_size=8))


@given(graphs(), FANOUTS, st.data())
def test_sampled_neighbors_are_neighbors_and_none_comes_twice(made, fanouts, data):
    graph, _ = made
    seeds = drawn_seeds(data, graph)
    batch = NeighborSampler(graph, fanouts, seed=3).sample(seeds, step=5)
    assert_is_a_part_of(graph, batch)
    assert batch.nodes[: batch.num_seeds].tolist() == seeds


@given(graphs(), FANOUTS, st.data())
def test_each_node_gets_as_many_neighbors_as_its_hop_says(made, fanouts, data):
    graph, _ = made
    batch = NeighborSampler(graph, fanouts).sample(drawn_seeds(data, graph))
    degrees = np.diff(graph.indptr)[batch.nodes]
    outwards = batch.layer_nodes[::-1]  # of the seeds, of the seeds and the first hop...
    assert len(outwards) == len(fanouts) + 1
    assert outwards[0] == batch.num_seeds
    assert outwards[-1] == batch.num_nodes
    found = np.diff(batch.indptr)
    begins = (0, *outwards)
    for hop, fanout in enumerate(fanouts):
        row = slice(begins[hop], begins[hop + 1])
        expected = degrees[row] if fanout == -1 else np.minimum(degrees[row], fanout)
        np.testing.assert_array_equal(found[row], expected)
    assert found[outwards[-2] :].sum() == 0  # the outermost nodes only give


@given(graphs(), FANOUTS, st.data())
def test_a_layer_needs_only_the_rows_and_edges_that_the_batch_says(made, fanouts, data):
    graph, _ = made
    batch = NeighborSampler(graph, fanouts).sample(drawn_seeds(data, graph))
    for layer, edges in enumerate(batch.layer_edges):
        sources, targets = batch.edge_index()
        assert (targets[:edges] < batch.layer_nodes[layer + 1]).all()
        assert (targets[edges:] >= batch.layer_nodes[layer + 1]).all()
        assert (sources[:edges] < batch.layer_nodes[layer]).all()


@given(graphs(), st.data())
def test_all_neighbors_come_when_the_fanout_covers_the_degree(made, data):
    graph, matrix = made
    seeds = drawn_seeds(data, graph)
    for fanout in (-1, graph.num_nodes):
        batch = NeighborSampler(graph, (fanout,)).sample(seeds)
        expected = [(v, u) for v in seeds for u in np.flatnonzero(matrix.toarray()[v])]
        assert [tuple(edge) for edge in global_edges(batch).tolist()] == expected


@given(graphs(), FANOUTS, st.integers(2, 4), st.data())
def test_any_number_of_threads_gives_the_same_bits(made, fanouts, threads, data):
    graph, _ = made
    seeds = drawn_seeds(data, graph)
    one = NeighborSampler(graph, fanouts, seed=1, threads=1).sample(seeds, 7)
    with threads_for_little_work():
        many = NeighborSampler(graph, fanouts, seed=1, threads=threads).sample(seeds, 7)
    assert_same_batch(many, one)


def test_a_sampler_may_be_used_from_several_threads_at_once():
    graph = Graph.from_edges(np.random.default_rng(0).integers(0, 500, (2, 5000)))
    sampler = NeighborSampler(graph, (5, 5, 5), threads=2)
    seeds = np.arange(40)
    alone = [NeighborSampler(graph, (5, 5, 5)).sample(seeds, step) for step in range(32)]
    with threads_for_little_work(), ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda step: sampler.sample(seeds, step), range(32)))
    for one, other in zip(together, alone, strict=True):
        assert_same_batch(one, other)


def test_what_is_drawn_for_a_node_does_not_depend_on_the_other_seeds():
    graph = Graph.from_edges(np.random.default_rng(0).integers(0, 50, (2, 600)))
    sampler = NeighborSampler(graph, (4,))
    alone = global_edges(sampler.sample([7], 3)).tolist()
    for seeds in ([7, 8, 9], [20, 7]):
        edges = global_edges(sampler.sample(seeds, 3)).tolist()
        assert [edge for edge in edges if edge[0] == 7] == alone


def test_seed_and_step_change_what_is_drawn():
    graph = Graph.from_edges(np.random.default_rng(0).integers(0, 50, (2, 600)))
    found = {
        NeighborSampler(graph, (3,), seed).sample(range(50), step).edges.tobytes()
        for seed in range(3)
        for step in range(3)
    }
    assert len(found) == 9


def test_the_mean_over_sampled_neighbors_is_unbiased():
    rng = np.random.default_rng(0)
    graph = Graph.from_edges(rng.integers(0, 40, (2, 300)), num_nodes=40)
    values, fanout, draws = rng.normal(size=40), 3, 3000
    sampler = NeighborSampler(graph, (fanout,))
    total = np.zeros(40)
    for step in range(draws):
        batch = sampler.sample(np.arange(40), step)
        sums = np.add.reduceat(values[batch.nodes[batch.indices]], batch.indptr[:40])
        total += sums / np.diff(batch.indptr)[:40]
    for node in range(40):
        around = values[graph.indices[graph.indptr[node] : graph.indptr[node + 1]]]
        degree = len(around)
        assert degree > 1
        # Variance of a mean without replacement (Cochran 1977, theorem 2.2), over all draws.
        taken = min(fanout, degree)
        variance = around.var(ddof=1) / taken * (1 - taken / degree) / draws
        assert abs(total[node] / draws - around.mean()) < 5 * np.sqrt(variance) + 1e-9


@given(graphs(), st.integers(1, 5))
def test_edge_weights_restore_the_degree(made, fanout):
    graph, _ = made
    batch = NeighborSampler(graph, (fanout, fanout), normalize=True).sample([0])
    rows = batch.edge_index()[1]
    sums = np.bincount(rows, weights=batch.edge_weight, minlength=batch.num_nodes)
    degrees = np.where(np.diff(batch.indptr) > 0, np.diff(graph.indptr)[batch.nodes], 0)
    np.testing.assert_allclose(sums, degrees, rtol=1e-6)


def test_unlimited_hops_reach_what_the_full_graph_computes():
    # Two layers of sums over sampled edges, trimmed layer by layer, against the dense product.
    graph = small_graph()
    dense = graph.adjacency().toarray()
    batch = NeighborSampler(graph, (-1, -1)).sample([5, 0])
    rows = np.eye(10)[batch.nodes]
    for layer, edges in enumerate(batch.layer_edges):
        sources, targets = batch.edge_index()[:, :edges]
        summed = np.zeros((batch.layer_nodes[layer + 1], 10))
        np.add.at(summed, targets, rows[: batch.layer_nodes[layer]][sources])
        rows = summed
    np.testing.assert_array_equal(rows, (dense @ dense)[[5, 0]])


def test_no_seeds_give_an_empty_batch():
    batch = NeighborSampler(small_graph(), (2, 2)).sample([])
    assert (batch.num_nodes, batch.num_edges, batch.layer_nodes) == (0, 0, (0, 0, 0))


def test_a_graph_on_disk_is_sampled_like_one_in_memory(tmp_path):
    from scr.graph import open_store

    graph = small_graph()
    stored = open_store(graph.save(tmp_path / "graph.store"))
    batch = NeighborSampler(stored, (2, 2)).sample([0, 7])
    assert_same_batch(batch, NeighborSampler(graph, (2, 2)).sample([0, 7]))
    assert_same_batch(induced_subgraph(stored, [0, 1]), induced_subgraph(graph, [0, 1]))


@pytest.mark.parametrize("fanouts", [(), (0,), (5, -2), (2.5,)])
def test_fanouts_that_cannot_work_are_refused(fanouts):
    with pytest.raises(ConfigError, match="fanouts"):
        NeighborSampler(small_graph(), fanouts)


@pytest.mark.parametrize(("seeds", "message"), [([3, 3], "Node 3 is named"), ([10], "Node 10")])
def test_seeds_that_cannot_work_are_refused(seeds, message):
    with pytest.raises(GraphError, match=message):
        NeighborSampler(small_graph(), (2,)).sample(seeds)


def test_numbers_of_numpy_are_numbers():
    graph = make_random_graph()
    expected = NeighborSampler(graph, (3, 2), seed=3).sample([0, 1], 4).nodes
    found = NeighborSampler(graph, (3, 2), seed=np.int64(3)).sample([0, 1], np.int64(4)).nodes
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"seed": "a"}, "seed"), ({"seed": -1}, "seed"), ({"fanouts": 10}, "fanouts")],
)
def test_settings_that_cannot_work_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        NeighborSampler(make_random_graph(), **settings)
