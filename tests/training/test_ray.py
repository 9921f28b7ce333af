"""Training on a Ray cluster of two nodes: as one process, and through losses of workers."""

import dataclasses
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import torch
from tests.conftest import RAY_MACHINE

from scr.compute import current_group
from scr.engines import Needs, open_engine
from scr.errors import ConfigError
from scr.sources._digits import digits
from scr.training import fit, graph_facts, resolve, workers_of

ray = pytest.importorskip("ray", reason="Ray is not installed")


def recipe_of(graph, epochs):
    sections = {
        "encoder": {"hidden": 64, "dropout": 0.0, "input_dropout": 0.0, "norm": "none"},
        "consistency": {"warmup": 1, "threshold": 0.15, "trust": "full"},
        "training": {
            "learning_rate": 1e-3, "evaluate_every": 1, "select": "last", "epochs": epochs,
        },
    }  # fmt: skip
    return resolve(graph_facts(graph), encoder="mlp", regularizer="scr-m", layers=[sections])


def train_workers(node):
    """Processes of a node that train."""
    raylet, found = psutil.Process(node.all_processes["raylet"][0].process.pid), []
    for each in raylet.children():
        with suppress(psutil.Error):  # it has ended meanwhile
            found += [each] if "RayTrainWorker" in " ".join(each.cmdline()) else []
    return found


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Ray, for its own functions
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning")
def test_workers_train_as_one_process_and_survive_losses(connected_cluster, tmp_path, monkeypatch):
    """First of a worker's process, then, once there is another one, of its whole machine."""
    # Ray Train may look for two workers before it knows that a machine is gone.
    monkeypatch.setenv("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", "3")
    monkeypatch.setenv("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "0.3")
    # And they are lost long before the end.
    monkeypatch.setattr("scr.engines._ray_train.POLL_SECONDS", 0.02)
    graph, epochs = digits(seed=0), 120
    recipe, node = recipe_of(graph, epochs), max(connected_cluster.worker_nodes, key=id)
    numbers, lost = [], []

    def on_epoch(record):
        numbers.append(record.epoch)
        found = train_workers(node) if len(lost) < 2 else []
        if found and not lost:
            lost.append(found[0].pid)
            os.kill(lost[0], signal.SIGKILL)
        elif found and found[0].pid != lost[0]:
            lost.append(found[0].pid)
            connected_cluster.remove_node(node, allow_graceful=False)

    with workers_of("ray") as group:
        assert group.workers == 2
        workers = dataclasses.replace(group, checkpoint_seconds=0.0)
        fitted = fit(
            graph, recipe, seed=1, workers=workers, on_epoch=on_epoch,
            checkpoint=tmp_path / "checkpoint.safetensors",
        ).outcome.history  # fmt: skip
    assert len(lost) == 2
    connected_cluster.add_node(**RAY_MACHINE)
    assert [record["epoch"] for record in fitted] == list(range(1, epochs + 1))
    assert numbers[-1] == epochs
    alone = fit(graph, recipe, seed=1).outcome.history
    for one, other in zip(fitted[:5], alone[:5], strict=True):
        for name in ("supervised_loss", "consistency_loss", "valid_loss"):
            assert one[name] == pytest.approx(other[name], abs=1e-5)
    assert fitted[-1]["valid_loss"] == pytest.approx(alone[-1]["valid_loss"], abs=0.02)


def refuse(argument, link):
    """Fails on one of the workers, while the others wait for it."""
    group = current_group()
    if group.rank == group.size - 1:
        raise ConfigError("argument", argument, "another one")
    group.same(None)
    group.stack(torch.zeros(1))


@pytest.mark.stress
def test_an_error_of_a_worker_arrives_as_it_is(connected_cluster):
    with open_engine("ray") as engine, pytest.raises(ConfigError, match="is 7; expected another"):
        engine.together(refuse, 7, workers=2, needs=Needs())


TRAINS = """
from tests.training.test_ray import recipe_of
from scr.sources._digits import digits
from scr.training import fit, workers_of
graph = digits(seed=0)
with workers_of("ray") as group:
    print("epochs", fit(graph, recipe_of(graph, 2), seed=1, workers=group).outcome.epochs)
"""


@pytest.mark.stress
def test_the_path_of_the_interpreter_may_have_blanks(tmp_path):
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "venv").symlink_to(sys.prefix)
    python = tmp_path / "a b" / "venv" / Path(sys.executable).relative_to(sys.prefix)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [python, "-c", TRAINS], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.strip().endswith("epochs 2"), done.stderr
