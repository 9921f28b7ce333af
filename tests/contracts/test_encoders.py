"""What every decoupled encoder must do, whatever its paper."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from tests.contracts.catalog import pairwise_cases

from scr.encoders import HopBatch, ProblemShape
from scr.errors import ConfigError
from scr.networks import ENCODERS, make_encoder

ROWS, HOPS, FEATURES, CLASSES, SUBSETS = 150, 4, 12, 5, 3

SETTINGS = {
    "defaults": {"hidden": 64},
    "small": {"hidden": 16, "norm": "none", "label_layers": 1},
    "layer norm": {"hidden": 16, "norm": "layer"},
}

DECOUPLED = [name for name, encoder in ENCODERS.items() if encoder.batch_kind is HopBatch]

cases = pytest.mark.parametrize(
    ("name", "settings", "label_hops"),
    [
        pytest.param(name, settings, label_hops, id=f"{name}, {kind}, {label_hops} label hops")
        for name, (kind, settings), label_hops in pairwise_cases(
            DECOUPLED, SETTINGS.items(), (0, 1, 3)
        )
    ],
)
names = pytest.mark.parametrize("name", DECOUPLED)


def _shape(name, label_hops=0):
    subsets = SUBSETS if ENCODERS[name].mixes_subsets else 1
    return ProblemShape(
        features=FEATURES, hops=HOPS, classes=CLASSES, label_hops=label_hops, subsets=subsets
    )


def _make(name, settings, label_hops=0):
    torch.manual_seed(0)
    return make_encoder(name, {"input_dropout": 0.1, **settings}, _shape(name, label_hops))


def _batch(name, label_hops=0, rows=ROWS):
    generator = torch.Generator().manual_seed(1)
    matrices = 1 + _shape(name).subsets * (HOPS - 1)
    hops = torch.randn(rows, matrices, FEATURES, generator=generator)
    labels = torch.rand(rows, label_hops, CLASSES, generator=generator) if label_hops else None
    return HopBatch(hops, labels)


def _take(batch, index):
    return HopBatch(batch.hops[index], None if batch.labels is None else batch.labels[index])


@cases
def test_logits_have_one_finite_number_per_row_and_class(name, settings, label_hops):
    encoder = _make(name, settings, label_hops)
    for mode in (True, False):
        logits = encoder.train(mode)(_batch(name, label_hops))
        assert logits.shape == (ROWS, CLASSES)
        assert logits.dtype == torch.float32
        assert logits.isfinite().all()


@cases
def test_gradient_reaches_every_parameter(name, settings, label_hops):
    encoder = _make(name, settings, label_hops)
    with torch.no_grad():
        for parameter in encoder.parameters():  # away from zero, where slopes may vanish
            parameter.add_(0.1 * torch.randn_like(parameter))
    encoder(_batch(name, label_hops)).square().sum().backward()
    missing = [key for key, value in encoder.named_parameters() if value.grad is None]
    assert not missing
    silent = [key for key, value in encoder.named_parameters() if not value.grad.any()]
    # Batch norm takes a bias before it away again.
    assert not [key for key in silent if not (key.endswith("bias") and "layers" in key)]


@cases
def test_evaluation_is_deterministic_and_training_is_noisy(name, settings, label_hops):
    encoder, batch = _make(name, settings, label_hops), _batch(name, label_hops)
    encoder.train()
    assert not torch.equal(encoder(batch), encoder(batch))
    encoder.eval()
    assert torch.equal(encoder(batch), encoder(batch))


@cases
def test_rows_do_not_influence_each_other_in_evaluation(name, settings, label_hops):
    encoder, batch = _make(name, settings, label_hops), _batch(name, label_hops)
    encoder(batch)  # gives batch norm some statistics
    encoder.eval()
    order = torch.randperm(ROWS)
    torch.testing.assert_close(
        encoder(_take(batch, order)), encoder(batch)[order], rtol=1e-4, atol=1e-5
    )
    torch.testing.assert_close(
        encoder(_take(batch, slice(0, 7))), encoder(batch)[:7], rtol=1e-4, atol=1e-5
    )


@cases
def test_single_and_double_precision_agree(name, settings, label_hops):
    """Float32 takes the compiled loops and float64 torch's own, so this compares the two."""
    encoder, batch = _make(name, settings, label_hops), _batch(name, label_hops, rows=800)
    encoder(batch)
    encoder.eval()
    single = encoder(batch)
    labels = None if batch.labels is None else batch.labels.double()
    double = encoder.double()(HopBatch(batch.hops.double(), labels))
    torch.testing.assert_close(single.double(), double, rtol=1e-3, atol=1e-4)


