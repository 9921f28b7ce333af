"""A published recipe run again: what is compared, what is said, and that it goes on."""

import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest

from scr.errors import ConfigError, SourceError
from scr.experiments import Runner
from scr.experiments._reproduce import REPRODUCE_JSON, load_recipe_graph, measure, notes, reproduce
from scr.features import replace_features
from scr.graph import Graph
from scr.recipes import read_recipe
from scr.sources import OGB_DATASETS, load_graph
from scr.synth._ogb_layout import write_ogb

SMALL = {
    "training": {"epochs": 3, "evaluate_every": 1},
    "encoder": {"hidden": 8},
    "propagation": {"hops": 2, "label_hops": 2},
}


def test_the_mean_over_seeds_stands_beside_the_published_number(random_graph, tmp_path):
    recipe = read_recipe("zhang-2021-scr-m-gamlp-products")
    graph = random_graph(name="ogbn-products")
    result = reproduce(recipe, Runner(graph, out=tmp_path), runs=2, settings=SMALL)
    tests = [100 * run["test_accuracy"] for run in result["runs"]]
    assert result["measured"]["test_accuracy"] == pytest.approx(np.mean(tests))
    assert result["measured"]["test_spread"] == pytest.approx(np.std(tests, ddof=1))
    assert result["difference"]["test_accuracy"] == pytest.approx(np.mean(tests) - 84.62)
    assert [run["seed"] for run in result["runs"]] == [0, 1]
    assert {run["preset"] for run in result["runs"]} == {"none"}
    assert json.loads((tmp_path / REPRODUCE_JSON).read_text())["measured"] == result["measured"]


def test_a_repeated_command_runs_only_what_is_missing(random_graph, tmp_path):
    recipe, graph = read_recipe("frasca-2020-base-sign-products"), random_graph()
    fresh = []
    for runs in (1, 2, 2):
        runner = Runner(graph, out=tmp_path, on_run=fresh.append)
        reproduce(recipe, runner, runs=runs, settings=SMALL)
    assert [run["seed"] for run in fresh] == [0, 1]


def test_stages_and_smoothing_of_a_recipe_are_run(random_graph):
    recipe = read_recipe("zhang-2021-rlu-scr-gamlp-cs-products")
    stages = {"count": 2, "epochs": [2, 2], "threshold": 0.0}
    result = reproduce(recipe, Runner(random_graph()), runs=1, settings={**SMALL, "stages": stages})
    [run] = result["runs"]
    assert run["epochs"] == 4
    smooth = run["smooth"]
    assert smooth["settings"]["correct_alpha"] == 0.4780826957236622
    assert result["measured"]["test_accuracy"] == pytest.approx(100 * smooth["test_accuracy"])


def test_what_is_measured_follows_the_settings(random_graph):
    off = {**SMALL, "postprocess": {"method": "none"}}
    result = reproduce(
        read_recipe("huang-2020-base-mlp-cs-products"), Runner(random_graph()), runs=1, settings=off
    )
    [run] = result["runs"]
    assert "smooth" not in run
    assert result["measured"]["test_accuracy"] == pytest.approx(100 * run["test_accuracy"])


def test_a_smoothed_row_is_measured_after_smoothing():
    plain = {"valid_accuracy": 0.5, "test_accuracy": 0.5}
    record = {**plain, "smooth": {"valid_accuracy": 0.75, "test_accuracy": 0.25}}
    assert measure([record]) == {
        "valid_accuracy": 75.0, "valid_spread": None, "test_accuracy": 25.0, "test_spread": None,
    }  # fmt: skip
    assert measure([plain])["valid_accuracy"] == 50.0


def test_what_differs_from_the_published_run_is_said(random_graph):
    recipe = read_recipe("hu-2020-base-mlp-products")
    result = reproduce(recipe, Runner(random_graph()), runs=1, settings=SMALL)
    said = " ".join(result["notes"])
    assert "The published numbers are for ogbn-products; this graph is `random`" in said
    assert "training.epochs = 3" in said
    assert "Runs: 1; published: 10" in said


def test_nothing_is_said_where_nothing_differs():
    recipe = read_recipe("hu-2020-base-mlp-products")
    # 2,449,029 nodes: the paper's Table 1.
    graph = SimpleNamespace(name="ogbn-products", num_nodes=2_449_029, num_targets=2_449_029)
    assert notes(recipe, graph, runs=10) == []


def test_a_graph_of_another_size_under_the_same_name_is_noticed(random_graph):
    recipe = read_recipe("hu-2020-base-mlp-products")
    [said] = notes(recipe, random_graph(name="ogbn-products"), runs=10)
    assert "2,449,029 nodes" in said


