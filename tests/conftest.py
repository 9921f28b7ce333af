"""Fixtures for all tests: the real graphs where they are at hand, and small random graphs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

# Read when numpy and torch are imported, here and in processes that tests start: with a thread per
# core in every worker, threads mostly wait for each other. Tests of threads set their own number.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import settings

from scr.graph import Graph

# Machines that build are slow and shared: a deadline there finds load, not mistakes.
settings.register_profile("ci", deadline=None, max_examples=50)
settings.register_profile("stress", deadline=None, max_examples=1000)
settings.load_profile("ci")


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
