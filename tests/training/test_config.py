"""The recipe section `postprocess`: what is taken and what is refused."""

import dataclasses

import pytest

from scr.config import build
from scr.errors import ConfigError
from scr.training import PostprocessConfig


def test_nothing_is_smoothed_unless_it_is_asked_for():
    assert PostprocessConfig().method == "none"
    assert PostprocessConfig().labels == "train"


def test_plain_tables_are_read_back_as_they_were():
    config = PostprocessConfig(method="correct-and-smooth", scale=2.0, smooth_norm="row")
    assert build(PostprocessConfig, dataclasses.asdict(config), section="postprocess") == config


def test_a_whole_number_is_a_scale():
    config = build(PostprocessConfig, {"scale": 2}, section="postprocess")
    assert config.scale == 2.0


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("method", "smooth"),
        ("labels", "test"),
        ("steps", "none"),
        ("correct_hops", 0),
        ("smooth_hops", -1),
        ("smooth_hops", 2.5),
        ("correct_alpha", 1.1),
        ("smooth_alpha", -0.1),
        ("correct_norm", "DAD"),
        ("smooth_norm", ""),
        ("scale", 0),
        ("scale", -1.0),
        ("scale", float("nan")),
        ("scale", float("inf")),
        ("scale", "large"),
    ],
)
def test_a_value_that_cannot_work_is_refused_by_name(key, value):
    with pytest.raises(ConfigError, match=f"postprocess.{key}"):
        build(PostprocessConfig, {key: value}, section="postprocess")
