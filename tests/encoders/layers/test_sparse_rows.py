"""Sparse features: against dense products, with gradients by torch's own rules."""

import numpy as np
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from scr.encoders.layers import SparseRows

sizes = st.tuples(st.integers(1, 12), st.integers(1, 12), st.integers(1, 20))


def random_matrix(rows, columns, share, seed):
    generator = np.random.default_rng(seed)
    matrix = sp.random_array((rows, columns), density=share, rng=generator, dtype=np.float32)
    return sp.csr_array(matrix)


@given(sizes, st.floats(0, 1), st.integers(0, 99))
def test_the_product_and_its_gradient_are_those_of_the_dense_matrix(size, share, seed):
    rows, columns, outputs = size
    matrix = random_matrix(rows, columns, share, seed)
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(outputs, columns, generator=generator)
    wanted = torch.randn(rows, outputs, generator=generator)
    found = []
    for x in (SparseRows.of(matrix), torch.from_numpy(matrix.toarray())):
        given_to = weight.clone().requires_grad_()
        made = x.linear(given_to) if isinstance(x, SparseRows) else F.linear(x, given_to)
        (made * wanted).sum().backward()
        found.append([made.detach(), given_to.grad])
    for ours, expected in zip(*found, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-5)


@given(sizes, st.floats(0, 1), st.integers(0, 99), st.data())
def test_some_rows_are_those_rows_of_the_matrix(size, share, seed, data):
    rows, columns, _ = size
    matrix = random_matrix(rows, columns, share, seed)
    chosen = np.array(data.draw(st.lists(st.integers(0, rows - 1), max_size=15)), np.int64)
    part = SparseRows.of(matrix).take(chosen)
    assert part.shape == (len(chosen), columns)
    identity = torch.eye(columns)
    np.testing.assert_array_equal(part.linear(identity).numpy(), matrix.toarray()[chosen])


def test_dropout_silences_stored_numbers_and_keeps_the_mean():
    ones = sp.csr_array(np.ones((300, 100), np.float32))
    dropped = SparseRows.of(ones).dropout(0.75, True)
    assert set(dropped.values.tolist()) == {0.0, 4.0}
    assert abs(float(dropped.values.mean()) - 1) < 0.05  # 6 deviations of 30,000 draws
    same = SparseRows.of(ones).dropout(0.75, False)
    np.testing.assert_array_equal(same.values.numpy(), ones.data)


def test_the_gradient_is_that_of_the_numbers_which_dropout_left():
    matrix = random_matrix(60, 40, 0.3, 1)
    torch.manual_seed(0)
    dropped = SparseRows.of(matrix).dropout(0.5, True)
    dense = sp.csr_array((dropped.values.numpy(), matrix.indices, matrix.indptr), matrix.shape)
    weights = [torch.ones(3, 40, requires_grad=True) for _ in range(2)]
    dropped.linear(weights[0]).square().sum().backward()
    F.linear(torch.from_numpy(dense.toarray()), weights[1]).square().sum().backward()
    torch.testing.assert_close(weights[0].grad, weights[1].grad)
