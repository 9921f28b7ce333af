"""Both steps of Correct & Smooth against PyG, and against values that can be checked by hand."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.propagation.graphs import make_graph, random_matrix

from scr.prediction.smoothing._correct_and_smooth import (
    BLOCK_CLASSES,
    as_probabilities,
    correct,
    smooth,
)
from scr.propagation import normalize

CorrectAndSmooth = pytest.importorskip("torch_geometric.nn.models").CorrectAndSmooth


def random_case(seed: int, *, directed: bool = False, classes: int | None = None):
    """A graph with hubs and isolated nodes, predictions, labeled nodes and their classes."""
    rng = np.random.default_rng(seed)
    nodes = int(rng.integers(5, 60))
    classes = int(rng.integers(2, 9)) if classes is None else classes
    edges, weighted = int(rng.integers(0, 200)), bool(seed % 2)
    matrix = random_matrix(rng, nodes, edges, directed=directed, weighted=weighted)
    probabilities = rng.dirichlet(np.ones(classes), nodes).astype(np.float32)
    labeled = np.flatnonzero(rng.random(nodes) < 0.4)
    labeled = labeled if len(labeled) else np.array([0])
    return matrix, probabilities, labeled, rng.integers(0, classes, len(labeled))


def pyg_edges(matrix: sp.csr_array, norm: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Normalized edges as PyG passes messages: from source to target, weight by weight.

    DAD, DA and AD of PyG's example of Correct & Smooth, where A is its `adj_t`: row i of it has
    the edges that arrive at node i.
    """
    arriving = sp.coo_array(matrix.T)
    target, source = arriving.coords
    with np.errstate(divide="ignore"):
        into = np.where(matrix.sum(axis=0) > 0, 1 / matrix.sum(axis=0), 0)
        out = np.where(matrix.sum(axis=1) > 0, 1 / matrix.sum(axis=1), 0)
    factor = {
        "sym": np.sqrt(into[target] * out[source]),
        "row": into[target],
        "col": out[source],
    }[norm]
    edges = torch.from_numpy(np.stack([source, target]).astype(np.int64))
    return edges, torch.from_numpy((arriving.data * factor).astype(np.float32))


def assert_equal_to_pyg(case, *, norm, hops, alphas, scale, directed=False):
    matrix, probabilities, nodes, labels = case
    adjacency = normalize(make_graph(matrix, directed=directed), norm=norm, direction="in")
    auto = scale == "auto"
    model = CorrectAndSmooth(
        hops[0], alphas[0], hops[1], alphas[1], autoscale=auto, scale=1.0 if auto else scale
    )
    known = torch.from_numpy(labels), torch.from_numpy(nodes), *pyg_edges(matrix, norm)
    expected = model.correct(torch.from_numpy(probabilities), *known)
    corrected = correct(
        adjacency, probabilities, labels, nodes, hops=hops[0], alpha=alphas[0], scale=scale
    )
    np.testing.assert_allclose(corrected, expected.numpy(), rtol=1e-5, atol=1e-5)
    smoothed = smooth(adjacency, corrected, labels, nodes, hops=hops[1], alpha=alphas[1])
    np.testing.assert_allclose(smoothed, model.smooth(expected, *known).numpy(), atol=1e-5)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("scale", ["auto", 0.7, 3.0])
@pytest.mark.parametrize("norm", ["sym", "row", "col"])
def test_both_steps_are_those_of_pyg(norm, scale, directed):
    for seed in range(4):
        assert_equal_to_pyg(
            random_case(seed, directed=directed), norm=norm, scale=scale, directed=directed,
            hops=(50 - 10 * seed, 10 + 10 * seed), alphas=(0.95 - 0.2 * seed, 0.3 + 0.2 * seed),
        )  # fmt: skip


@given(
    seed=st.integers(0, 2**20),
    norm=st.sampled_from(["sym", "row", "col"]),
    hops=st.tuples(st.integers(10, 50), st.integers(10, 50)),
    alphas=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    scale=st.sampled_from(["auto", 0.5, 1.0, 10.0]),
)
def test_no_random_graph_tells_us_from_pyg(seed, norm, hops, alphas, scale):
    assert_equal_to_pyg(random_case(seed), norm=norm, hops=hops, alphas=alphas, scale=scale)


