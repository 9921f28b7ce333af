"""GAMLP, recursive and JK, against the paper's formulas on full vectors, in loops."""

from __future__ import annotations

import math
from itertools import chain

import pytest
import torch
from tests.encoders.formulas import (
    add,
    assert_rows_equal,
    dot,
    initial_residual,
    jk_mixed_labels,
    leaky_relu,
    linear,
    perceptron,
    prelu,
    recursive_attention,
    softmax,
    trained_encoder,
    weighted_sum,
)

from scr.encoders import HopBatch, ProblemShape
from scr.networks import make_encoder

ACTIVATIONS = {
    "leaky_relu": leaky_relu,
    "relu": lambda value: max(value, 0.0),
    "sigmoid": lambda value: 1 / (1 + math.exp(-value)),
}

VARIANTS = [
    {},
    {"activation": "sigmoid"},
    {"activation": "relu", "alpha": 0.2},
    {"residual": False},
    {"layers": 1},
    {"layers": 2, "hop_layers": 1},
    {"hop_layers": 0},
    {"norm": "none", "layers": 3},
]


def _inputs(encoder, hops):
    if encoder.branches is None:
        return hops
    return [perceptron(hop, encoder.branches, group=k) for k, hop in enumerate(hops)]


def _output(encoder, mixed, hops):
    if encoder.residual is not None:
        own = linear(hops[0], encoder.residual.weight[0], encoder.residual.bias[0])
        mixed = prelu(add(mixed, own), encoder.slope.item())
    return initial_residual(mixed, encoder.output)


@pytest.mark.parametrize("settings", VARIANTS)
@pytest.mark.parametrize("label_hops", [0, 1])
def test_recursive_attention_on_dot_products_equals_full_vectors(settings, label_hops):
    encoder, batch = trained_encoder("gamlp", {"hidden": 7, **settings}, label_hops=label_hops)
    act = ACTIVATIONS[encoder.config.activation]
    history, present = encoder.attention.tolist()

    def formula(hops):
        inputs = _inputs(encoder, hops)
        bias = encoder.attention_bias.item()
        return _output(encoder, recursive_attention(inputs, history, present, bias, act), hops)

    assert_rows_equal(encoder, batch, formula)


def test_all_label_hops_are_drawn_to_the_last_and_mixed():
    encoder, batch = trained_encoder("gamlp", {"hidden": 7}, label_hops=4)
    history, present = encoder.attention.tolist()

    def formula(hops):
        inputs, bias = _inputs(encoder, hops), encoder.attention_bias.item()
        mixed = recursive_attention(inputs, history, present, bias, leaky_relu)
        return _output(encoder, mixed, hops)

    assert_rows_equal(encoder, batch, formula)


@pytest.mark.parametrize("settings", [*VARIANTS, {"reference_layers": 1}])
@pytest.mark.parametrize("label_hops", [0, 1])
def test_jk_attention_compares_each_hop_with_a_summary_of_all(settings, label_hops):
    encoder, batch = trained_encoder("gamlp-jk", {"hidden": 7, **settings}, label_hops=label_hops)
    act = ACTIVATIONS[encoder.config.activation]

    def formula(hops):
        inputs = _inputs(encoder, hops)
        summary = prelu(
            initial_residual(list(chain(*inputs)), encoder.reference), encoder.slope.item()
        )
        shared = dot(encoder.attention_reference.tolist(), summary) + encoder.attention_bias.item()
        own = encoder.attention[0].tolist()
        weights = softmax([act(shared + dot(own, x)) for x in inputs])
        return _output(encoder, weighted_sum(weights, inputs), hops)

    assert_rows_equal(encoder, batch, formula)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_jk_attention_over_label_hops_leaves_the_nearest_as_it_is(activation):
    settings = {"hidden": 7, "label_attention": "jk", "activation": activation}
    encoder, batch = trained_encoder("gamlp-jk", settings, label_hops=4)
    branch = encoder.label_branch
    expected = [
        perceptron(
            jk_mixed_labels(labels, branch.mixture, ACTIVATIONS[activation]), branch.perceptron
        )
        for labels in batch.labels.tolist()
    ]
    with torch.no_grad():
        torch.testing.assert_close(branch(batch.labels), torch.tensor(expected).double())


@pytest.mark.parametrize("label_attention", ["recursive", "jk"])
def test_the_nearest_label_hop_only_enters_with_jk_attention(label_attention):
    settings = {"hidden": 7, "label_attention": label_attention}
    encoder, batch = trained_encoder("gamlp-jk", settings, label_hops=3)
    changed = batch.labels.clone()
    changed[:, 0] = torch.rand_like(changed[:, 0])
    equal = torch.allclose(encoder(HopBatch(batch.hops, changed)), encoder(batch))
    assert equal == (label_attention == "recursive")


def test_one_label_hop_needs_no_attention():
    encoder, batch = trained_encoder("gamlp-jk", {"label_attention": "jk"}, label_hops=1)
    mixture = encoder.label_branch.mixture
    assert not list(mixture.parameters())
    torch.testing.assert_close(mixture(batch.labels), batch.labels[:, 0])


def test_published_number_of_parameters():
    """3,335,831 of GAMLP on ogbn-products: 5 hops, 100 features, 47 classes, one label hop."""
    shape = ProblemShape(features=100, hops=6, classes=47, label_hops=1)
    encoder = make_encoder("gamlp", {}, shape)
    assert sum(parameter.numel() for parameter in encoder.parameters()) == 3_335_831


def test_the_own_label_of_a_node_never_enters_with_all_label_hops():
    encoder, batch = trained_encoder("gamlp", {"hidden": 7}, label_hops=3)
    changed = batch.labels.clone()
    changed[:, 0] = torch.rand_like(changed[:, 0])
    torch.testing.assert_close(encoder(HopBatch(batch.hops, changed)), encoder(batch))


@pytest.mark.parametrize("name", ["gamlp", "gamlp-jk", "sagn", "sign"])
def test_training_gradients_in_single_precision_equal_torch_in_double(name):
    """Without noise, the compiled loops and torch's own layers must agree on every gradient."""
    silent = {"dropout": 0.0, "input_dropout": 0.0, "label_dropout": 0.0}
    if name != "sign":
        silent["attention_dropout"] = 0.0
    torch.manual_seed(3)
    shape = ProblemShape(features=10, hops=4, classes=5, label_hops=1)
    single = make_encoder(name, {"hidden": 32, "norm": "batch", **silent}, shape)
    double = make_encoder(name, {"hidden": 32, "norm": "batch", **silent}, shape).double()
    double.load_state_dict(single.state_dict())
    hops, labels = torch.randn(600, 4, 10), torch.rand(600, 1, 5)
    incoming = torch.randn(600, 5)
    single(HopBatch(hops, labels)).backward(incoming)
    double(HopBatch(hops.double(), labels.double())).backward(incoming.double())
    for (key, one), other in zip(single.named_parameters(), double.parameters(), strict=True):
        scale = max(other.grad.abs().max().item(), 1.0)
        difference = (one.grad.double() - other.grad).abs().max().item()
        assert difference < 2e-4 * scale, key
