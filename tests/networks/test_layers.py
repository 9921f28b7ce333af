"""Layers of coupled encoders against those of torch_geometric with the same weights."""

import dataclasses

import numpy as np
import pytest
import torch
from tests.conftest import make_random_graph
from torch_geometric.nn import GATConv, GCNConv, RGCNConv, SAGEConv

from scr.encoders.layers import Adjacency, inverse
from scr.networks._gat import GATLayer
from scr.networks._gcn import GCNLayer
from scr.networks._graphsage import SAGELayer
from scr.networks._rgcn import RGCNLayer
from scr.propagation import row_sums

NODES, CODES = 50, 3
widths = pytest.mark.parametrize(("inputs", "outputs"), [(6, 20), (20, 6)])


@pytest.fixture
def edges():
    """Receivers by row, as torch_geometric's pairs of sender and receiver, and as ours."""
    graph = make_random_graph(nodes=NODES, edges=160, seed=3)
    receivers = np.repeat(np.arange(NODES), np.diff(graph.indptr))
    pairs = torch.from_numpy(np.stack([graph.indices.astype(np.int64), receivers]))
    return pairs, Adjacency(graph.indptr, graph.indices, NODES)


def assert_same(ours, theirs, x):
    """Results, and gradients of the input."""
    gradients = []
    for layer in (ours, theirs):
        given = x.clone().requires_grad_()
        made = layer(given)
        made.square().sum().backward()
        gradients.append((made.detach(), given.grad))
    for found, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@widths
def test_a_gcn_layer_is_that_of_torch_geometric(edges, inputs, outputs):
    pairs, adjacency = edges
    scale = inverse(row_sums(adjacency.indptr, None) + 1, -0.5)
    adjacency = dataclasses.replace(adjacency, row_scale=scale, column_scale=scale)
    ours, theirs = GCNLayer(inputs, outputs), GCNConv(inputs, outputs)
    with torch.no_grad():
        ours.bias.normal_()
        theirs.lin.weight.copy_(ours.weight)
        theirs.bias.copy_(ours.bias)
    x = torch.randn(NODES, inputs)
    assert_same(lambda x: ours(x, adjacency), lambda x: theirs(x, pairs), x)


@widths
def test_a_graphsage_layer_is_that_of_torch_geometric(edges, inputs, outputs):
    pairs, adjacency = edges
    adjacency = dataclasses.replace(adjacency, row_scale=inverse(row_sums(adjacency.indptr, None)))
    ours, theirs = SAGELayer(inputs, outputs), SAGEConv(inputs, outputs)
    with torch.no_grad():
        ours.bias.normal_()
        theirs.lin_l.weight.copy_(ours.neighbor_weight)
        theirs.lin_l.bias.copy_(ours.bias)
        theirs.lin_r.weight.copy_(ours.own_weight)
    x = torch.randn(NODES, inputs)
    assert_same(lambda x: ours(x, adjacency), lambda x: theirs(x, pairs), x)


@widths
@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("join", [True, False])
def test_a_gat_layer_is_that_of_torch_geometric(edges, inputs, outputs, heads, join):
    pairs, adjacency = edges
    ours = GATLayer(inputs, heads, outputs, join=join)
    theirs = GATConv(inputs, outputs, heads, concat=join)
    with torch.no_grad():
        ours.bias.normal_()
        theirs.lin.weight.copy_(ours.weight)
        theirs.att_src.copy_(ours.source)
        theirs.att_dst.copy_(ours.target)
        theirs.bias.copy_(ours.bias)
    x = torch.randn(NODES, inputs)
    assert_same(lambda x: ours(ours.project(x), adjacency), lambda x: theirs(x, pairs), x)
    for mine, its in [
        (ours.weight, theirs.lin.weight),
        (ours.source, theirs.att_src),
        (ours.target, theirs.att_dst),
        (ours.bias, theirs.bias),
    ]:
        torch.testing.assert_close(mine.grad, its.grad.view_as(mine), rtol=1e-3, atol=1e-3)


@widths
@pytest.mark.parametrize("bases", [0, 2])
def test_an_rgcn_layer_is_that_of_torch_geometric(edges, inputs, outputs, bases):
    pairs, adjacency = edges
    codes = np.random.default_rng(0).integers(0, CODES, adjacency.num_edges).astype(np.uint8)
    adjacency = dataclasses.replace(adjacency, codes=codes)
    ours = RGCNLayer(inputs, outputs, CODES, bases)
    theirs = RGCNConv(inputs, outputs, CODES, num_bases=bases or None)
    with torch.no_grad():
        ours.bias.normal_()
        theirs.weight.copy_(ours.weights)
        theirs.root.copy_(ours.own_weight)
        theirs.bias.copy_(ours.bias)
        if bases:
            theirs.comp.copy_(ours.mixture)
    kinds = torch.from_numpy(codes.astype(np.int64))
    x = torch.randn(NODES, inputs)
    assert_same(lambda x: ours(x, adjacency), lambda x: theirs(x, pairs, kinds), x)
