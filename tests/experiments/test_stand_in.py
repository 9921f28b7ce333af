"""Generated graphs in the place of data sets: what they keep of them, and of the recipes."""

import dataclasses
import json
import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

from scr.cli import app
from scr.experiments import _stand_in as stand_ins
from scr.experiments._stand_in import stand_in_for, stand_in_of
from scr.recipes import read_recipe, recipe_names
from scr.synth import community_graph
from scr.training import Recipe, merge, prepare
from scr.training._batches import EpochNodes

RECIPES = [read_recipe(name) for name in recipe_names()]
ONE_OF = {
    "ogbn-products": "zhang-2022-base-gamlp-products",
    "ogbn-mag": "zhang-2022-base-nars-gamlp-mag",
    "ogbn-papers100M": "zhang-2022-base-gamlp-papers100m",
}
TRAIN = {"ogbn-products": 196_615, "ogbn-mag": 629_571, "ogbn-papers100M": 1_207_179}
"""Training nodes, https://ogb.stanford.edu/docs/nodeprop/."""


def settings_of(name):
    recipe = read_recipe(name)
    return merge(recipe.tables, stand_in_of(recipe).settings)


def small(dataset, share=10):
    """A tenth of a stand-in's nodes and edges, all labeled."""
    config = stand_in_of(read_recipe(ONE_OF[dataset])).graph
    nodes = config.nodes // share
    return dataclasses.replace(
        config,
        nodes=nodes,
        links=tuple(
            dataclasses.replace(each, edges=each.edges // share) for each in config.links
        ),
        train=nodes - 2, valid=1, test=1,
    )  # fmt: skip


@pytest.fixture(scope="module")
def products():
    return community_graph(stand_in_of(read_recipe(ONE_OF["ogbn-products"])).graph)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_the_rule_makes_a_valid_recipe_and_leaves_the_method_alone(recipe):
    settings = stand_in_of(recipe).settings
    changed = {f"{section}.{name}" for section, table in settings.items() for name in table}
    assert changed <= {
        "encoder.hidden", "encoder.roots", "encoder.clusters", "encoder.clusters_per_batch",
        "training.batch_size", "training.unlabeled_per_batch", "training.epochs",
        "training.evaluate_every", "training.patience",
        "training.learning_rate", "training.average_decay", "consistency.warmup",
        "consistency.refresh", "consistency.weight_ramp", "consistency.decay", "stages.epochs",
    }  # fmt: skip
    Recipe.from_tables(merge(recipe.tables, settings))


def keeps_its_steps(recipe):
    """Whether a batch of at least 64 rows is no more than the recipe's divided like nodes."""
    larger = 64 * stand_ins.FACTS[recipe.dataset].divisor > recipe.tables["training"]["batch_size"]
    return not larger and "clusters" not in recipe.tables["encoder"]


@pytest.mark.parametrize(
    "recipe", [each for each in RECIPES if keeps_its_steps(each)], ids=lambda recipe: recipe.name
)
def test_the_rate_times_the_epochs_is_as_in_the_recipe(recipe):
    before, after = recipe.tables["training"], stand_in_of(recipe).settings["training"]
    # Epochs are whole: half a one of the fewest, 6, is at most a twelfth.
    assert after["learning_rate"] * after["epochs"] == pytest.approx(
        before["learning_rate"] * before["epochs"], rel=1 / 12
    )


def test_with_fewer_steps_an_epoch_the_rate_grows_by_the_root_and_decays_by_as_many():
    recipe = read_recipe("zhang-2021-scr-m-gamlp-papers100m")
    before, after = recipe.tables, stand_in_of(recipe).settings
    factor = before["training"]["epochs"] / after["training"]["epochs"]
    fewer = 242 / 76  # steps: 1,207,179 nodes by 5,000, and 4,829 by 64
    assert after["training"]["learning_rate"] == pytest.approx(
        before["training"]["learning_rate"] * factor * fewer**0.5, rel=1 / 12
    )
    kept = math.log(after["consistency"]["decay"]) / math.log(before["consistency"]["decay"])
    assert kept == pytest.approx(factor * fewer, rel=1 / 12)


def test_averages_over_steps_forget_as_fast_in_epochs_of_the_recipe():
    recipe = read_recipe("zhang-2021-scr-m-gamlp-products-as-code")
    before = recipe.tables
    after = stand_in_of(recipe).settings
    shrunk = after["training"]["learning_rate"] / before["training"]["learning_rate"]
    assert shrunk > 1
    assert after["consistency"]["decay"] == pytest.approx(0.999**shrunk)
    assert after["training"]["average_decay"] == pytest.approx(0.9**shrunk)
    assert after["consistency"]["warmup"] == round(151 / shrunk)


@pytest.mark.parametrize(
    ("name", "batch"),
    [
        ("zhang-2022-base-gamlp-products", 50_000),
        ("zhang-2021-scr-gamlp-products-as-code", 100_000),
        ("hu-2020-base-gcn-products", 196_615),
        ("frasca-2020-base-sign-mag", 50_000),
        ("zhang-2022-base-nars-gamlp-mag", 10_000),
    ],
)
def test_an_epoch_has_as_many_steps_as_on_the_data_set(name, batch):
    recipe = read_recipe(name)
    nobody = torch.zeros(0, dtype=torch.int64)
    ours = EpochNodes(
        0,
        torch.arange(stand_in_of(recipe).graph.train),
        nobody,
        nobody,
        batch_size=settings_of(name)["training"]["batch_size"],
        unlabeled_per_batch=1,
        generator=torch.Generator(),
    )
    assert len(list(ours.steps())) == math.ceil(TRAIN[recipe.dataset] / batch)


def test_batches_keep_64_labeled_rows_and_the_note_says_what_that_costs():
    stand_in = stand_in_of(read_recipe("hu-2020-base-mlp-papers100m"))
    assert stand_in.settings["training"]["batch_size"] == 64
    # 4,829 training nodes of 1,207,179; batches of 256 there
    assert "An epoch has 76 steps over training nodes (4,716 on" in stand_in.notes[1]


def test_subgraphs_have_64_labeled_nodes_or_more():
    graph = stand_in_of(read_recipe("zhang-2021-base-cluster-gcn-products")).graph
    labeled = graph.train / graph.nodes
    clusters = settings_of("zhang-2021-base-cluster-gcn-products")["encoder"]
    nodes = graph.nodes / clusters["clusters"] * clusters["clusters_per_batch"]
    assert 64 <= nodes * labeled < 70
    walks = settings_of("zhang-2021-base-graph-saint-products")["encoder"]
    assert walks["steps"] == 30  # an epoch's, as on the data set
    assert 64 <= walks["roots"] * 4 * labeled < 70  # walks of 3 steps


def test_labels_are_as_scarce_as_in_ogbn_products(products):
    nodes = products.num_nodes
    # 196,615, 39,323 and 2,213,091 of 2,449,029 nodes
    assert len(products.train) / nodes == pytest.approx(0.0803, abs=2e-4)
    assert len(products.valid) / nodes == pytest.approx(0.0161, abs=2e-4)
    assert len(products.test) / nodes == pytest.approx(0.9037, abs=2e-4)


def test_labels_are_as_scarce_as_in_ogbn_papers100m():
    graph = stand_in_of(read_recipe(ONE_OF["ogbn-papers100M"])).graph
    labeled = graph.train + graph.valid + graph.test
    assert labeled / graph.nodes == pytest.approx(0.0139, abs=1e-4)  # 1,546,782 of 111,059,956
    assert graph.train / labeled == pytest.approx(0.78, abs=0.005)
    assert (graph.directed, graph.classes, graph.features) == (True, 172, 128)


def test_classes_have_a_long_tail(products):
    sizes = np.sort(np.bincount(products.labels))[::-1]
    assert len(sizes) == 47
    assert 0.15 < sizes[0] / sizes.sum() < 0.3
    assert sizes[0] > 20 * sizes[-1] > 0


def test_giant_features_have_their_width_on_the_same_edges_and_splits(products):
    giant = community_graph(stand_in_of(read_recipe("zhang-2021-scr-sagn-giant-products")).graph)
    assert giant.num_features == 768
    assert giant.fingerprint("edges") == products.fingerprint("edges")
    assert giant.fingerprint("splits") == products.fingerprint("splits")


@pytest.mark.parametrize(
    ("dataset", "relation", "low", "high"),
    [
        ("ogbn-products", "edge", 0.74, 0.86),  # 0.81 there
        ("ogbn-mag", "cites", 0.25, 0.37),  # 0.30 there
        ("ogbn-papers100M", "edge", 0.5, 0.62),  # 0.57 there
    ],
)
def test_neighbors_agree_about_as_often_as_in_the_data_set(dataset, relation, low, high):
    graph = community_graph(small(dataset, 10 if dataset == "ogbn-papers100M" else 1))
    edges = (graph.only(relation) if graph.is_typed else graph).adjacency().tocoo()
    labels = np.full(graph.num_nodes, -1)
    labels[: graph.num_targets] = graph.labels
    assert low < np.mean(labels[edges.row] == labels[edges.col]) < high


def test_ogbn_mag_keeps_its_types_and_relations():
    graph = community_graph(stand_in_of(read_recipe(ONE_OF["ogbn-mag"])).graph)
    assert set(graph.node_types) == {"paper", "author", "institution", "field_of_study"}
    assert {str(each) for each in graph.relations} == {
        "author:affiliated_with:institution", "author:writes:paper", "paper:cites:paper",
        "paper:has_topic:field_of_study",
    }  # fmt: skip
    assert graph.num_features == 128
    assert not graph.other_features
    assert graph.num_classes == 349


def test_features_alone_tell_clearly_less_than_those_of_neighbors(products):
    means = products.adjacency() @ products.features / np.diff(products.indptr)[:, None].clip(1)

    def best(columns):
        models = [LogisticRegression(C=c, max_iter=200) for c in (0.01, 0.1, 1.0)]
        train, test = products.train, products.test
        return max(
            model.fit(columns[train], products.labels[train]).score(
                columns[test], products.labels[test]
            )
            for model in models
        )

    assert best(products.features) + 0.1 < best(means) < 0.9


@pytest.mark.filterwarnings("ignore:.*class")
def test_hops_of_the_stand_in_of_papers_are_kept_for_labeled_nodes(tmp_path, monkeypatch):
    few = dataclasses.replace(stand_ins.FACTS["ogbn-papers100M"], divisor=20_000)
    monkeypatch.setitem(stand_ins.FACTS, "ogbn-papers100M", few)
    recipe = read_recipe("zhang-2021-scr-gamlp-papers100m")
    graph, settings, _ = stand_in_for(recipe, tmp_path)
    prepared = prepare(graph, Recipe.from_tables(merge(recipe.tables, settings)))
    splits = np.concatenate([graph.train, graph.valid, graph.test])
    np.testing.assert_array_equal(prepared.kept, np.sort(splits))
    assert stand_in_for(recipe, tmp_path)[0].fingerprint() == graph.fingerprint()


def test_a_recipe_runs_on_its_stand_in_and_says_that_it_is_one(tmp_path):
    words = ["reproduce", "hu-2020-base-mlp-products", "--stand-in", "--runs", "1",
             "--set", "training.epochs=2", "--out", str(tmp_path)]  # fmt: skip
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 0, shown.output
    assert "61.06" in shown.output  # published
    result = json.loads((tmp_path / "reproduce.json").read_text())
    assert result["graph"]["name"] == "ogbn-products stand-in"
    assert "says nothing about the published one" in result["notes"][0]
    assert result["settings"]["training"]["epochs"] == 2
    assert result["settings"]["encoder"]["hidden"] == 64
    [run] = result["runs"]
    assert run["epochs"] == 2


@pytest.mark.parametrize("option", ["--graph", "--data", "--features"])
def test_data_beside_a_stand_in_are_refused(tmp_path, option):
    words = ["reproduce", "hu-2020-base-mlp-products", "--stand-in", option, "digits"]
    shown = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "out")])
    assert shown.exit_code != 0
    assert not (tmp_path / "out").exists()
    said = " ".join(shown.output.split())
    assert f"`{option}` is 'digits'; expected nothing beside `--stand-in`" in said


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
