"""The perceptron beside torch's own layers."""

import copy

import torch

from scr.encoders import EncoderConfig
from scr.encoders.layers._feed_forward import FeedForward


def test_a_norm_after_the_activation_is_that_of_torchs_layers():
    """GRAND's perceptron: linear, relu, batch norm, dropout, linear."""
    torch.manual_seed(0)
    config = EncoderConfig(hidden=6, dropout=0.5, norm="batch")
    ours = FeedForward(config, 5, 3, layers=2, norm_place="after", activation="relu")
    first, last = ours.layers
    x = torch.randn(20, 5)
    for training in (True, False):
        reference = copy.deepcopy(ours.norms[0]).train(training)
        ours.train(training)
        ours.dropout = 0.0
        hidden = reference(torch.relu(x @ first.weight[0] + first.bias[0]))
        expected = hidden @ last.weight[0] + last.bias[0]
        torch.testing.assert_close(ours(x), expected)
    assert (ours.norms[0].running_mean > 0).any()  # of what relu left
    ours.train()
    ours.dropout = 0.5
    assert not torch.equal(ours(x), ours(x))
