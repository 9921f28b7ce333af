"""Encoders that are trained on drawn subgraphs: who takes part, how much it counts, resuming."""

import numpy as np
import pytest
import torch
from tests.conftest import make_random_graph

import scr
from scr.errors import ConfigError
from scr.sources._digits import digits
from scr.training import fit, graph_facts, prepare, resolve
from scr.training._batches import EpochNodes
from scr.training._objective import supervised_loss

SETTINGS = {
    "cluster-gcn": {"clusters": 6, "clusters_per_batch": 2, "partition": "label-propagation"},
    "graph-saint": {"roots": 8, "walk_length": 2, "coverage": 20},
}
names = pytest.mark.parametrize("name", SETTINGS)


def rows_of(graph, name, **settings):
    encoder = {"name": name, **SETTINGS[name], "hidden": 8, **settings}
    layer = {"encoder": encoder}
    recipe = resolve(graph_facts(graph), regularizer="none", layers=[layer], preset="none")
    return prepare(graph, recipe).rows(graph.num_classes, None, torch.device("cpu"))


def epoch_nodes(graph, number, confident):
    train, nobody = torch.from_numpy(graph.train), torch.zeros(0, dtype=torch.int64)
    return EpochNodes(number, train, confident, nobody, 10, 10, torch.Generator())


def epoch(rows, graph, number, confident):
    return list(rows.draws(epoch_nodes(graph, number, confident)))


def drawn_nodes(drawn):
    return [subgraph.nodes.tolist() for _, subgraph in drawn]


@names
def test_a_step_has_the_training_and_confident_nodes_that_are_in_its_subgraph(name):
    graph = make_random_graph(nodes=120, edges=400)
    rows, confident = rows_of(graph, name), torch.tensor([100, 30, 77, 60])
    drawn = epoch(rows, graph, 3, confident)
    assert len(drawn) > 1
    for step, subgraph in drawn:
        inside = set(subgraph.nodes.tolist())
        expected = [place for place, node in enumerate(graph.train) if node in inside]
        assert step.labeled.tolist() == expected
        assert step.unlabeled.tolist() == [n for n in confident.tolist() if n in inside]
    again = epoch(rows_of(graph, name), graph, 3, confident)
    assert drawn_nodes(again) == drawn_nodes(drawn)
    assert drawn_nodes(epoch(rows, graph, 4, confident)) != drawn_nodes(drawn)


def test_parts_without_a_training_node_take_part_with_their_confident_ones():
    graph = make_random_graph(nodes=120, edges=400, train=np.array([0, 1, 2]))
    rows = rows_of(graph, "cluster-gcn", clusters_per_batch=1)
    others = torch.arange(3, 120)
    drawn = epoch(rows, graph, 0, others)
    assert sorted(torch.cat([step.unlabeled for step, _ in drawn]).tolist()) == others.tolist()
    without = [len(step.labeled) for step, _ in drawn].count(0)
    assert without > 0
    assert len(epoch(rows, graph, 0, others[:0])) == len(drawn) - without
    nothing = supervised_loss(torch.randn(2, 0, 3, requires_grad=True), torch.zeros(0).long())
    assert nothing.item() == 0


def test_an_epoch_of_clusters_has_every_training_node_once():
    graph = make_random_graph(nodes=120, edges=400)
    drawn = epoch(rows_of(graph, "cluster-gcn"), graph, 0, torch.zeros(0, dtype=torch.int64))
    seen = torch.cat([step.labeled for step, _ in drawn])
    assert sorted(seen.tolist()) == list(range(len(graph.train)))


def test_seeds_of_a_batch_are_the_nodes_of_its_step():
    graph = make_random_graph(nodes=120, edges=400)
    rows = rows_of(graph, "cluster-gcn")
    nodes = epoch_nodes(graph, 0, torch.arange(60, 120))
    batches = zip(rows.draws(nodes), rows.epoch_steps(nodes), strict=True)
    for (step, subgraph), (same, batch) in batches:
        assert all(map(torch.equal, step, same))
        assert subgraph.nodes[batch.seeds.numpy()].tolist() == nodes.index(step).tolist()
        assert torch.equal(batch.features, torch.from_numpy(rows.prepared.inputs[subgraph.nodes]))
        # Means are taken over the edges inside.
        sums = batch.layers[0].times(torch.ones(len(batch.features), 1))[:, 0]
        assert set(sums.round(decimals=5).tolist()) <= {0.0, 1.0}


def test_saint_losses_add_up_to_the_loss_of_all_training_nodes_on_average():
    graph = make_random_graph(nodes=60, edges=200)
    rows = rows_of(graph, "graph-saint", coverage=400, steps=1500)
    train = torch.from_numpy(graph.train)
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(60, 3, generator=generator)
    targets = torch.from_numpy(graph.labels)
    total = 0.0
    for step, batch in rows.epoch_steps(epoch_nodes(graph, 0, train[:0])):
        nodes = train[step.labeled]
        loss = supervised_loss(logits[nodes][None], targets[nodes], None, batch.loss_weight)
        total += loss.item()
    expected = supervised_loss(logits[train][None], targets[train]).item()
    assert total / 1500 == pytest.approx(expected, rel=0.1)


@names
@pytest.mark.parametrize("regularizer", ["none", "scr", "scr-m"])
def test_training_is_far_above_chance(name, regularizer):
    classifier = scr.NodeClassifier(
        {"name": name, **SETTINGS[name], "hidden": 16, "input_dropout": 0.0},
        regularizer,
        consistency={"warmup": 3, "threshold": 0.4, "trust": "full"},
        epochs=12,
    ).fit(make_random_graph(nodes=150, edges=300))
    assert classifier.score("test") > 0.6
    if regularizer != "none":
        assert max(record["confident_nodes"] for record in classifier.history_) > 0


@names
def test_a_stopped_run_ends_in_the_same_weights(name, tmp_path):
    graph = digits(seed=0)
    layers = [
        {
            "training": {"epochs": 4, "evaluate_every": 2},
            "consistency": {"threshold": 0.15, "warmup": 1},
            "encoder": {**SETTINGS[name], "hidden": 8},
            "stages": {"method": "rlu", "count": 2, "threshold": 0.15},
        }
    ]
    recipe = resolve(graph_facts(graph), encoder=name, regularizer="scr", layers=layers)
    whole = fit(graph, recipe, seed=2)
    seen = []
    fit(graph, recipe, seed=2, checkpoint=tmp_path / "checkpoint", on_epoch=seen.append,
        should_stop=lambda: len(seen) == 6)  # fmt: skip
    pieces = fit(graph, recipe, seed=2, checkpoint=tmp_path / "checkpoint")
    for key, value in whole.encoder.state_dict().items():
        assert torch.equal(value, pieces.encoder.state_dict()[key]), key


def test_a_graph_of_few_nodes_is_cut_into_no_more_parts_than_nodes():
    rows = rows_of(make_random_graph(nodes=20), "cluster-gcn", clusters=500, partition="random")
    assert np.unique(rows.prepared.clusters).tolist() == list(range(20))


@names
def test_neighbors_are_refused(name):
    with pytest.raises(ConfigError, match=r"`encoder\.neighbors` is \[5, 5\]; expected `none`"):
        rows_of(make_random_graph(), name, neighbors=[5, 5])
