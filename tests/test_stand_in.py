"""Stand-ins: what they keep of a data set, what they scale, and that they say so."""

import math
from dataclasses import replace

import numpy as np
import pytest

from scr.cli import main
from scr.communities import community_graph
from scr.recipes import read_recipe, recipe_names
from scr.stand_in import stand_in_of
from scr.training.recipe import Recipe, merge

TRAIN = {"ogbn-products": 196_615, "ogbn-mag": 629_571, "ogbn-papers100M": 1_207_179}
"""Training nodes, https://ogb.stanford.edu/docs/nodeprop/."""


def settings_of(name):
    recipe = read_recipe(name)
    return merge(recipe.tables, stand_in_of(recipe).settings)


@pytest.fixture(scope="module")
def products():
    return community_graph(stand_in_of(read_recipe("zhang-2022-base-gamlp-products")).graph)


@pytest.mark.parametrize("name", recipe_names())
def test_the_settings_of_every_recipe_make_a_recipe(name):
    recipe = Recipe.from_tables(settings_of(name))
    assert recipe.training.epochs >= 1
    assert recipe.encoder == read_recipe(name).encoder
    if recipe.consistency is not None:
        # The term begins, and the confident set is chosen anew, within the epochs there are.
        own = read_recipe(name).tables["consistency"]
        assert recipe.consistency.threshold == own["threshold"]
        assert recipe.consistency.temperature == own["temperature"]


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("zhang-2022-base-gamlp-products", 4),  # ceil(196,615 / 50,000)
        ("zhang-2021-scr-gamlp-products", 4),
        ("zhang-2021-scr-m-gamlp-products", 4),
        ("zhang-2021-base-graphsage-products", 193),  # ceil(196,615 / 1,024)
        ("zhang-2021-scr-graphsage-products", 193),
        ("zhang-2022-base-nars-gamlp-mag", 63),  # ceil(629,571 / 10,000)
        ("zhang-2021-scr-m-nars-gamlp-mag", 63),
        ("zhang-2022-base-gamlp-papers100m", 242),  # ceil(1,207,179 / 5,000)
    ],
)
def test_an_epoch_has_about_as_many_steps_as_on_the_data_set(name, steps):
    recipe = read_recipe(name)
    own = recipe.tables["training"]["batch_size"]
    assert math.ceil(TRAIN[recipe.dataset] / own) == steps
    stand_in = stand_in_of(recipe)
    batch = stand_in.settings["training"]["batch_size"]
    # Batches that BatchNorm needs are not divided below 64 rows.
    expected = steps if own / 128 > 64 or batch < 64 else math.ceil(stand_in.graph.train / 64)
    assert math.ceil(stand_in.graph.train / batch) == pytest.approx(expected, abs=1)


@pytest.mark.parametrize(
    ("row", "base"),
    [
        ("zhang-2021-scr-gamlp-products", "zhang-2022-base-gamlp-products"),
        ("zhang-2021-scr-m-gamlp-products", "zhang-2022-base-gamlp-products"),
        ("zhang-2021-scr-sign-products", "zhang-2021-base-sign-products"),
        ("zhang-2021-scr-mlp-products", "zhang-2021-base-mlp-products"),
        ("zhang-2021-scr-graphsage-products", "zhang-2021-base-graphsage-products"),
        ("zhang-2021-scr-m-nars-gamlp-mag", "zhang-2022-base-nars-gamlp-mag"),
    ],
)
def test_a_row_with_scr_takes_the_steps_and_the_rate_of_its_baseline(row, base):
    ours, theirs = settings_of(row)["training"], settings_of(base)["training"]
    for name in ("epochs", "batch_size", "learning_rate"):
        assert ours[name] == theirs[name]


def test_the_stand_in_of_products_has_its_sizes_in_proportion(products):
    assert products.num_classes == 47
    assert products.num_features == 100
    assert products.num_targets == math.ceil(2_449_029 / 128)
    assert len(products.train) == math.ceil(196_615 / 128)
    assert len(products.train) / products.num_targets == pytest.approx(0.0803, abs=0.001)
    shares = np.bincount(products.labels[products.labels >= 0], minlength=47)
    assert shares.max() / products.num_targets > 0.1  # products: 0.27 is the largest of 47
    assert shares.max() > 20 * np.sort(shares)[5]


def test_neighbors_are_as_alike_as_those_of_products(products):
    sources = np.repeat(np.arange(products.num_targets), np.diff(products.indptr))
    same = products.labels[sources] == products.labels[products.indices]
    assert 0.6 < same.mean() < 0.9  # products: 0.81


def test_recipes_with_features_of_their_own_share_edges_and_splits_with_the_others(products):
    giant = stand_in_of(read_recipe("zhang-2021-scr-sagn-giant-products")).graph
    assert giant.features == 768
    narrow = community_graph(replace(giant, features=100))
    assert np.array_equal(narrow.indices, products.indices)
    assert np.array_equal(narrow.train, products.train)


def test_a_seed_decides_the_graph():
    config = stand_in_of(read_recipe("hu-2020-base-mlp-products")).graph
    sizes = {"nodes": 2000, "classes": 5, "groups": 2, "communities": 100}
    small = replace(config, **sizes, train=200, valid=50, test=500)
    small = replace(small, links=(replace(small.links[0], edges=10_000),))
    assert community_graph(small).fingerprint() == community_graph(small).fingerprint()
    other = community_graph(replace(small, seed=1))
    assert other.fingerprint() != community_graph(small).fingerprint()


def test_the_stand_in_of_mag_has_its_types_and_relations():
    graph = community_graph(stand_in_of(read_recipe("zhang-2022-base-nars-gamlp-mag")).graph)
    assert set(graph.node_types) == {"paper", "author", "institution", "field_of_study"}
    assert graph.target == "paper"
    assert graph.num_classes == 349
    assert len(graph.train) / graph.num_targets == pytest.approx(629_571 / 736_389, abs=0.001)


def scr(*arguments):
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    return caught.value.code or 0


def test_a_recipe_runs_on_its_stand_in_and_claims_nothing(tmp_path, capsys):
    quick = ["--runs", "1", "--set", "training.epochs=1", "--out", tmp_path / "out"]
    assert scr("reproduce", "hu-2020-base-mlp-products", "--stand-in", *quick) == 0
    printed = capsys.readouterr().out
    assert "says nothing about the published one" in printed
    assert "61.06" in printed


@pytest.mark.parametrize("option", ["--graph", "--features", "--data"])
def test_a_stand_in_takes_no_data_of_the_users(tmp_path, capsys, option):
    given = [option, tmp_path / "x", "--out", tmp_path / "out"]
    assert scr("reproduce", "hu-2020-base-mlp-products", "--stand-in", *given) == 2
    assert option in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
