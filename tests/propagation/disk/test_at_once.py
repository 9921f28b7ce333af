"""Hops that fit in memory are written once: the same files as part by part, within the budget."""

from __future__ import annotations

import numpy as np
import pytest
from tests.propagation.disk.test_out_of_core import stored

from scr.propagation import PropagationConfig, kept_rows, propagate
from scr.propagation.disk import DiskRequest
from scr.propagation.disk import _out_of_core as out_of_core
from scr.propagation.disk import _plan as disk_plan
from scr.storage import verify


def hashes(folder):
    return {file.name: file.read_bytes() for file in folder.glob("*.npy")}


@pytest.mark.parametrize("rows", ["all", "labeled"])
@pytest.mark.parametrize("settings", [
    {}, {"norm": "row", "dtype": "float16"}, {"hop_scale": "unit"}, {"direction": "separate"},
])  # fmt: skip
def test_the_result_is_that_of_parts_on_disk(tmp_path, monkeypatch, rows, settings):
    graph = stored(tmp_path, directed="direction" in settings)
    propagate(graph, 3, rows=rows, out=tmp_path / "parts", **settings)
    monkeypatch.setattr(disk_plan, "AT_ONCE_BYTES", 1)
    monkeypatch.delattr(out_of_core.OutOfCore, "run")  # which is not called
    steps = []
    propagate(
        graph, 3, rows=rows, out=tmp_path / "once", on_progress=lambda *s: steps.append(s),
        **settings,
    )  # fmt: skip
    assert hashes(tmp_path / "once") == hashes(tmp_path / "parts")
    verify(tmp_path / "once")
    walks = 2 if "direction" in settings else 1
    # Blocks of 128 bytes: 40 columns are two of them in float32, and one in float16.
    products = 3 * walks * (1 if settings.get("dtype") == "float16" else 2)
    assert steps[-1] == ("Propagating", products, products)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["once", "parts", "store"]


def planned(graph, tmp_path, memory="auto", **settings):
    config = PropagationConfig(hops=3, **settings)
    return DiskRequest(graph, config, graph.features, kept_rows(graph, "all"), memory).plan(
        tmp_path
    )


def test_it_takes_a_result_worth_it_a_short_time_and_enough_memory(tmp_path, monkeypatch):
    graph = stored(tmp_path, nodes=20_000, columns=400)
    assert not planned(graph, tmp_path).at_once
    matrix = 20_000 * 400 * 4
    monkeypatch.setattr(disk_plan, "AT_ONCE_BYTES", 4 * matrix)  # all of the result
    plan = planned(graph, tmp_path)
    assert plan.at_once
    # The hops, and the scaled one that a product reads.
    assert plan.memory_bytes > 5 * matrix
    less = disk_plan.process_budget("auto")
    monkeypatch.setattr(disk_plan, "process_budget", lambda _: plan.memory_bytes - matrix)
    assert not planned(graph, tmp_path).at_once
    monkeypatch.setattr(disk_plan, "process_budget", lambda _: less)
    monkeypatch.setattr(disk_plan, "STATE_SECONDS", 0.0)
    assert not planned(graph, tmp_path).at_once


def test_work_that_was_begun_in_parts_is_resumed_in_parts(tmp_path, monkeypatch):
    graph = stored(tmp_path)

    def stops(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(out_of_core, "assemble", stops)
        with pytest.raises(KeyboardInterrupt):
            propagate(graph, 2, out=tmp_path / "hops")
    monkeypatch.setattr(disk_plan, "AT_ONCE_BYTES", 1)
    monkeypatch.setattr(out_of_core, "Blocks", stops)  # all parts are there
    hops = propagate(graph, 2, out=tmp_path / "hops")
    assert np.array_equal(np.asarray(hops), np.asarray(propagate(graph, 2)))