@names
def test_weights_go_through_a_state_dict(name):
    encoder, batch = _make(name, {"hidden": 16}, 1), _batch(name, 1)
    encoder(batch)
    torch.manual_seed(99)
    other = make_encoder(name, {"hidden": 16}, _shape(name, 1))
    other.load_state_dict(encoder.state_dict())
    assert torch.equal(other.eval()(batch), encoder.eval()(batch))


@names
def test_a_deep_copy_predicts_the_same_and_trains_apart(name):
    encoder, batch = _make(name, {"hidden": 16}), _batch(name)
    encoder(batch)
    encoder.eval()
    twin = copy.deepcopy(encoder)
    before = encoder(batch)
    assert torch.equal(twin(batch), before)
    with torch.no_grad():
        next(twin.parameters()).add_(1)
    assert torch.equal(encoder(batch), before)


@names
def test_same_seed_gives_same_weights_and_noise(name):
    def run():
        encoder = _make(name, {"hidden": 16})
        return encoder(_batch(name))

    assert torch.equal(run(), run())


@names
def test_a_batch_may_be_a_single_row(name):
    encoder = _make(name, {"hidden": 16}, 1)
    one = _batch(name, 1, rows=1)
    assert encoder.train()(one).shape == (1, CLASSES)
    assert encoder.eval()(one).shape == (1, CLASSES)


@names
def test_fixed_mixture_is_what_the_encoder_reads(name):
    encoder = ENCODERS[name]
    config = encoder.config_class()
    weights = encoder.fixed_mixture(config, HOPS)
    if weights is None:
        assert name.removeprefix("nars-") in {"sign", "sagn", "gamlp", "gamlp-jk"}
        return
    assert weights.dtype == np.float32
    assert weights.sum() == pytest.approx(1)
    full, batch = _make(name, {"hidden": 16}).eval(), _batch(name)
    mixed = torch.einsum("k,rkf->rf", torch.from_numpy(weights), batch.hops)[:, None]
    shape = ProblemShape(features=FEATURES, hops=1, classes=CLASSES)
    single = make_encoder(name, {"hidden": 16}, shape).eval()
    single.load_state_dict(full.state_dict())
    torch.testing.assert_close(single(HopBatch(mixed)), full(batch), rtol=1e-4, atol=1e-5)


@names
def test_an_unknown_setting_is_named_with_the_closest_one(name):
    shape = ProblemShape(features=FEATURES, hops=HOPS, classes=CLASSES)
    with pytest.raises(ConfigError, match=r"encoder\.dropuot.*\n\nhint: did you mean `dropout`"):
        make_encoder(name, {"dropuot": 0.5}, shape)
    with pytest.raises(ConfigError, match=r"`encoder\.dropout` is 1\.5; expected"):
        make_encoder(name, {"dropout": 1.5}, shape)
    with pytest.raises(ConfigError, match=r"`encoder\.hidden` is 0; expected"):
        make_encoder(name, {"hidden": 0}, shape)


def test_an_unknown_encoder_is_named_with_the_closest_one():
    shape = ProblemShape(features=FEATURES, hops=HOPS, classes=CLASSES)
    with pytest.raises(ConfigError, match=r"`encoder\.name` is 'gamlpp'.*\n\nhint: .*`gamlp`"):
        make_encoder("gamlpp", {}, shape)


def test_a_label_branch_without_labels_is_refused():
    with pytest.raises(ValueError, match="no labels"):
        _make("mlp", {}, 1)(_batch("mlp"))
