"""Names, their settings, and which layer of a recipe wins."""

import math

import pytest

from scr.consistency import (
    ConsistencyConfig,
    ConsistencyLoss,
    consistency_config,
    make_unlabeled_loss,
    weight_share_at,
)
from scr.consistency.alternatives import FixMatchLoss, SoftMatchLoss
from scr.errors import ConfigError


def test_both_forms_of_scr_are_the_same_term():
    for name in ("scr", "scr-m"):
        loss = make_unlabeled_loss(name, ConsistencyConfig(weight=0.3, temperature=0.7), 4)
        assert isinstance(loss, ConsistencyLoss)
        assert (loss.weight, loss.temperature) == (0.3, 0.7)


def test_a_method_has_its_papers_values_where_none_are_given():
    fixmatch = make_unlabeled_loss("fixmatch", consistency_config("fixmatch", {}), 4)
    assert isinstance(fixmatch, FixMatchLoss)
    assert fixmatch.threshold == 0.95
    softmatch = make_unlabeled_loss("softmatch", consistency_config("softmatch", {}), 4)
    assert isinstance(softmatch, SoftMatchLoss)
    assert (softmatch.momentum, softmatch.sigmas, softmatch.alignment) == (0.999, 2.0, "uniform")


def test_given_values_win_over_the_papers():
    config = consistency_config("fixmatch", {"threshold": 0.8, "views": 3})
    assert (config.threshold, config.views) == (0.8, 3)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("weight_ramp", -1), ("momentum", 1.0), ("fairness", -0.1), ("sigmas", 0.0),
     ("alignment", "class")],
)  # fmt: skip
def test_what_cannot_work_is_named(setting, value):
    with pytest.raises(ConfigError, match=rf"consistency\.{setting}"):
        consistency_config("softmatch", {setting: value})


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(ConfigError, match="one of scr, scr-m, pi, "):
        make_unlabeled_loss("fixmach", ConsistencyConfig(), 4)


def test_the_ramp_is_the_gaussian_of_the_paper_and_ends_at_one():
    shares = [weight_share_at(epoch, 4) for epoch in range(6)]
    assert shares == pytest.approx(
        [math.exp(-5 * (1 - t) ** 2) for t in (0, 0.25, 0.5, 0.75, 1, 1)]
    )
    assert weight_share_at(0, 0) == 1.0
