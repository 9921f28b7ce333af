"""Recipes: layers, presets, and what is refused."""

import dataclasses
import itertools

import pytest

from scr.consistency import REGULARIZERS, ConsistencyConfig
from scr.errors import ConfigError
from scr.features import FeatureConfig
from scr.networks import ENCODERS
from scr.propagation import PropagationConfig
from scr.training import Recipe, TrainingConfig, merge, resolve, specialize
from scr.training.presets import PRESETS, GraphFacts, choose_preset

SMALL = GraphFacts(nodes=1000, train=100, classes=5)


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("reduced", [False, True])
def test_every_preset_fits_every_encoder_and_regularizer(encoder, reduced):
    facts = GraphFacts(nodes=1000, train=100, classes=5, reduced=reduced)
    for preset, regularizer in itertools.product(PRESETS, REGULARIZERS):
        print(preset, regularizer)
        if regularizer == "grand" and encoder not in ("mlp", "sgc", "ssgc"):
            with pytest.raises(ConfigError, match="fixed mixture"):
                resolve(facts, encoder=encoder, regularizer=regularizer, preset=preset)
            continue
        recipe = resolve(facts, encoder=encoder, regularizer=regularizer, preset=preset)
        assert recipe.encoder == encoder
        assert (recipe.consistency is None) == (regularizer == "none")
        if regularizer == "scr-m":
            assert recipe.consistency.decay is not None
        if regularizer == "scr":
            assert recipe.consistency.decay is None


def test_a_method_keeps_its_papers_values_below_a_preset_that_is_for_scr():
    # The preset has a threshold of 0.85 and a weight of 0.5 for SCR.
    facts = GraphFacts(nodes=10**6, train=10**5, classes=10)
    scr = resolve(facts, regularizer="scr").consistency
    assert (scr.weight, scr.threshold) == (0.5, 0.85)
    fixmatch = resolve(facts, regularizer="fixmatch").consistency
    assert (fixmatch.weight, fixmatch.threshold, fixmatch.views) == (1.0, 0.95, 1)
    assert resolve(facts, regularizer="pi").consistency.threshold == 0.0
    # What a preset has for the method wins, and what the user gives wins over that.
    assert resolve(SMALL, regularizer="freematch").consistency.momentum == 0.9
    given = [{"consistency": {"momentum": 0.5}}]
    assert resolve(SMALL, regularizer="freematch", layers=given).consistency.momentum == 0.5


@pytest.mark.parametrize("regularizer", REGULARIZERS)
def test_recorded_tables_make_the_same_recipe_again(regularizer):
    recipe = resolve(SMALL, regularizer=regularizer, preset="few-labels")
    again = Recipe.from_tables(recipe.tables())
    assert again.tables() == recipe.tables()
    assert again.consistency == recipe.consistency


@pytest.mark.parametrize(
    ("train", "classes", "expected"),
    [(140, 7, "few-labels"), (500, 5, "few-labels"), (501, 5, "some-labels"),
     (19_999, 5, "some-labels"), (20_000, 47, "many-labels"), (20_000, 1000, "many-labels")],
)  # fmt: skip
def test_the_preset_follows_the_stated_rules(train, classes, expected):
    name, reason = choose_preset(GraphFacts(nodes=10**6, train=train, classes=classes))
    assert name == expected
    assert f"{train:,} training nodes" in reason


def test_later_layers_win():
    recipe = resolve(
        SMALL,
        encoder="ssgc",
        regularizer="scr",
        layers=[{"training": {"epochs": 7, "clip": 2}}, {"training": {"epochs": 9}}],
    )
    assert recipe.training.epochs == 9
    assert recipe.training.clip == 2.0


