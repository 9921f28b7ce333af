"""When the consistency term acts in a recipe, and that it buys no extra optimizer steps."""

import math

import pytest
import torch

from scr.recipes import read_recipe, recipe_names
from scr.training._batches import EpochNodes

# Sizes of the splits as https://ogb.stanford.edu/docs/nodeprop publishes them.
TRAIN_NODES = {"ogbn-products": 196_615, "ogbn-mag": 629_571, "ogbn-papers100M": 1_207_179}
CONFIDENT, RELIABLE = 300_000, 1_000_000
"""Sizes of pools, as some run may find them; confident nodes are a part of the reliable ones."""

RECIPES = [read_recipe(name) for name in recipe_names()]
REGULARIZED = [recipe for recipe in RECIPES if recipe.regularizer != "none" and not recipe.as_code]
SINGLE = [recipe for recipe in REGULARIZED if "stages" not in recipe.tables]
STAGED = [recipe for recipe in REGULARIZED if "stages" in recipe.tables]
NAMED = {"ids": lambda recipe: recipe.name}


def baseline_of(recipe):
    """The row of the same table and architecture without SCR."""
    method, architecture = recipe.published.row.split(" | ")[:2]
    without = {"SCR": "-", "SCR-m": "-", "RLU+SCR": "RLU"}[method]
    [row] = [
        other
        for other in RECIPES
        if other.published.table == recipe.published.table
        and other.dataset == recipe.dataset
        and other.published.row.split(" | ")[:2] == [without, architecture]
        and not other.smoothed
        and other.features is None
    ]
    return row


def steps_of_an_epoch(recipe, confident, reliable=0):
    """Counted on the batches that training draws; of subgraphs, on the encoder's settings."""
    encoder, training = recipe.tables["encoder"], recipe.tables["training"]
    if encoder["name"] == "cluster-gcn":
        return math.ceil(encoder["clusters"] / encoder["clusters_per_batch"])
    if encoder["name"] == "graph-saint":
        return encoder["steps"]
    nodes = EpochNodes(
        0,
        torch.arange(TRAIN_NODES[recipe.dataset]),
        torch.arange(confident),
        torch.arange(reliable),
        batch_size=training["batch_size"],
        unlabeled_per_batch=training.get("unlabeled_per_batch", 0),
        generator=torch.Generator().manual_seed(0),
    )
    return sum(1 for _ in nodes.steps())


# Worked out by hand: steps of an epoch times epochs.
STEPS = {
    ("2", "GAMLP"): 4 * 400,  # 196,615 / 50,000 = 3.9
    ("2", "SAGN"): 4 * 1000,
    ("3", "NARS_GAMLP"): 63 * 250,  # 629,571 / 10,000 = 62.96
    ("4", "GAMLP"): 242 * 100,  # 1,207,179 / 5,000 = 241.4
    ("5", "MLP"): 1 * 300,
    ("5", "GraphSAGE"): 193 * 20,  # 196,615 / 1,024 = 192.01
    ("5", "ClusterGCN"): 469 * 50,  # 15,000 / 32 = 468.75
    ("5", "GraphSAINT"): 30 * 20,
    ("5", "SIGN"): 4 * 1000,
}


@pytest.mark.parametrize("recipe", SINGLE, **NAMED)
def test_scr_takes_as_many_steps_as_its_row_without(recipe):
    without = baseline_of(recipe)
    expected = STEPS[recipe.published.table, recipe.published.row.split(" | ")[1]]
    # In the warm-up no unlabeled node takes part.
    warmup, epochs = recipe.tables["consistency"]["warmup"], recipe.tables["training"]["epochs"]
    active = steps_of_an_epoch(recipe, CONFIDENT)
    assert warmup * steps_of_an_epoch(recipe, 0) + (epochs - warmup) * active == expected
    assert steps_of_an_epoch(without, 0) * without.tables["training"]["epochs"] == expected


@pytest.mark.parametrize("recipe", STAGED, **NAMED)
def test_rlu_with_scr_takes_as_many_steps_as_rlu(recipe):
    # First stage: labels alone. Later ones: 1,000,000 reliable nodes are cut with the labeled ones.
    expected = {
        "ogbn-products": 4 * 400 + 24 * 3 * 300,  # 1,196,615 / 50,000 = 23.9
        "ogbn-mag": 63 * 250 + 163 * 3 * 200,  # 1,629,571 / 10,000 = 162.96
        "ogbn-papers100M": 242 * 100 + 442 * 3 * 150,  # 2,207,179 / 5,000 = 441.4
    }[recipe.dataset]
    for row, confident in ((recipe, CONFIDENT), (baseline_of(recipe), 0)):
        first, *later = row.tables["stages"]["epochs"]
        steps = first * steps_of_an_epoch(row, 0)
        steps += sum(later) * steps_of_an_epoch(row, confident, RELIABLE)
        assert steps == expected


@pytest.mark.parametrize("recipe", STAGED, **NAMED)
def test_nodes_that_are_confident_in_a_stage_are_reliable_in_it(recipe):
    # Or else they, not the reliable ones, would set the number of steps.
    stages = recipe.tables["stages"]
    assert stages["temperature"] <= 1  # makes no prediction less confident
    assert recipe.tables["consistency"]["threshold"] >= stages["threshold"]
    assert recipe.tables["consistency"]["warmup"] == 0  # the stage before chose them, fully trained


@pytest.mark.parametrize("recipe", REGULARIZED, **NAMED)
def test_training_is_that_of_the_row_without(recipe):
    def settings(row):
        training = row.tables["training"]
        return {key: training[key] for key in training if key != "unlabeled_per_batch"}

    without = baseline_of(recipe)
    assert settings(recipe) == settings(without)
    assert recipe.tables.get("stages") == without.tables.get("stages")


@pytest.mark.parametrize("recipe", SINGLE, **NAMED)
def test_the_term_acts_on_sets_that_trained_weights_choose(recipe):
    settings, epochs = recipe.tables["consistency"], recipe.tables["training"]["epochs"]
    warmup, refresh = settings["warmup"], settings["refresh"]
    # The first set is chosen at the end of the warm-up, after at least 60 steps.
    assert warmup * steps_of_an_epoch(recipe, 0) >= 60
    # It acts in most epochs, and its set is chosen anew often.
    assert epochs - warmup > epochs / 2
    assert (epochs - warmup) / refresh >= 3


@pytest.mark.parametrize("recipe", SINGLE, **NAMED)
def test_as_many_unlabeled_rows_as_labeled_ones(recipe):
    training = recipe.tables["training"]
    assert training["unlabeled_per_batch"] == training["batch_size"]
