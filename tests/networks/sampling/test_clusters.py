import os
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.networks.sampling.references import assert_is_a_part_of, assert_same_batch, small_graph
from tests.propagation.graphs import graphs

from scr.errors import ConfigError, GraphError, SCRError
from scr.graph import Graph
from scr.networks.sampling import ClusterSampler, induced_subgraph, partition
from scr.networks.sampling._metis import symmetric_rows

OWN = ("label-propagation", "random")


def separate_communities(count=6, size=40, seed=0):
    """Dense communities with a few edges between them, under shuffled node numbers."""
    rng = np.random.default_rng(seed)
    inside = rng.integers(0, size, (2, count * size * 4))
    inside += size * rng.integers(0, count, inside.shape[1])
    edges = np.concatenate([inside, rng.integers(0, count * size, (2, 30))], axis=1)
    names = rng.permutation(count * size)
    communities = np.empty(count * size, int)
    communities[names] = np.arange(count * size) // size
    return Graph.from_edges(names[edges], num_nodes=count * size), communities


def cut_fraction(graph, membership):
    rows = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    return np.mean(membership[rows] != membership[graph.indices])


@pytest.fixture
def fake_pymetis(tmp_path, monkeypatch):
    """Put a module of the name pymetis before the real one, if there is one."""

    def write(body):
        (tmp_path / "pymetis.py").write_text(body, encoding="utf-8")
        before = os.environ.get("PYTHONPATH", "")
        monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{before}")

    return write


@pytest.mark.parametrize("method", OWN)
@given(made=graphs(), data=st.data())
def test_parts_cover_every_node_and_are_balanced(method, made, data):
    graph, _ = made
    parts = data.draw(st.integers(1, graph.num_nodes))
    membership = partition(graph, parts, method, data.draw(st.integers(0, 9)))
    assert membership.shape == (graph.num_nodes,)
    assert membership.dtype == np.int32
    sizes = np.bincount(membership, minlength=parts)
    assert len(sizes) == parts
    assert sizes.min() >= 1
    assert sizes.max() <= max(np.ceil(graph.num_nodes / parts), 1.5 * graph.num_nodes / parts)


@pytest.mark.parametrize("method", OWN)
def test_a_partition_is_that_of_its_seed(method):
    graph, _ = separate_communities()
    one, same, other = (partition(graph, 6, method, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


def test_label_propagation_cuts_few_edges_of_separate_communities():
    graph, communities = separate_communities()
    best = cut_fraction(graph, communities)
    assert cut_fraction(graph, partition(graph, 6, "random")) > 0.75
    assert cut_fraction(graph, partition(graph, 6, "label-propagation")) < best + 0.05


def test_directed_edges_count_both_ways_and_self_loops_do_not():
    graph = Graph.from_edges(
        [(0, 1), (2, 1), (2, 2), (3, 0), (0, 3)], undirected=False, self_loops="keep"
    )
    indptr, indices = symmetric_rows(graph)
    assert indptr.tolist() == [0, 2, 4, 5, 6]
    assert indices.tolist() == [1, 3, 0, 2, 1, 0]


def test_metis_in_its_own_process_gives_the_parts(fake_pymetis):
    fake_pymetis(
        "class Options(dict):\n    pass\n"
        "def part_graph(parts, xadj, adjncy, options):\n"
        "    assert options['seed'] == 4 and xadj.dtype == adjncy.dtype == 'int32'\n"
        "    return 0, [node % parts for node in range(len(xadj) - 1)]\n"
    )
    membership = partition(small_graph(), 3, "metis", seed=4)
    assert membership.tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 2, 0]


def test_real_metis_gives_a_balanced_partition_with_few_cuts():
    pytest.importorskip("pymetis")
    graph, communities = separate_communities()
    membership = partition(graph, 6, "metis")
    assert np.bincount(membership, minlength=6).max() < 1.1 * 40
    assert cut_fraction(graph, membership) <= cut_fraction(graph, communities) + 0.02


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("import os\nos.abort()", "METIS was ended by SIGABRT"),
        ("raise SystemExit('no memory')", "METIS ended with code 1 and said `no memory`"),
        (
            "class Options(dict):\n    pass\ndef part_graph(parts, **_):\n    return 0, [parts]",
            r"shape \(1,\) that is not a partition into 2 parts",
        ),
        ("raise ImportError", "pymetis cannot be imported"),
    ],
    ids=["abort", "exit", "no partition", "missing"],
)
def test_a_metis_that_fails_is_survived(fake_pymetis, body, message):
    fake_pymetis(body)
    graph = small_graph()
    with pytest.raises(SCRError, match=message):
        partition(graph, 2, "metis")
    with pytest.warns(UserWarning, match=f"label propagation: .*{message}"):
        membership = partition(graph, 2, "auto")
    np.testing.assert_array_equal(membership, partition(graph, 2, "label-propagation"))


def test_a_missing_pymetis_names_the_extra(fake_pymetis):
    fake_pymetis("raise ImportError")
    with pytest.raises(ConfigError, match="install pymetis"):
        partition(small_graph(), 2, "metis")


def test_one_part_needs_no_metis(fake_pymetis):
    fake_pymetis("import os\nos.abort()")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert partition(small_graph(), 1).tolist() == [0] * 10


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"parts": 0}, "`parts` is 0"),
        ({"parts": 11}, "`parts` is 11; expected at most 10"),
        ({"parts": 2, "method": "louvain"}, "`method` is 'louvain'"),
        ({"parts": 2, "method": "random", "seed": -1}, "`seed` is -1"),
    ],
)
def test_a_partition_that_cannot_be_made_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        partition(small_graph(), **settings)


@given(graphs(), st.integers(1, 5), st.integers(1, 3), st.integers(0, 3))
def test_an_epoch_of_clusters_has_every_node_once(made, parts, together, epoch):
    graph, _ = made
    membership = np.arange(graph.num_nodes) % parts
    sampler = ClusterSampler(graph, membership, together, seed=epoch)
    batches = list(sampler.epoch(epoch))
    assert len(batches) == len(sampler)
    nodes = np.concatenate([batch.nodes for batch in batches])
    assert sorted(nodes.tolist()) == list(range(graph.num_nodes))
    for batch in batches:
        assert_is_a_part_of(graph, batch)
        assert len(np.unique(membership[batch.nodes])) <= together
        assert_same_batch(batch, induced_subgraph(graph, batch.nodes))


def test_each_epoch_combines_the_parts_anew():
    sampler = ClusterSampler(small_graph(), np.arange(10) // 2, 2)
    orders = {tuple(tuple(batch.nodes) for batch in sampler.epoch(e)) for e in range(6)}
    assert len(orders) > 3
    again = [batch.nodes.tolist() for batch in sampler.epoch(4)]
    assert again == [sampler.sample(4 * len(sampler) + place).nodes.tolist() for place in range(3)]


def test_parts_without_nodes_give_no_empty_batch():
    sampler = ClusterSampler(small_graph(), [0, 7] * 5)
    assert sampler.num_clusters == len(sampler) == 2
    assert [batch.num_nodes for batch in sampler.epoch(0)] == [5, 5]


@pytest.mark.parametrize("membership", [[0, 1], np.zeros(10), np.zeros((10, 1), int)])
def test_a_membership_that_does_not_fit_is_refused(membership):
    with pytest.raises(GraphError, match="expected 10 whole numbers, the part of each node"):
        ClusterSampler(small_graph(), membership)
