"""A run that was stopped, at any epoch, ends in the same weights as one that was not."""

import pytest
import torch

from scr.sources._digits import digits
from scr.training import fit, graph_facts, resolve

SETTINGS = {
    "training": {"epochs": 9, "evaluate_every": 2, "patience": 0, "batch_size": 8,
                 "average_decay": 0.5, "schedule": "cosine", "clip": 1.0},
    "consistency": {"threshold": 0.3, "refresh": 3, "warmup": 2},
}  # fmt: skip


def run(tmp_path, regularizer, *, stops=(), layer=None):
    graph = digits(seed=0)
    layers = [SETTINGS, layer or {}]
    recipe = resolve(graph_facts(graph), encoder="ssgc", regularizer=regularizer, layers=layers)
    checkpoint = tmp_path / "checkpoint"
    for stop in stops:
        seen = []
        stopped = fit(
            graph, recipe, seed=2, checkpoint=checkpoint, on_epoch=seen.append,
            should_stop=lambda stop=stop, seen=seen: bool(seen) and seen[-1].epoch == stop,
        )  # fmt: skip
        assert stopped.outcome.stopped == "interrupted"
        torch.rand(5)  # what happens between two sessions must not matter
    return fit(graph, recipe, seed=2, checkpoint=checkpoint)


@pytest.mark.parametrize("regularizer", ["none", "scr", "scr-m"])
@pytest.mark.parametrize("stops", [(1,), (2, 3, 8)])
def test_a_stopped_run_ends_in_the_same_weights(tmp_path, regularizer, stops):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    whole = run(tmp_path / "one", regularizer)
    pieces = run(tmp_path / "two", regularizer, stops=stops)
    for name, value in whole.encoder.state_dict().items():
        assert torch.equal(value, pieces.encoder.state_dict()[name]), name
    assert whole.outcome.best_epoch == pieces.outcome.best_epoch
    timeless = [
        [{key: value for key, value in record.items() if key != "seconds"} for record in records]
        for records in (whole.outcome.history, pieces.outcome.history)
    ]
    assert timeless[0] == timeless[1]


def test_a_run_that_dies_goes_on_from_its_last_checkpoint(tmp_path, monkeypatch):
    class Killed(Exception):
        pass

    def die(record):
        if record.epoch == 6:
            raise Killed

    graph, checkpoint, seen = digits(seed=0), tmp_path / "checkpoint", []
    recipe = resolve(graph_facts(graph), encoder="ssgc", regularizer="scr-m", layers=[SETTINGS])
    monkeypatch.setattr("scr.training._loop.CHECKPOINT_SECONDS", 0)
    with pytest.raises(Killed):
        fit(graph, recipe, seed=2, checkpoint=checkpoint, on_epoch=die)
    pieces = fit(graph, recipe, seed=2, checkpoint=checkpoint, on_epoch=seen.append)
    assert seen[0].epoch == 6  # the checkpoint is that of the epoch before
    whole = fit(graph, recipe, seed=2)
    for name, value in whole.encoder.state_dict().items():
        assert torch.equal(value, pieces.encoder.state_dict()[name]), name


@pytest.mark.parametrize("stop", [3, 4])
def test_a_stopped_run_scores_the_samples_of_one_that_was_not(tmp_path, stop):
    layer = {"consistency": {"refresh_sample": 40, "threshold": 0.15, "trust": "full"}}
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    whole = run(tmp_path / "one", "scr", layer=layer)
    pieces = run(tmp_path / "two", "scr", stops=(stop,), layer=layer)
    for name, value in whole.encoder.state_dict().items():
        assert torch.equal(value, pieces.encoder.state_dict()[name]), name
    assert {record["confident_nodes"] for record in whole.outcome.history} - {0}
    assert all(record["confident_nodes"] <= 40 for record in whole.outcome.history)
