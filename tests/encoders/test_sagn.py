"""SAGN against its formula, in loops, for every way of weighing hops."""

from __future__ import annotations

import math

import pytest
import torch
from tests.encoders.formulas import (
    add,
    batch_norm,
    dot,
    leaky_relu,
    linear,
    mixed_labels,
    perceptron,
    prelu,
    softmax,
    trained_encoder,
    weighted_sum,
)

from scr.config import build
from scr.encoders import HopBatch, ProblemShape
from scr.encoders._sagn import SAGNConfig
from scr.errors import ConfigError
from scr.networks import make_encoder


def _weights(encoder, hidden, head):
    config = encoder.config
    hops = len(hidden)
    if config.weight_style == "uniform":
        return [1 / hops] * hops
    if config.weight_style == "exponent":
        return [config.alpha**k for k in range(hops)]
    left, right = encoder.attention[head].tolist()
    focal = {
        "first": hidden[0],
        "last": hidden[-1],
        "average": weighted_sum([1 / hops] * hops, hidden),
    }[config.focal]
    scores = [dot(left, hop) + dot(right, focal) for hop in hidden]
    if config.hop_norm == "softmax":
        return softmax([leaky_relu(score) for score in scores])
    if config.hop_norm == "sigmoid":
        return [1 / (1 + math.exp(-score)) for score in scores]
    return [math.tanh(score) for score in scores]


def _logits(encoder, hops, labels):
    config = encoder.config
    if encoder.positions is not None:
        hops = [add(hop, encoder.positions[k].tolist()) for k, hop in enumerate(hops)]
    total = [0.0] * 5
    for head in range(config.heads):
        hidden = [perceptron(hop, encoder.branches, k, head) for k, hop in enumerate(hops)]
        mixed = weighted_sum(_weights(encoder, hidden, head), hidden)
        width = len(mixed)
        if encoder.residual is not None:
            part = encoder.residual.weight[0][:, head * width : (head + 1) * width]
            mixed = add(mixed, linear(hops[0], part))
        mixed = prelu(batch_norm(mixed, encoder.norm, head * width), 0.0)
        own = perceptron(mixed, encoder.output, group=head)
        if labels is not None:
            branch = encoder.label_branch
            read = mixed_labels(labels, branch.mixture)
            own = add(own, perceptron(read, branch.perceptron, 0, head))
        total = add(total, [value / config.heads for value in own])
    return total


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"focal": "last"},
        {"focal": "average"},
        {"hop_norm": "sigmoid"},
        {"hop_norm": "tanh"},
        {"weight_style": "uniform"},
        {"weight_style": "exponent", "alpha": 0.7},
        {"position_embedding": True},
        {"residual": False, "norm": "none"},
        {"layers": 1, "hop_layers": 1},
        {"zero_inits": False, "label_layers": 2},
    ],
)
@pytest.mark.parametrize("label_hops", [0, 1, 3])
def test_every_weight_style_equals_its_formula(heads, settings, label_hops):
    encoder, batch = trained_encoder(
        "sagn", {"hidden": 6, "heads": heads, **settings}, label_hops=label_hops
    )
    expected = [
        _logits(
            encoder,
            batch.hops[row].tolist(),
            None if batch.labels is None else batch.labels[row].tolist(),
        )
        for row in range(len(batch))
    ]
    with torch.no_grad():
        result = encoder(batch)
    torch.testing.assert_close(
        result, torch.tensor(expected, dtype=torch.float64), rtol=1e-6, atol=1e-6
    )


def test_zero_inits_start_with_equal_attention():
    shape = ProblemShape(features=4, hops=3, classes=2)
    assert not make_encoder("sagn", {"hidden": 4}, shape).attention.any()
    assert make_encoder("sagn", {"hidden": 4, "zero_inits": False}, shape).attention.all()


@pytest.mark.parametrize("focal", ["first", "last", "average"])
def test_what_all_hops_share_has_no_gradient_of_rounding(focal):
    """As long as a row's scores have one sign, softmax does not depend on its focal score."""
    torch.manual_seed(0)
    shape = ProblemShape(features=20, hops=4, classes=3)
    encoder = make_encoder("sagn", {"hidden": 16, "heads": 2, "focal": focal}, shape)
    encoder(HopBatch(torch.randn(300, 4, 20))).square().sum().backward()
    of_hops, of_focal = encoder.attention.grad.unbind(1)
    assert of_hops.all()
    assert not of_focal.any()


def test_published_number_of_parameters():
    """2,179,678 of SAGN + SCR-m on ogbn-products: 3 hops, 100 features, 47 classes."""
    shape = ProblemShape(features=100, hops=4, classes=47, label_hops=1)
    encoder = make_encoder("sagn", {}, shape)
    assert sum(parameter.numel() for parameter in encoder.parameters()) == 2_179_678


def test_each_hop_needs_a_layer():
    with pytest.raises(ConfigError, match=r"encoder\.hop_layers"):
        build(SAGNConfig, {"hop_layers": 0}, section="encoder")
