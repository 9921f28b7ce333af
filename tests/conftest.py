"""Fixtures for all tests: the real graphs where they are at hand, and small random graphs."""

from __future__ import annotations

import gc
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Read when numpy and torch are imported, here and in processes that tests start: with a thread per
# core in every worker, threads mostly wait for each other. Tests of threads set their own number.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from scr.graph import Graph

# Machines that build are slow and shared: a deadline there finds load, not mistakes.
settings.register_profile("ci", deadline=None, max_examples=50)
settings.register_profile("stress", deadline=None, max_examples=1000)
settings.load_profile("ci")


def _do_not_wait_for_the_disk(descriptor: int) -> None:
    """No power is cut in tests; what they wait for the disk would be a tenth of their time."""
    os.fstat(descriptor)  # an error where there is no such file


os.fsync = _do_not_wait_for_the_disk


def pytest_collection() -> None:
    """Imports make much that stays: to look through it for garbage takes seconds each time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """What stays is not looked through again."""
    gc.freeze()
    gc.enable()


RAY_MODULE = "test_ray.py"
"""The name of all modules with tests on `ray_cluster`."""


class ByModule(LoadScopeScheduling):
    """Whole modules for each worker, which makes what they share once; those on Ray for one worker.

    In the order of the collection, which ends with short ones, so that no worker is left over.
    """

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        return RAY_MODULE if module.endswith("/" + RAY_MODULE) else module


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByModule | None:
    """In place of marks of groups, which pytest-xdist loses with some versions of pytest."""
    if config.getoption("dist") != "loadgroup":
        return None
    config.option.loadscopereorder = False
    return ByModule(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests on Ray come first: one worker waits through them while others compute."""
    items.sort(key=lambda item: item.path.name != RAY_MODULE)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    """Numba's parallel loops share OpenMP with torch, and leave it with their number of threads."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real graphs beside the repository; tests that need it are skipped without."""
    folder = Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the real graphs are not beside this repository")
    return folder


def make_random_graph(
    nodes: int = 60,
    edges: int = 200,
    num_features: int = 8,
    classes: int = 3,
    seed: int = 0,
    **settings: object,
) -> Graph:
    """A small random graph whose features tell the class; two in five nodes train or validate."""
    generator = np.random.default_rng(seed)
    labels = np.arange(nodes) % classes
    centers = generator.standard_normal((classes, num_features))
    noise = generator.standard_normal((nodes, num_features))
    shuffled = generator.permutation(nodes)
    # The first nodes of each class train, so that every class has a training label.
    train = np.arange(nodes // 5)
    rest = np.setdiff1d(shuffled, train)
    defaults = {
        "features": (centers[labels] + 0.5 * noise).astype(np.float32),
        "labels": labels,
        "train": train,
        "valid": rest[: nodes // 5],
        "test": rest[nodes // 5 :],
        "num_nodes": nodes,
        "name": "random",
    }
    return Graph.from_edges(generator.integers(0, nodes, (2, edges)), **(defaults | settings))


@pytest.fixture
def random_graph() -> Callable[..., Graph]:
    """Make small random graphs: ``random_graph(nodes=60, seed=1)``."""
    return make_random_graph


RAY_MACHINE = {"num_cpus": 1, "memory": 2**31, "object_store_memory": 80 * 2**20}
"""What each machine of `ray_cluster` has."""


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[Any]:
    """Two machines of a Ray cluster with one core each, as processes of this one.

    Tests that use it are in modules of one name, so that one worker of the tests starts it, once. A
    machine that a test removes, it adds again.
    """
    pytest.importorskip("ray", reason="Ray is not installed")
    from ray.cluster_utils import Cluster

    import scr.engines._ray  # noqa: F401 - sets what Ray reads when it is imported

    # Workers would have the lowest priority: on a busy machine, they would hardly start. A machine
    # that refuses five looks in a row is gone; one that is slow has ten seconds for each answer.
    system = {"worker_niceness": 0, "health_check_period_ms": 200}
    head = {**RAY_MACHINE, "include_dashboard": False, "_system_config": system}
    with pytest.MonkeyPatch.context() as patch:
        # Processes of the cluster import the tests' modules as this one does.
        patch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Ray's own, on its start
            cluster = Cluster(initialize_head=True, head_node_args=head)
        try:
            cluster.add_node(**RAY_MACHINE)
            cluster.wait_for_nodes()
            yield cluster
        finally:
            cluster.shutdown()


@pytest.fixture(scope="session")
def _ray_connection(ray_cluster: Any) -> Iterator[None]:
    """One for all tests, as each takes seconds; what workers print arrives here."""
    from scr.engines import open_engine

    with open_engine("ray", ray_cluster.address):
        yield


@pytest.fixture
def connected_cluster(
    request: pytest.FixtureRequest, ray_cluster: Any, _ray_connection: None
) -> Any:
    """The `ray_cluster`, to which this process is connected, with both of its cores free."""
    import ray

    assert request.path.name == RAY_MODULE, "its worker would start a cluster of its own"
    until = time.monotonic() + 60  # that Ray may take to notice what earlier tests have ended
    while time.monotonic() < until and (
        sum(node["Alive"] for node in ray.nodes()) != 2 or ray.available_resources().get("CPU") != 2
    ):
        time.sleep(0.05)
    return ray_cluster
