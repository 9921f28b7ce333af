from __future__ import annotations

import dataclasses

import pytest
import torch

from scr.encoders import HopBatch, ProblemShape
from scr.errors import ConfigError
from scr.networks import ENCODERS, make_encoder

NARS = [name for name in ENCODERS if name.startswith("nars-")]


def test_every_encoder_that_reads_hops_apart_has_one_over_subsets():
    hops = 3
    apart = {
        name
        for name, encoder in ENCODERS.items()
        if encoder.fixed_mixture(encoder.config_class(), hops) is None
        and encoder.batch_kind is HopBatch
        and not encoder.mixes_subsets
    }
    assert set(NARS) == {f"nars-{name}" for name in apart}
    assert {"nars-sign", "nars-sagn", "nars-gamlp"} <= set(NARS)


@pytest.mark.parametrize("name", NARS)
@pytest.mark.parametrize("training", [True, False])
def test_with_one_subset_and_weights_of_one_it_is_the_encoder_itself(name, training):
    shape = ProblemShape(features=12, hops=4, classes=5, label_hops=1)
    batch = HopBatch(torch.randn(200, 4, 12), torch.rand(200, 1, 5))
    over, alone = (
        make_encoder(each, {"hidden": 16}, shape).train(training)
        for each in (name, name.removeprefix("nars-"))
    )
    alone.load_state_dict(over.inner.state_dict())
    assert (over.mixture.weight == 1).all()  # the mean of a single subset
    assert (over.mixture.first == 1).all()
    torch.manual_seed(3)
    ours = over(batch)
    torch.manual_seed(3)
    assert torch.equal(ours, alone(batch))


@pytest.mark.parametrize("name", NARS)
def test_settings_are_those_of_the_encoder_and_of_the_mixture(name):
    def known(encoder):
        config = encoder.config_class()
        return {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}

    added = {"mixing": "mean", "subset_sample": None, "resample": 10}
    assert known(ENCODERS[name]) == known(ENCODERS[name.removeprefix("nars-")]) | added


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        (
            "mixing",
            "median",
            "`encoder.mixing` is 'median'; expected one of `mean`, `sum`",
        ),
        ("subset_sample", 0, "`encoder.subset_sample` is 0; expected"),
        ("resample", 0, "`encoder.resample` is 0; expected a whole number of at least 1"),
        ("heads", 0, "`encoder.heads` is 0; expected"),  # SAGN's own check
    ],
)
def test_wrong_settings_are_named(setting, value, message):
    shape = ProblemShape(features=4, hops=2, classes=2)
    with pytest.raises(ConfigError, match=message):
        make_encoder("nars-sagn", {setting: value}, shape)


def test_the_mixture_sums_over_relations_before_the_encoder_sees_anything():
    """Of two subsets that cancel out, the encoder sees zeros."""
    shape = ProblemShape(features=6, hops=3, classes=4, subsets=2)
    encoder = make_encoder("nars-sign", {"hidden": 8, "input_dropout": 0.0}, shape).eval()
    one = torch.randn(30, 2, 6)
    own = torch.randn(30, 1, 6)
    cancelled = encoder(HopBatch(torch.cat([own, one, -one], 1)))
    nothing = encoder.inner(HopBatch(torch.cat([own, torch.zeros(30, 2, 6)], 1)))
    torch.testing.assert_close(cancelled, nothing)


def test_gamlp_over_subsets_has_as_many_parameters_as_published():
    shape = ProblemShape(features=256, hops=6, classes=349, label_hops=1, subsets=8)
    settings = {"hidden": 512, "layers": 4, "hop_layers": 2, "reference_layers": 4}
    encoder = make_encoder("nars-gamlp-jk", settings, shape)
    # GAMLP's README. Its code also mixes hop 0, equal in all subsets, by eight weights, and its
    # residual layer has no bias.
    published = 6_734_882
    redundant, bias = 7 * 256, 512
    assert sum(each.numel() for each in encoder.parameters()) == published - redundant + bias
