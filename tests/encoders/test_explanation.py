"""Hop attention against hand computations, and against what the forward pass mixes."""

from __future__ import annotations

import math

import pytest
import torch
from tests.encoders.formulas import dot, leaky_relu, softmax, trained_encoder

from scr.encoders import HopBatch, ProblemShape
from scr.encoders._explanation import contribution_shares
from scr.networks import make_encoder

SOFTMAX = [
    ("gamlp", {}),
    ("gamlp", {"hop_layers": 0}),
    ("gamlp-jk", {}),
    ("sagn", {"heads": 3, "zero_inits": False}),
    ("sagn", {"heads": 2, "hop_layers": 1, "zero_inits": False, "position_embedding": True}),
]


@pytest.mark.parametrize(("name", "settings"), SOFTMAX)
def test_attention_of_softmax_encoders_adds_up_to_one_and_varies_with_the_node(name, settings):
    encoder, batch = trained_encoder(name, settings)
    weights = encoder.hop_attention(batch)
    assert weights.shape == batch.hops.shape[:2]
    torch.testing.assert_close(weights.sum(1), torch.ones(9, dtype=torch.float64))
    assert weights.std(0).max() > 1e-3


@pytest.mark.parametrize("name", ["gamlp", "gamlp-jk", "sagn", "sign"])
def test_asking_for_attention_leaves_dropout_out_and_the_mode_as_it_was(name):
    encoder, batch = trained_encoder(name, {})
    expected = encoder.hop_attention(batch)
    encoder.train()
    torch.testing.assert_close(encoder.hop_attention(batch), expected)
    assert encoder.training
    assert all(module.training for module in encoder.modules())


def test_attention_of_a_gamlp_of_two_hops_is_the_formula_by_hand():
    encoder, _ = trained_encoder("gamlp", {"hop_layers": 0}, hops=2, features=2)
    a, b, c = [1.0, 0.0], [0.0, 2.0], 0.5
    with torch.no_grad():
        encoder.attention.copy_(torch.tensor([a, b]))
        encoder.attention_bias.fill_(c)
    own, neighbors = [1.0, 2.0], [-3.0, 0.25]
    first = leaky_relu(dot(a, own) + dot(b, own) + c)
    second = leaky_relu(dot(a, own) + dot(b, neighbors) + c)  # before hop 1 there is only hop 0
    assert (first, second) == (5.5, 2.0)
    weights = encoder.hop_attention(HopBatch(torch.tensor([[own, neighbors]], dtype=torch.float64)))
    assert weights[0].tolist() == pytest.approx(softmax([first, second]))
    assert weights[0, 0].item() == pytest.approx(1 / (1 + math.exp(-3.5)))


@pytest.mark.parametrize("rows", [3, 3000])
def test_attention_is_what_the_forward_pass_mixes_by(rows):
    """Small batches take torch's way, large ones that of the kernels."""
    torch.manual_seed(0)
    shape = ProblemShape(features=4, hops=3, classes=2)
    encoder = make_encoder("gamlp", {"hop_layers": 0, "hidden": 8}, shape).eval()
    hops = torch.randn(rows, 3, 4)
    mixed = torch.einsum("rk,rkc->rc", encoder.hop_attention(HopBatch(hops)), hops)
    torch.testing.assert_close(encoder.mix(hops), mixed, rtol=1e-4, atol=1e-5)


def test_shares_are_norms_of_what_each_hop_adds_by_hand():
    joined = torch.tensor([[[3.0, 4.0], [0.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]]])
    weight = torch.tensor([[1.0, 0.0], [0.0, 1.0], [5.0, 5.0], [0.0, 15.0]])
    # Row 0: |(3, 4)| = 5 and |(0, 15)| = 15; of row 1 nothing is read.
    assert contribution_shares(joined, weight).tolist() == [[0.25, 0.75], [0.5, 0.5]]


@pytest.mark.parametrize("hop_layers", [0, 2])
def test_a_hop_that_the_layer_over_all_hops_does_not_read_has_no_share(hop_layers):
    encoder, batch = trained_encoder("sign", {"hop_layers": hop_layers, "hidden": 8})
    first = encoder.classifier.layers[0].weight
    with torch.no_grad():
        first[0].view(4, -1, first.shape[2])[2] = 0
    shares = encoder.hop_attention(batch)
    torch.testing.assert_close(shares.sum(1), torch.ones(9, dtype=torch.float64))
    assert shares[:, 2].tolist() == [0] * 9
    assert (shares[:, [0, 1, 3]] > 0).all()


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("mlp", {}, [1, 0, 0, 0]),
        ("sgc", {}, [0, 0, 0, 1]),
        ("ssgc", {"mixture": "ppr", "alpha": 0.5}, [0.5, 0.25, 0.125, 0.125]),
    ],
)
def test_fixed_mixtures_give_their_weights(name, settings, expected):
    encoder, batch = trained_encoder(name, settings)
    weights = encoder.hop_attention(batch)
    assert encoder.attention_kind == "fixed"
    assert weights.tolist() == [pytest.approx(expected)] * 9