def test_tables_for_an_encoder_or_a_regularizer_lie_over_the_common_ones():
    tables = {
        "training": {"epochs": 5},
        "for": {"sign": {"training": {"epochs": 6}}, "scr": {"consistency": {"weight": 3.0}}},
    }
    sign = resolve(SMALL, encoder="sign", regularizer="scr", layers=[tables])
    ssgc = resolve(SMALL, encoder="ssgc", regularizer="scr-m", layers=[tables])
    assert (sign.training.epochs, sign.consistency.weight) == (6, 3.0)
    assert (ssgc.training.epochs, ssgc.consistency.weight) == (5, 1.0)
    assert specialize(tables, "gamlp", "none") == {"training": {"epochs": 5}}


def test_features_that_are_reduced_are_not_silenced_at_the_input():
    wide = GraphFacts(nodes=1000, train=100, classes=5, reduced=True)
    assert resolve(wide, encoder="ssgc").encoder_settings["input_dropout"] == 0.0
    assert resolve(SMALL, encoder="ssgc").encoder_settings["input_dropout"] > 0


def test_a_recorded_recipe_makes_the_same_recipe():
    recipe = resolve(SMALL, encoder="gamlp", regularizer="scr-m")
    again = Recipe.from_tables(recipe.tables(), preset=recipe.preset, reason=recipe.reason)
    assert again == recipe


def test_tables_hold_every_setting_and_are_read_back():
    changed = {
        "propagation": {"subsets": "single", "label_paths": ["^writes writes"]},
        # What is younger than others is written down only if it is not as it always was.
        "training": {"metric": "macro-f1", "refit": True, "inductive": True},
        "consistency": {"noise": "dropped-nodes", "top_nodes": 16},
    }
    recipe = resolve(SMALL, regularizer="scr", layers=[changed])
    tables = recipe.tables()
    for section, config in (
        ("data", FeatureConfig), ("propagation", PropagationConfig),
        ("consistency", ConsistencyConfig), ("training", TrainingConfig),
    ):  # fmt: skip
        assert tables[section].keys() == {field.name for field in dataclasses.fields(config)}
    assert tables["propagation"]["subsets"] == "single"
    assert Recipe.from_tables(tables).propagation == recipe.propagation


@pytest.mark.parametrize(
    ("tables", "named"),
    [
        ({"trianing": {}}, "trianing"),
        ({"training": 3}, "`training` is 3; expected a table"),
        ({"encoder": "gamlp"}, "`encoder` is 'gamlp'; expected a table"),
        ({"encoder": {"name": ["gamlp"]}}, r"encoder\.name"),
        ({"encoder": {"name": 3}}, r"encoder\.name"),
        ({"for": 3}, "`for` is 3; expected a table"),
        ({"for": {"ssgc": 3}}, r"`for\.ssgc` is 3; expected a table"),
        ({"for": {"ssgc": {"training": 3}}}, "`training` is 3; expected a table"),
        ({"stages": {"number": 2}}, r"stages\.number"),
        ({"encoder": {"name": "ssgc", "heads": 2}}, r"encoder\.heads"),
        ({"regularizer": "dropout"}, "dropout"),
        ({"consistency": {"decay": 1.0}}, r"consistency\.decay"),
        ({"training": {"select_after": 1.0}}, "select_after"),
        ({"propagation": {"norm": "left"}}, r"propagation\.norm"),
    ],
)
def test_what_cannot_work_is_named(tables, named):
    with pytest.raises(ConfigError, match=named):
        resolve(SMALL, layers=[tables])


@pytest.mark.parametrize("section", ["training", "trianing", "regularizer", "for"])
def test_settings_over_something_that_is_no_table_are_refused(section):
    with pytest.raises(ConfigError, match=section):
        resolve(SMALL, layers=[{section: 5}, {section: {"epochs": 3}}])


def test_scr_m_without_a_decay_is_refused():
    with pytest.raises(ConfigError, match=r"consistency\.decay"):
        resolve(SMALL, regularizer="scr-m", layers=[{"consistency": {"decay": "none"}}])


def test_merge_goes_section_by_section():
    assert merge({"a": {"x": 1, "y": 2}, "r": 1}, {"a": {"y": 3}, "r": 2}) == {
        "a": {"x": 1, "y": 3},
        "r": 2,
    }
