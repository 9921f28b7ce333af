import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.networks.sampling.references import (
    assert_is_a_part_of,
    assert_same_batch,
    small_graph,
    stored_edges,
    threads_for_little_work,
)
from tests.propagation.graphs import graphs

from scr.errors import ConfigError, GraphError
from scr.graph import Graph
from scr.networks.sampling import SaintSampler, induced_subgraph

KINDS = ("node", "edge", "walk")


def closed_forms(graph, kind, size):
    """Chance of each node, and of both ends of each stored edge, to be in a subgraph."""
    dense = graph.adjacency().toarray()
    degrees = dense.sum(1)
    if kind == "node":
        looped = (dense + np.eye(len(dense))) / (degrees + 1)[:, None]
        single = (looped**2).sum(0)
        single /= single.sum()
        shared = np.zeros_like(dense)  # a draw is never two nodes
    else:
        pairs = np.triu(dense * (1 / degrees[:, None] + 1 / degrees))
        pairs /= pairs.sum()
        shared = pairs + pairs.T
        single = shared.sum(1)
    # Neither in all draws, by inclusion and exclusion of "v is never drawn".
    never = (1 - single) ** size
    neither = (1 - single[:, None] - single + shared) ** size
    both = 1 - never[:, None] - never + neither
    rows, columns = stored_edges(graph).T
    return 1 - never, both[rows, columns]


@pytest.mark.parametrize("kind", ["node", "edge"])
def test_counts_agree_with_the_closed_form(kind):
    graph = small_graph()
    counts = SaintSampler(graph, kind, 3, coverage=2000).counts
    nodes, edges = closed_forms(graph, kind, 3)
    for found, chance in ((counts.node_counts, nodes), (counts.edge_counts, edges)):
        deviation = np.sqrt(chance * (1 - chance) / counts.subgraphs)
        assert (np.abs(found / counts.subgraphs - chance) < 5 * deviation).all()


