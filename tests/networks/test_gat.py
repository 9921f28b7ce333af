"""Attention over neighbors against a dense softmax and against numerical gradients."""

import numpy as np
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from scr.encoders import ProblemShape
from scr.encoders.layers import Adjacency
from scr.networks import make_encoder
from scr.networks._gat import softmax_over_neighbors, weighted_sum

HEADS = 2


def some_adjacency(nodes, edges, seed):
    """Random distinct edges, none from a node to itself, by receiver."""
    dense = np.zeros((nodes, nodes), np.int8)
    dense[tuple(np.random.default_rng(seed).integers(0, nodes, (2, edges)))] = 1
    np.fill_diagonal(dense, 0)
    sparse = sp.csr_array(dense)
    return Adjacency(sparse.indptr.astype(np.int64), sparse.indices, nodes)


@given(st.integers(2, 12), st.integers(0, 30), st.integers(0, 9), st.floats(0.1, 200))
def test_weights_are_a_softmax_over_neighbors_and_the_node_itself(nodes, edges, seed, scale):
    adjacency = some_adjacency(nodes, edges, seed)
    generator = torch.Generator().manual_seed(seed)
    scores = scale * torch.randn(adjacency.num_edges, HEADS, generator=generator)
    own = scale * torch.randn(nodes, HEADS, generator=generator)
    edge_weights, own_weights = softmax_over_neighbors(scores, own, adjacency)
    senders, receivers = adjacency.edge_index(torch.device("cpu"))
    for head in range(HEADS):
        matrix = torch.full((nodes, nodes), -torch.inf, dtype=torch.float64)
        matrix[receivers, senders] = scores[:, head].double()
        matrix[range(nodes), range(nodes)] = own[:, head].double()
        expected = matrix.softmax(1).float()
        torch.testing.assert_close(
            edge_weights[:, head], expected[receivers, senders], rtol=1e-3, atol=1e-5
        )
        torch.testing.assert_close(own_weights[:, head], expected.diag(), rtol=1e-3, atol=1e-5)


@given(st.integers(2, 12), st.integers(0, 30), st.integers(0, 9))
def test_sums_and_gradients_are_those_of_dense_matrices(nodes, edges, seed):
    adjacency = some_adjacency(nodes, edges, seed)
    generator = torch.Generator().manual_seed(seed)
    senders, receivers = adjacency.edge_index(torch.device("cpu"))
    x = torch.randn(nodes, HEADS, 3, generator=generator)
    weights = torch.randn(adjacency.num_edges, HEADS, generator=generator)

    def dense(x, weights):
        matrices = x.new_zeros(HEADS, nodes, nodes)
        matrices[:, receivers, senders] = weights.T
        return torch.einsum("hij,jhc->ihc", matrices, x)

    found = []
    for product, kind in ((weighted_sum, torch.float32), (dense, torch.float64)):
        given_x = x.detach().to(kind).requires_grad_()
        given_weights = weights.detach().to(kind).requires_grad_()
        arguments = (adjacency,) if product is weighted_sum else ()
        made = product(given_x, given_weights, *arguments)
        gradients = torch.autograd.grad(made.square().sum(), (given_x, given_weights))
        found.append([made.float(), *(each.float() for each in gradients)])
    for ours, expected in zip(*found, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4)


def test_other_precisions_gather_and_agree():
    adjacency = some_adjacency(20, 60, 0)
    x, weights = torch.randn(20, HEADS, 3), torch.rand(adjacency.num_edges, HEADS)
    single = weighted_sum(x, weights, adjacency)
    double = weighted_sum(x.double(), weights.double(), adjacency)
    torch.testing.assert_close(single.double(), double, rtol=1e-4, atol=1e-5)


def test_heads_share_the_width_and_the_last_ones_are_averaged():
    shape = ProblemShape(features=5, hops=1, classes=3)
    encoder = make_encoder("gat", {"hidden": 12, "heads": 4, "output_heads": 2}, shape)
    first, last = encoder.layers
    assert first.source.shape == (4, 3)
    assert last.source.shape == (2, 3)
    assert last.weight.shape == (6, 12)
    assert last.bias.shape == (3,)
    assert np.isclose(encoder.config.dropout, 0.6)
