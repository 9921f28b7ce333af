"""Averages of neighbors, against sums by plain loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.typed_features.typed_graphs import academic_graph

from scr.errors import MemoryBudgetError
from scr.graph import Graph
from scr.typed_features._averages import fill_by_averages, rounds

TYPES = ("a", "b", "c", "d")


@st.composite
def typed_graphs(draw):
    counts = {kind: draw(st.integers(1, 4)) for kind in TYPES}
    ends = st.sampled_from(TYPES)
    kinds = draw(st.lists(st.tuples(ends, ends), min_size=1, max_size=5))
    relations, weights = {}, {}
    for number, (source, target) in enumerate(kinds):
        pair = st.tuples(
            st.integers(0, counts[source] - 1), st.integers(0, counts[target] - 1),
            st.sampled_from([0.5, 1.0, 2.0]),
        )  # fmt: skip
        edges = draw(st.lists(pair, min_size=1, max_size=6, unique_by=lambda each: each[:2]))
        key = source, f"r{number}", target
        relations[key] = np.array([each[:2] for each in edges]).T
        weights[key] = np.array([each[2] for each in edges], np.float32)
    known = draw(st.sets(st.sampled_from(TYPES), min_size=1))
    touched = {kind for pair in kinds for kind in pair}
    features = {kind: np.ones((counts[kind], 1)) for kind in known | (set(TYPES) - touched)}
    is_weighted = draw(st.booleans())
    graph = Graph.from_relations(
        relations, features, target="a", num_nodes=counts, weights=weights if is_weighted else None
    )
    return graph, set(features)


def by_loops(graph, matrix, known):
    """The definition, node by node, in float64."""
    kind_of = [kind for kind, count in graph.node_types.items() for _ in range(count)]
    rows = matrix.astype(np.float64)
    has = np.array([kind in known for kind in kind_of])
    done = set(known)
    adjacency = graph.adjacency().toarray()
    while True:
        links = np.argwhere(adjacency)
        now = {kind_of[i] for i, j in links if kind_of[i] not in done and kind_of[j] in done}
        if not now:
            return rows, has
        new = {}
        for node in range(graph.num_nodes):
            if kind_of[node] in now:
                able = [j for j in np.flatnonzero(adjacency[node]) if kind_of[j] in done and has[j]]
                if able:
                    factors = adjacency[node, able]
                    new[node] = factors @ rows[able] / factors.sum()
        for node, row in new.items():
            rows[node], has[node] = row, True
        done |= now


@given(typed_graphs(), st.integers(0, 100))
def test_averages_are_those_of_plain_loops(case, seed):
    graph, known = case
    matrix = np.zeros((graph.num_nodes, 9), np.float32)
    for kind in known:
        nodes = graph.nodes_of(kind)
        numbers = np.random.default_rng(seed).standard_normal((len(nodes), 9))
        matrix[nodes.start : nodes.stop] = numbers
    expected, has = by_loops(graph, matrix, known)
    left = fill_by_averages(graph, matrix, known)
    np.testing.assert_allclose(matrix, expected, atol=1e-5)
    missing = {kind: graph.nodes_of(kind) for kind in graph.node_types if kind not in known}
    assert left == {kind: int((~has[nodes.start : nodes.stop]).sum())
                    for kind, nodes in missing.items()}  # fmt: skip


def test_types_that_are_reached_first_serve_the_next():
    order = [filled for filled, _ in rounds(academic_graph(), ["paper"])]
    assert order == [["author", "field"], ["institution"]]


def test_columns_at_a_time_give_the_same_bits(monkeypatch):
    graph = academic_graph()
    wide = np.zeros((graph.num_nodes, 40), np.float32)
    wide[: graph.num_targets] = np.random.default_rng(0).standard_normal((graph.num_targets, 40))
    narrow = wide.copy()
    fill_by_averages(graph, wide, ["paper"])
    monkeypatch.setattr("scr.typed_features._averages.resident_bytes", lambda: 0)
    blocks = []
    fill_by_averages(graph, narrow, ["paper"], memory=4 * graph.num_nodes * 16,
                     on_progress=lambda *told: blocks.append(told[1]))  # fmt: skip
    assert blocks == [16, 32, 40] * 2
    assert wide.tobytes() == narrow.tobytes()


def test_too_little_memory_is_one_sentence():
    graph = academic_graph()
    with pytest.raises(MemoryBudgetError, match="Averaging features of 26 nodes needs"):
        fill_by_averages(graph, np.zeros((26, 5), np.float32), ["paper"], memory="1MB")
