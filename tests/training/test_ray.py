"""Training on a Ray cluster of two nodes: as one process, and through losses of workers."""

import dataclasses
import os
import signal
import warnings

import psutil
import pytest
import torch

from scr.compute import current_group
from scr.engines import Needs, open_engine
from scr.errors import ConfigError
from scr.sources._digits import digits
from scr.training import fit, graph_facts, resolve, workers_of

ray = pytest.importorskip("ray", reason="Ray is not installed")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray's own, on its start
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        # Its workers would have the lowest priority: on a busy machine, they would hardly start.
        system = {"worker_niceness": 0, "health_check_period_ms": 1000}
        head = {"num_cpus": 1, "object_store_memory": 10**8, "_system_config": system}
        nodes = Cluster(initialize_head=True, head_node_args=head)
        try:
            nodes.add_node(num_cpus=1, object_store_memory=10**8)
            ray.init(address=nodes.address, log_to_driver=False, logging_level="ERROR")
            yield nodes
        finally:
            ray.shutdown()
            nodes.shutdown()


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
    raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
    return [each for each in raylet.children() if "RayTrainWorker" in " ".join(each.cmdline())]


@pytest.mark.parametrize("lost", ["process", pytest.param("node", marks=pytest.mark.stress)])
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning")
def test_workers_train_as_one_process_and_survive_a_loss(cluster, tmp_path, lost):
    graph, epochs = digits(seed=0), 150
    recipe, numbers, node = recipe_of(graph, epochs), [], max(cluster.worker_nodes, key=id)

    def on_epoch(record):
        numbers.append(record.epoch)
        if len(numbers) == 1:
            if lost == "node":
                cluster.remove_node(node, allow_graceful=False)
            else:
                os.kill(train_workers(node)[0].pid, signal.SIGKILL)

    with workers_of("ray") as group:
        assert group.workers == 2
        workers = dataclasses.replace(group, checkpoint_seconds=0.0)
        fitted = fit(
            graph, recipe, seed=1, workers=workers, on_epoch=on_epoch,
            checkpoint=tmp_path / "checkpoint.safetensors",
        ).outcome.history  # fmt: skip
    assert [record["epoch"] for record in fitted] == list(range(1, epochs + 1))
    assert numbers[-1] == epochs
    alone = fit(graph, recipe, seed=1).outcome.history
    for one, other in zip(fitted[:5], alone[:5], strict=True):
        for name in ("supervised_loss", "consistency_loss", "valid_loss"):
            assert one[name] == pytest.approx(other[name], abs=1e-5)
    assert fitted[-1]["valid_loss"] == pytest.approx(alone[-1]["valid_loss"], abs=0.02)
    if lost == "node":
        cluster.add_node(num_cpus=1, object_store_memory=10**8)


def refuse(argument, link):
    """Fails on one of the workers, while the others wait for it."""
    group = current_group()
    if group.rank == group.size - 1:
        raise ConfigError("argument", argument, "another one")
    group.same(None)
    group.stack(torch.zeros(1))


@pytest.mark.stress
def test_an_error_of_a_worker_arrives_as_it_is(cluster):
    with open_engine("ray") as engine, pytest.raises(ConfigError, match="is 7; expected another"):
        engine.together(refuse, 7, workers=2, needs=Needs())
