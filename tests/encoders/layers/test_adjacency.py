"""Products with neighbors: against dense matrices, with gradients by torch's own rules."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from scr.encoders.layers import Adjacency, inverse
from scr.networks._relation_blocks import sum_over_relations
from scr.propagation import row_sums


def random_adjacency(rows, columns, edges, seed, *, weighted=True, scaled=True, codes=0):
    generator = np.random.default_rng(seed)
    places = generator.choice(rows * columns, min(edges, rows * columns), replace=False)
    matrix = sp.csr_array((np.ones(len(places)), np.divmod(places, columns)), shape=(rows, columns))
    count = matrix.nnz
    return Adjacency(
        matrix.indptr.astype(np.int64),
        matrix.indices.astype(np.int32),
        columns,
        generator.random(count).astype(np.float32) + 0.1 if weighted else None,
        generator.random(rows).astype(np.float32) if scaled else None,
        generator.random(columns).astype(np.float32) if scaled else None,
        generator.integers(0, codes, count).astype(np.uint8) if codes else None,
    )


def dense(adjacency):
    """r_i w_ij c_j as a matrix."""
    matrix = np.zeros((adjacency.rows, adjacency.columns))
    for row in range(adjacency.rows):
        for edge in range(adjacency.indptr[row], adjacency.indptr[row + 1]):
            column = adjacency.indices[edge]
            value = 1.0 if adjacency.weights is None else adjacency.weights[edge]
            if adjacency.row_scale is not None:
                value = value * adjacency.row_scale[row]
            if adjacency.column_scale is not None:
                value = value * adjacency.column_scale[column]
            matrix[row, column] += value
    return torch.from_numpy(matrix)


@given(
    st.integers(1, 12), st.integers(1, 12), st.integers(0, 40), st.integers(1, 20),
    st.booleans(), st.booleans(), st.sampled_from([torch.float32, torch.float64]),
    st.integers(0, 99),
)  # fmt: skip
def test_the_product_and_its_gradient_are_those_of_the_dense_matrix(
    rows, columns, edges, width, weighted, scaled, dtype, seed
):
    adjacency = random_adjacency(rows, columns, edges, seed, weighted=weighted, scaled=scaled)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(columns, width, generator=generator, dtype=dtype, requires_grad=True)
    wanted = torch.randn(rows, width, generator=generator, dtype=dtype)
    made = adjacency.multiply(x)
    (made * wanted).sum().backward()
    matrix = dense(adjacency)
    close = {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(made.double(), matrix @ x.detach().double(), **close)
    torch.testing.assert_close(x.grad.double(), matrix.T @ wanted.double(), **close)


@given(st.integers(2, 15), st.integers(0, 60), st.integers(0, 99), st.data())
def test_some_rows_are_those_rows_of_the_matrix(nodes, edges, seed, data):
    adjacency = random_adjacency(nodes, nodes, edges, seed, codes=3)
    x = torch.randn(nodes, 4, generator=torch.Generator().manual_seed(seed))
    whole = adjacency.times(x)
    start = data.draw(st.integers(0, nodes - 1))
    stop = data.draw(st.integers(start, nodes))
    part = adjacency.range(start, stop)
    torch.testing.assert_close(part.times(x), whole[start:stop])
    torch.testing.assert_close(part.own_rows(x), x[start:stop])
    chosen = np.array(data.draw(st.lists(st.integers(0, nodes - 1), max_size=9)), np.int64)
    taken = adjacency.take(chosen)
    torch.testing.assert_close(taken.times(x), whole[chosen])
    torch.testing.assert_close(taken.own_rows(x), x[chosen])
    inside = (
        data.draw(st.lists(st.integers(0, stop - start - 1), max_size=4)) if stop > start else []
    )
    twice = part.take(np.array(inside, np.int64))
    torch.testing.assert_close(twice.own_rows(x), x[start:stop][inside])
    assert len(twice.codes) == twice.num_edges


def test_rows_without_edges_get_zeros_and_have_scale_zero():
    adjacency = Adjacency(np.array([0, 0, 2]), np.array([0, 1], np.int32), 2)
    scaled = dataclasses.replace(
        adjacency, row_scale=inverse(row_sums(adjacency.indptr, adjacency.weights))
    )
    x = torch.tensor([[2.0], [4.0]])
    assert scaled.times(x).tolist() == [[0.0], [3.0]]


def test_small_weights_are_not_lost_after_large_ones():
    weights = np.array([1e9, 1e9, 1e-8, 2e-8], np.float32)
    sums = row_sums(np.array([0, 2, 2, 4]), weights)
    np.testing.assert_allclose(sums, [2e9, 0, 3e-8], rtol=1e-6)


def test_row_sums_add_the_weights_of_each_row():
    weights = np.array([0.5, 1.5, 3.0], np.float32)
    assert row_sums(np.array([0, 2, 2, 3]), weights).tolist() == [2.0, 0.0, 3.0]


@pytest.mark.parametrize(("inputs", "outputs"), [(3, 40), (40, 3)])
@pytest.mark.parametrize("shape", [(30, 8), (8, 30)])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_sum_over_relations_is_a_mean_and_a_product_for_each(inputs, outputs, shape, weighted):
    rows, columns = shape
    adjacency = random_adjacency(rows, columns, 90, 5, weighted=weighted, scaled=False, codes=4)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(columns, inputs, generator=generator, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(
        4, inputs, outputs, generator=generator, dtype=torch.float64, requires_grad=True
    )
    expected = torch.zeros(rows, outputs, dtype=torch.float64)
    for code in range(4):
        values = np.ones(90) if adjacency.weights is None else adjacency.weights.astype(float)
        values = values * (adjacency.codes == code)
        matrix = sp.csr_array((values, adjacency.indices, adjacency.indptr), shape=shape)
        means = matrix.toarray() / np.maximum(matrix.sum(axis=1), 1e-30)[:, None]
        expected = expected + torch.from_numpy(means) @ x @ weights[code]
    made = sum_over_relations(x, weights, adjacency)
    torch.testing.assert_close(made, expected, rtol=1e-6, atol=1e-6)
    wanted = torch.randn(rows, outputs, generator=generator, dtype=torch.float64)
    expected_gradients = torch.autograd.grad((expected * wanted).sum(), [x, weights])
    gradients = torch.autograd.grad((made * wanted).sum(), [x, weights])
    for found, known in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(found, known, rtol=1e-5, atol=1e-6)