def test_pygs_own_normalization_is_our_sym():
    matrix, probabilities, nodes, labels = random_case(2)  # an even seed: all weights are 1
    edges = torch.from_numpy(np.stack(sp.coo_array(matrix).coords).astype(np.int64))
    adjacency = normalize(make_graph(matrix, directed=False), norm="sym")
    model = CorrectAndSmooth(20, 0.7, 20, 0.6)
    known = torch.from_numpy(labels), torch.from_numpy(nodes)
    expected = model(torch.from_numpy(probabilities), *known, edges).numpy()
    ours = correct(adjacency, probabilities, labels, nodes, hops=20, alpha=0.7)
    ours = smooth(adjacency, ours, labels, nodes, hops=20, alpha=0.6)
    np.testing.assert_allclose(ours, expected, atol=1e-5)


def test_more_classes_than_one_block_are_those_of_pyg():
    case = random_case(5, classes=2 * BLOCK_CLASSES + 3)
    for scale in ("auto", 1.0):
        assert_equal_to_pyg(case, norm="sym", hops=(15, 15), alphas=(0.8, 0.6), scale=scale)


PAIR = normalize(make_graph(sp.csr_array(np.array([[0, 1.0], [1, 0]])), directed=False))
PREDICTED = np.array([[0.6, 0.4], [0.5, 0.5]], np.float32)
FIRST_IS_CLASS_1 = {"labels": np.array([1]), "nodes": np.array([0])}


def test_one_hop_with_a_fixed_scale_by_hand():
    # The error of node 0 is (-0.6, 0.6). Half of it reaches node 1; node 0 keeps its own whole.
    made = correct(PAIR, PREDICTED, **FIRST_IS_CLASS_1, hops=1, alpha=0.5, scale=1.0)
    np.testing.assert_allclose(made, [[0, 1], [0.2, 0.8]], atol=1e-6)


def test_one_hop_with_autoscale_by_hand():
    # Every node gets an error of the size 1.2 of the only labeled node: (-0.6, 0.6).
    made = correct(PAIR, PREDICTED, **FIRST_IS_CLASS_1, hops=1, alpha=0.5)
    np.testing.assert_allclose(made, [[0, 1], [-0.1, 1.1]], atol=1e-6)


def test_one_hop_of_smoothing_by_hand():
    # Node 0: half its label (0, 1), half its neighbor (0.5, 0.5); node 1 the other way round.
    made = smooth(PAIR, PREDICTED, **FIRST_IS_CLASS_1, hops=1, alpha=0.5)
    np.testing.assert_allclose(made, [[0.25, 0.75], [0.25, 0.75]], atol=1e-6)


def test_perfect_predictions_on_labeled_nodes_need_no_correction():
    # PyG divides 0 by 0 here.
    sure = np.array([[0, 1], [0.3, 0.7]], np.float32)
    made = correct(PAIR, sure, **FIRST_IS_CLASS_1, hops=3, alpha=0.5)
    np.testing.assert_array_equal(made, sure)


def test_the_input_is_left_as_it_was():
    given = PREDICTED.copy()
    correct(PAIR, given, **FIRST_IS_CLASS_1, hops=2, alpha=0.5)
    smooth(PAIR, given, **FIRST_IS_CLASS_1, hops=2, alpha=0.5)
    np.testing.assert_array_equal(given, PREDICTED)


@given(arrays(np.float32, (7, 3), elements=st.floats(-5, 5, width=32)))
def test_any_rows_become_distributions_with_the_same_largest_class(rows):
    made = as_probabilities(rows)
    assert made.min() >= 0
    np.testing.assert_allclose(made.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(made.argmax(axis=1), rows.argmax(axis=1))


def test_neighboring_numbers_that_division_makes_equal_keep_their_order():
    low = np.float32(0.3)
    rows = np.array([[low, np.nextafter(low, np.float32(1)), 0]] * 64, np.float32)
    rows[:, 2] = np.linspace(0, 0.2, 64)
    assert (as_probabilities(rows).argmax(axis=1) == 1).all()
