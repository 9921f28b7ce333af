"""Random graphs of several types and dense references, shared by the tests of propagation."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from scr.graph import Graph, Relation

RELATIONS = (
    Relation("author", "writes", "paper"),
    Relation("paper", "cites", "paper"),
    Relation("paper", "extends", "paper"),
    Relation("author", "affiliated", "institution"),
    Relation("paper", "has_topic", "field"),
)
"""Two relations between the same types, one of which the target type is not part."""


def random_typed(
    seed: int,
    *,
    papers: int = 12,
    others: int = 7,
    edges: int = 20,
    weighted: bool = False,
    relations: tuple[Relation, ...] = RELATIONS,
) -> Graph:
    """Edges drawn with a taste for low numbers: hubs, isolated nodes, the same pair twice."""
    rng = np.random.default_rng(seed)
    sizes = {"paper": papers, "author": others, "institution": 3, "field": 4}
    # Of different lengths, since a relation that says another one backward would be left out.
    counts = {each: edges + number for number, each in enumerate(relations)}
    ends = {
        each: np.stack(
            [(sizes[kind] * rng.random(count) ** 2).astype(int) for kind in (each[0], each[2])]
        )
        for each, count in counts.items()
    }
    weights = {each: rng.uniform(0.1, 3, count) for each, count in counts.items()}
    used = {"paper", *(kind for each in relations for kind in (each[0], each[2]))}
    order = np.concatenate([np.arange(3), 3 + rng.permutation(papers - 3)])  # every class trains
    half = max(papers // 2, 3)
    return Graph.from_relations(
        ends,
        {"paper": rng.normal(size=(papers, 3)).astype(np.float32)},
        np.arange(papers) % 3,
        "paper",
        num_nodes={kind: size for kind, size in sizes.items() if kind in used},
        weights=weights if weighted else None,
        train=order[:half],
        valid=order[half : half + 2],
    )


@st.composite
def typed_graphs(draw: Any) -> Graph:
    """Several types, parallel relations, isolated nodes, with and without weights."""
    return random_typed(
        draw(st.integers(0, 2**32 - 1)),
        papers=draw(st.integers(4, 15)),
        others=draw(st.integers(1, 9)),
        edges=draw(st.integers(1, 40)),
        weighted=draw(st.booleans()),
    )


def dense_step(graph: Graph, codes: list[int]) -> np.ndarray:
    """The sum of all edges of some codes, one by one, in float64: parallel ones count each."""
    dense = np.zeros((graph.num_nodes, graph.num_nodes))
    for row in range(graph.num_nodes):
        for edge in range(graph.indptr[row], graph.indptr[row + 1]):
            if graph.edge_types[edge] in codes:
                weight = 1.0 if graph.weights is None else graph.weights[edge]
                dense[row, graph.indices[edge]] += weight
    return dense


def dense_subset(graph: Graph, subset: tuple[Relation, ...]) -> np.ndarray:
    numbers = [graph.relations.index(each) for each in subset]
    return dense_step(graph, [*numbers, *(number + len(graph.relations) for number in numbers)])


def row_mean(dense: np.ndarray) -> np.ndarray:
    sums = dense.sum(axis=1, keepdims=True)
    return np.divide(dense, sums, out=np.zeros_like(dense), where=sums > 0)
