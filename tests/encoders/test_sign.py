"""SIGN against its formula, in loops."""

from __future__ import annotations

from itertools import chain

import pytest
from tests.encoders.formulas import assert_rows_equal, perceptron, prelu, trained_encoder


@pytest.mark.parametrize("norm", ["none", "batch"])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("label_hops", [0, 1])
def test_branches_are_joined_activated_and_classified(norm, layers, label_hops):
    settings = {"hidden": 7, "layers": layers, "hop_layers": layers, "norm": norm}
    encoder, batch = trained_encoder("sign", settings, label_hops=label_hops)

    def formula(hops):
        joined = []
        for k, hop in enumerate(hops):
            joined += perceptron(hop, encoder.branches, group=k)
        return perceptron(prelu(joined, encoder.slope.item()), encoder.classifier)

    assert_rows_equal(encoder, batch, formula)


def test_without_branches_the_hops_are_joined_as_they_are():
    encoder, batch = trained_encoder("sign", {"hidden": 7, "hop_layers": 0})
    assert_rows_equal(
        encoder, batch, lambda hops: perceptron(list(chain(*hops)), encoder.classifier)
    )