@pytest.mark.parametrize("kind", KINDS)
def test_over_the_counted_subgraphs_loss_and_aggregation_are_exact(kind):
    # With the paper's counts, the mean over those very subgraphs is an identity.
    graph, rng = small_graph(), np.random.default_rng(0)
    losses, features = rng.random(10), rng.normal(size=10)
    sampler = SaintSampler(graph, kind, 3, coverage=60)
    assert sampler.counts.edge_counts.min() > 0
    loss, sums = 0.0, np.zeros(10)
    for number in range(sampler.counts.subgraphs):
        batch = sampler.counted_subgraph(number)
        loss += batch.node_weight @ losses[batch.nodes]
        received = batch.edge_weight * features[batch.nodes[batch.indices]]
        np.add.at(sums, batch.nodes[batch.edge_index()[1]], received)
    np.testing.assert_allclose(loss / sampler.counts.subgraphs, losses.sum(), rtol=1e-5)
    full = graph.adjacency() @ features
    np.testing.assert_allclose(sums / sampler.counts.node_counts, full, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_over_new_subgraphs_loss_and_aggregation_are_unbiased(kind):
    graph, rng = small_graph(), np.random.default_rng(1)
    # Losses that grow with the degree, so that without weights the hub would show.
    losses, features = rng.random(10) + np.diff(graph.indptr), rng.normal(size=10)
    sampler = SaintSampler(graph, kind, 3, coverage=600)
    draws = sampler.counts.subgraphs
    loss, plain = np.empty(draws), np.empty(draws)
    sums, squares, seen = np.zeros(10), np.zeros(10), np.zeros(10)
    for step in range(draws):
        batch = sampler.sample(step)
        loss[step] = batch.node_weight @ losses[batch.nodes]
        plain[step] = losses[batch.nodes].sum() * 10 / batch.num_nodes
        received = batch.edge_weight * features[batch.nodes[batch.indices]]
        found = np.bincount(batch.edge_index()[1], received, minlength=batch.num_nodes)
        sums[batch.nodes] += found
        squares[batch.nodes] += found**2
        seen[batch.nodes] += 1
    # As many subgraphs were counted as are drawn here, so the weights are off by as much again.
    deviation = np.sqrt(2 / draws)
    assert abs(loss.mean() - losses.sum()) < 5 * deviation * loss.std()
    assert abs(plain.mean() - losses.sum()) > 5 * deviation * plain.std()
    spread = np.sqrt(squares / seen - (sums / seen) ** 2)
    assert (
        np.abs(sums / seen - graph.adjacency() @ features) < 5 * spread * np.sqrt(2 / seen)
    ).all()


@pytest.mark.parametrize("kind", KINDS)
@given(made=graphs(), size=st.integers(1, 20), threads=st.integers(2, 4))
def test_any_number_of_threads_gives_the_same_bits(kind, made, size, threads):
    graph, _ = made
    if graph.num_edges == 0:
        return
    one = SaintSampler(graph, kind, size, coverage=3, seed=2, threads=1).sample(4)
    assert_is_a_part_of(graph, one)
    with threads_for_little_work():
        many = SaintSampler(graph, kind, size, coverage=3, seed=2, threads=threads).sample(4)
    assert_same_batch(many, one)


@given(graphs(), st.integers(1, 4))
def test_a_subgraph_of_walks_is_induced_by_paths(made, length):
    graph, _ = made
    batch = SaintSampler(graph, "walk", 1, walk_length=length, coverage=0).sample(0)
    assert_same_batch(batch, induced_subgraph(graph, batch.nodes))
    assert batch.num_nodes <= length + 1
    # Nodes come in the order of the walk: each new one is a neighbor of one before it.
    for place in range(1, batch.num_nodes):
        rows = [graph.indices[graph.indptr[v] : graph.indptr[v + 1]] for v in batch.nodes[:place]]
        assert batch.nodes[place] in np.concatenate(rows)


def test_an_edge_sampler_draws_pairs_and_no_lonely_node():
    graph = Graph.from_edges([(0, 1), (2, 3)], num_nodes=6)
    sampler = SaintSampler(graph, "edge", 1)
    found = {tuple(sorted(sampler.sample(step).nodes.tolist())) for step in range(60)}
    assert found == {(0, 1), (2, 3)}
    assert sampler.counts.node_counts[4:].tolist() == [0, 0]


def test_weights_are_those_of_the_counts():
    sampler = SaintSampler(small_graph(), "walk", 2, coverage=30)
    counts, batch = sampler.counts, sampler.sample(3)
    for place, node in enumerate(batch.nodes):
        inclusion = counts.node_counts[node] / counts.subgraphs  # lambda
        assert batch.node_weight[place] == pytest.approx(1 / inclusion)
        for edge in range(batch.indptr[place], batch.indptr[place + 1]):
            alpha = counts.edge_counts[batch.edges[edge]] / counts.node_counts[node]
            assert batch.edge_weight[edge] == pytest.approx(1 / alpha)


def test_what_was_never_counted_has_finite_weights():
    graph = Graph.from_edges(np.random.default_rng(0).integers(0, 200, (2, 2000)))
    sampler = SaintSampler(graph, "node", 60, coverage=1)
    batch = sampler.sample(0)
    assert (sampler.counts.edge_counts[batch.edges] == 0).any()
    assert np.isfinite(batch.edge_weight).all()
    assert np.isfinite(batch.node_weight).all()


def test_without_coverage_there_are_no_weights():
    batch = SaintSampler(small_graph(), "node", 4, coverage=0).sample(0)
    assert batch.edge_weight is None
    assert batch.node_weight is None


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        ({"kind": "forest"}, "kind"),
        ({"size": 0}, "size"),
        ({"walk_length": 0}, "walk_length"),
        ({"coverage": -1}, "coverage"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings, setting):
    with pytest.raises(ConfigError, match=f"`{setting}` is"):
        SaintSampler(small_graph(), **settings)


def test_a_graph_without_edges_has_no_edge_to_draw():
    with pytest.raises(GraphError, match="There is no edge to begin with"):
        SaintSampler(Graph.from_edges([], num_nodes=3), "edge", 2)


def test_in_a_directed_graph_nodes_are_drawn_by_who_receives_from_them():
    # Nodes 1 to 4 receive from node 0: its column of (D + I)^-1 (A + I) is 1, 1/2, 1/2, 1/2, 1/2.
    star = Graph(
        indptr=np.array([0, 0, 1, 2, 3, 4]), indices=np.zeros(4, np.int32),
        labels=np.zeros(5, np.int64), directed=True,
    )  # fmt: skip
    sampler = SaintSampler(star, "node", size=10, coverage=0)
    chances = np.diff(sampler._table, prepend=0)
    np.testing.assert_allclose(chances, [2, 0.25, 0.25, 0.25, 0.25])