@pytest.mark.parametrize("name", ["ogbn-products", "mine"])
def test_features_of_a_recipe_that_were_not_given_are_said_to_be_missing(
    random_graph, tmp_path, name
):
    recipe, graph = read_recipe("zhang-2021-scr-sagn-giant-products"), random_graph(name=name)
    said = "Published with `X.all.xrt-emb.npy`; run on the graph's own features"
    assert said in notes(recipe, graph, runs=10)
    np.save(tmp_path / "giant.npy", np.ones((graph.num_nodes, 7), np.float32))
    given = replace_features(graph, tmp_path / "giant.npy", "it")
    assert said not in notes(recipe, given, runs=10)
    stored = load_graph(given.save(tmp_path / "store"))
    assert said not in notes(recipe, stored, runs=10)


def test_directions_that_a_recipe_uses_and_a_graph_does_not_have_are_said_to_be_missing(
    random_graph,
):
    recipe = read_recipe("zhang-2021-scr-gamlp-papers100m")
    said = "The recipe uses the direction of edges; edges have no direction here"
    both = {"propagation": {"label_direction": "both"}}
    assert said in notes(recipe, random_graph(), runs=3)
    assert said not in notes(recipe, random_graph(undirected=False), runs=3)
    assert said not in notes(recipe, random_graph(), runs=3, settings=both)


@pytest.mark.parametrize(
    "settings", [{"encoder": {"name": "sgc"}}, {"regularizer": "scr"}], ids=["encoder", "term"]
)
def test_another_encoder_or_regularizer_is_another_recipe(random_graph, tmp_path, settings):
    recipe = read_recipe("hu-2020-base-mlp-products")
    with pytest.raises(ConfigError, match="of which the published number is"):
        runner = Runner(random_graph(), out=tmp_path / "out")
        reproduce(recipe, runner, runs=1, settings=settings)
    assert not (tmp_path / "out").exists()


def test_features_that_a_data_set_does_not_have_are_asked_for():
    recipe = read_recipe("zhang-2021-scr-sagn-giant-products")
    with pytest.raises(SourceError, match=r"X\.all\.xrt-emb\.npy.*expected the path .*`features`"):
        load_recipe_graph(recipe)


def test_a_data_set_is_found_by_its_name_and_takes_the_features_of_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv("SCR_DATA", str(tmp_path))
    nodes, generator = 30, np.random.default_rng(0)
    parts = np.split(np.arange(nodes), 3)
    write_ogb(
        tmp_path / "ogbn_products",
        edges=[generator.integers(0, nodes, (2, 90))],
        labels=np.arange(nodes) % 3,
        splits=dict(zip(("train", "valid", "test"), parts, strict=True)),
        features=[generator.standard_normal((nodes, 4))],
    )
    giant = generator.standard_normal((nodes, 7)).astype(np.float32)
    np.save(tmp_path / "giant.npy", giant)
    recipe = read_recipe("zhang-2021-scr-sagn-giant-products")
    graph = load_recipe_graph(recipe, features=tmp_path / "giant.npy")
    np.testing.assert_array_equal(graph.features, giant)
    assert graph.name == recipe.dataset


def test_the_size_of_a_typed_graph_is_that_of_its_target_type(monkeypatch):
    recipe = read_recipe("hu-2020-base-mlp-mag")
    graph = Graph.from_relations(
        {("author", "writes", "paper"): [[0, 1], [0, 1]]}, labels=[0, 1, 0], target="paper",
        name="ogbn-mag",
    )  # fmt: skip
    (said,) = notes(recipe, graph, runs=recipe.published.runs)
    assert "736,389 nodes; this `ogbn-mag` has 3," in said
    sized = dataclasses.replace(OGB_DATASETS["ogbn-mag"], nodes=3)
    monkeypatch.setitem(OGB_DATASETS, "ogbn-mag", sized)
    assert notes(recipe, graph, runs=recipe.published.runs) == []


def test_directions_are_kept_where_a_recipe_uses_them(monkeypatch):
    asked = {}

    def remember(source, *, options):
        asked[source] = options.symmetrize

    monkeypatch.setattr("scr.experiments._reproduce.load_graph", remember)
    load_recipe_graph(read_recipe("zhang-2021-scr-gamlp-papers100m"))
    load_recipe_graph(read_recipe("zhang-2021-scr-gamlp-products"))
    assert asked == {"ogbn-papers100M": False, "ogbn-products": True}


def test_directions_of_another_graph_are_kept_where_a_recipe_uses_them(random_graph, tmp_path):
    papers, products = (
        read_recipe(f"zhang-2021-scr-gamlp-{data}") for data in ("papers100m", "products")
    )
    np.savez(tmp_path / "graph.npz", edge_index=[[0, 1, 2], [1, 2, 3]], x=np.eye(4), y=[0, 1, 0, 1])
    source = str(tmp_path / "graph.npz")
    assert load_recipe_graph(papers, graph=source).num_edges == 3
    assert load_recipe_graph(products, graph=source).num_edges == 6
    both = {"propagation": {"label_direction": "both"}}
    assert load_recipe_graph(papers, graph=source, settings=both).num_edges == 6
    store = random_graph().save(tmp_path / "store")
    assert not load_recipe_graph(papers, graph=str(store)).directed
