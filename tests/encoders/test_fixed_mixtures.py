"""MLP, SGC and S2GC: which hops they read, with which weights."""

from __future__ import annotations

import pytest
import torch
from tests.encoders.formulas import (
    assert_rows_equal,
    linear,
    perceptron,
    trained_encoder,
    weighted_sum,
)

from scr.encoders._fixed_mixtures import mixture_weights


@pytest.mark.parametrize("label_hops", [0, 1, 3])
def test_mlp_is_a_perceptron_of_hop_0(label_hops):
    encoder, batch = trained_encoder("mlp", {"hidden": 8}, label_hops=label_hops)
    assert_rows_equal(encoder, batch, lambda hops: perceptron(hops[0], encoder.perceptron))


def test_sgc_is_a_linear_function_of_the_last_hop():
    encoder, batch = trained_encoder("sgc", {})
    layer = encoder.classifier.layers[0]
    assert_rows_equal(encoder, batch, lambda hops: linear(hops[-1], layer.weight[0], layer.bias[0]))


@pytest.mark.parametrize(
    ("mixture", "weights"),
    [
        ("mean", [0.25, 0.25, 0.25, 0.25]),
        ("s2gc", [0.1, 0.3, 0.3, 0.3]),
        ("ppr", [0.1, 0.09, 0.081, 0.729]),
    ],
)
def test_ssgc_is_a_perceptron_of_the_average(mixture, weights):
    torch.testing.assert_close(
        torch.from_numpy(mixture_weights(mixture, 0.1, 4)), torch.tensor(weights)
    )
    encoder, batch = trained_encoder("ssgc", {"hidden": 8, "mixture": mixture})
    exact = encoder.weights.tolist()
    assert_rows_equal(
        encoder, batch, lambda hops: perceptron(weighted_sum(exact, hops), encoder.perceptron)
    )


@pytest.mark.parametrize("mixture", ["mean", "s2gc", "ppr"])
@pytest.mark.parametrize("hops", [1, 2, 11])
def test_weights_add_up_to_one(mixture, hops):
    assert mixture_weights(mixture, 0.3, hops).sum() == pytest.approx(1)


def test_one_layer_is_linear():
    encoder, batch = trained_encoder("ssgc", {"layers": 1})
    assert not hasattr(encoder.perceptron.norms, "weight")
    logits = encoder(batch)
    batch.hops.mul_(2)
    bias = encoder.perceptron.layers[0].bias
    torch.testing.assert_close(encoder(batch) - bias, 2 * (logits - bias))
