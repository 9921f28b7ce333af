from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from scr.cli import app
from scr.graph import load_graph
from scr.propagation import Hops, PropagationConfig, load_cached_hops, propagate

runner = CliRunner()


@pytest.fixture
def store(tmp_path, random_graph):
    random_graph().save(tmp_path / "store")
    return tmp_path / "store"


def run(*arguments: object):
    return runner.invoke(app, ["propagate", *map(str, arguments)])


def test_hops_are_written_beside_the_store_where_training_finds_them(store):
    result = run(store, "--hops", 2, "--scale", "none", "--dtype", "float16")
    assert result.exit_code == 0, result.output
    assert "3 hops of 60 nodes" in result.output
    graph = load_graph(str(store))
    found = load_cached_hops(graph, PropagationConfig(hops=2, dtype="float16"))
    assert found is not None
    assert np.array_equal(np.asarray(found), np.asarray(propagate(graph, 2, dtype="float16")))
    assert (
        "there already" in run(store, "--hops", 2, "--scale", "none", "--dtype", "float16").output
    )


def test_hops_are_written_elsewhere_on_request(store, tmp_path):
    out = tmp_path / "elsewhere"
    settings = ("--hops", 1, "--norm", "row", "--self-loops", "--direction", "separate")
    assert run(store, *settings, "--out", out).exit_code == 0
    assert Hops.open(out).shape == (60, 3, 8)
    again = run(store, *settings, "--out", out)
    assert again.exit_code == 2
    assert "exists already" in again.stderr
    assert run(store, *settings, "--out", out, "--overwrite").exit_code == 0


def test_a_plan_prints_sizes_and_writes_nothing(store):
    result = run(store, "--hops", 3, "--plan", "--memory", "1GiB")
    assert result.exit_code == 0
    assert f"{60 * 4 * 8 * 4:,} bytes" in result.output
    assert "3 over the edges" in result.output
    assert not (store / "hops").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--memory", "10"], "smallest that works"),
        (["--memory", "much"], "a size such as"),
        (["--norm", "column"], "column"),
    ],
)
def test_bad_requests_exit_with_two_and_write_nothing(store, arguments, message):
    result = run(store, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not list(store.glob("hops/*"))


def test_a_graph_without_a_store_needs_a_place():
    result = run("digits")
    assert result.exit_code == 2
    assert "--out" in result.stderr
