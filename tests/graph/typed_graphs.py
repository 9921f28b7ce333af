"""Small random graphs of several types, and what they must be, made in plain NumPy."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from hypothesis import strategies as st

TYPES = ("paper", "author", "field", "venue")
NAMES = ("cites", "writes", "about", "in")


@st.composite
def typed_inputs(draw, *, weighted: bool = False) -> SimpleNamespace:
    """Arguments of `Graph.from_relations` for a random graph without ways back.

    Edges repeat, and go from nodes to themselves; every type has an edge.
    """
    types = TYPES[: draw(st.integers(1, 4))]
    counts = {kind: draw(st.integers(1, 5)) for kind in types}
    target = draw(st.sampled_from(types))
    seed = draw(st.integers(0, 2**16))
    generator = np.random.default_rng(seed)
    relations: dict = {}
    for number in range(draw(st.integers(1, 4))):
        ends = draw(st.sampled_from(types)), draw(st.sampled_from(types))
        edges = draw(st.integers(0, 8))
        relations[ends[0], NAMES[number], ends[1]] = np.stack(
            [generator.integers(0, counts[end], edges) for end in ends]
        )
    for kind in types:  # so that nothing is a type of which nothing is known
        numbers = np.arange(counts[kind])
        relations[kind, f"next_{kind}", types[0]] = np.stack([numbers, numbers % counts[types[0]]])
    widths = {kind: draw(st.integers(0, 3)) for kind in types}
    labels = np.arange(counts[target]) % 2
    return SimpleNamespace(
        relations=relations,
        features={
            kind: generator.standard_normal((counts[kind], width)).astype(np.float32)
            for kind, width in widths.items()
            if width
        },
        labels=labels,
        target=target,
        num_nodes=counts,
        weights={
            key: generator.integers(1, 4, edges.shape[1]).astype(np.float32)
            for key, edges in relations.items()
            if weighted and generator.random() < 0.7
        },
    )


def offsets(counts: dict, target: str) -> dict:
    """The first number of each type, the target first."""
    order = [target, *(kind for kind in counts if kind != target)]
    return dict(zip(order, np.cumsum([0, *(counts[kind] for kind in order)]), strict=False))


def dense_relation(inputs, key) -> np.ndarray:
    """A[i, j]: how an edge i -> j of a relation is stored along its direction; by a loop."""
    total = sum(inputs.num_nodes.values())
    starts = offsets(inputs.num_nodes, inputs.target)
    matrix = np.zeros((total, total))
    weights = inputs.weights.get(key)
    for place, (i, j) in enumerate(inputs.relations[key].T):
        row, column = starts[key[0]] + i, starts[key[2]] + j
        if row == column:
            continue
        matrix[row, column] = 1 if weights is None else matrix[row, column] + weights[place]
    return matrix
