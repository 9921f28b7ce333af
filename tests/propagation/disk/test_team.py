"""Plans for a cluster, compared with arithmetic by hand; none of them needs Ray."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from tests.propagation.disk.test_out_of_core import stored
from typer.testing import CliRunner

from scr.cli import app
from scr.engines import Engine, Needs
from scr.errors import ConfigError, EngineError, MemoryBudgetError
from scr.propagation import PropagationConfig, propagate
from scr.propagation.disk import DiskRequest, Team, form_team
from scr.propagation.disk import _costs as costs
from scr.propagation.disk import _plan as disk_plan
from scr.storage import WorkFolder

GIB = 2**30


class Machines(Engine):
    """A cluster that is only asked what it has."""

    name = "listed"

    def __init__(self, *machines):
        self._machines = [Needs(cores=cores, memory_bytes=memory) for cores, memory in machines]

    def machines(self):
        return self._machines

    def slots(self, needs):
        return sum(
            min(each.cores // needs.cores, each.memory_bytes // needs.memory_bytes)
            for each in self._machines
        )

    def run(self, *_, **__):
        raise AssertionError


def test_a_machine_is_one_worker_unless_machines_differ():
    alike = Machines((32, 64 * GIB), (32, 64 * GIB))
    assert form_team(alike) == Team(workers=2, cores=32, memory_bytes=64 * GIB)
    mixed = Machines((0, 8 * GIB), (8, 16 * GIB), (32, 128 * GIB))
    assert form_team(mixed) == Team(workers=5, cores=8, memory_bytes=16 * GIB)
    assert form_team(mixed, workers=3, memory="20GiB") == Team(
        workers=3, cores=8, memory_bytes=20 * GIB
    )
    assert form_team(alike, cores=1).memory_bytes == 2 * GIB
    with pytest.raises(ConfigError, match="at most 32"):
        form_team(alike, cores=33)
    with pytest.raises(ConfigError, match="no cluster to ask"):
        form_team(None, workers=3)


@pytest.mark.parametrize(
    ("workers", "width", "blocks"),
    [(1, 100, 1), (2, 50, 2), (3, 34, 3), (4, 25, 4), (7, 16, 7), (20, 16, 7)],
)
def test_every_worker_has_as_large_a_block_as_long_as_there_are_cache_lines(
    tmp_path, workers, width, blocks
):
    graph = stored(tmp_path, columns=100)  # 400 bytes a row: 7 lines of 16 columns
    team = Team(workers=workers, cores=1, memory_bytes=GIB)
    plan = DiskRequest(graph, PropagationConfig(hops=2), graph.features, team=team).plan(tmp_path)
    assert (plan.block_columns, plan.blocks, plan.workers) == (width, blocks, min(workers, 7))


def test_a_plan_is_what_arithmetic_says(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)  # importing it is an error
    graph = stored(tmp_path, columns=100)
    nodes, edges, hops = graph.num_nodes, graph.num_edges, 3
    result = CliRunner().invoke(
        app,
        [
            "propagate", str(tmp_path / "store"), "--hops", str(hops), "--scale", "none", "--plan",
            "--workers", "2", "--worker-cores", "1", "--worker-memory", "1GiB", "--json",
        ],
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["team"] == {"workers": 2, "cores": 1, "memory_bytes": GIB}
    plan = report["plan"]
    hops_bytes, features = nodes * (hops + 1) * 100 * 4, nodes * 100 * 4
    edge_bytes = edges * (4 + 4)  # indices and weights
    # Hop 0 has no parts: it is read from the features, in float32 as well.
    assert plan["read_bytes"] == 2 * (hops * edge_bytes + features) + hops_bytes
    assert plan["written_bytes"] == 2 * hops_bytes - features
    matrix = nodes * 64 * 4
    bounds_and_scales = nodes * (8 + 2 * 4)
    chunks = 2 * max(edges, 1 << 17) * (4 + 4)
    filling = 2 * nodes * 100 * 4  # of features in a file: read, and converted
    # Edges are normalized while one matrix is filled; the other one is touched after that.
    preparing = 2 * 8 * nodes + 32 * edges
    held = disk_plan.WORKER_BYTES + bounds_and_scales + chunks + edge_bytes
    # Afterwards, the rows of all hops are put together: those in two buffers, and their parts.
    joining = disk_plan.SLABS * hops_bytes
    assert plan["worker_bytes"] == held + filling + max(matrix + max(matrix, preparing), joining)


def test_time_is_that_of_the_rounds_of_the_slowest_block(tmp_path):
    graph = stored(tmp_path, columns=128)
    config = PropagationConfig(hops=2, norm="row")
    request = DiskRequest(graph, config, graph.features)

    def passes(workers):
        team = Team(workers=workers, cores=1, memory_bytes=GIB)
        plan = replace(request, team=team).plan(tmp_path)
        # Two of three matrices have parts; all are read and written, in float32 as the features.
        files = (1 + 2 / 3) * plan.disk_bytes / costs.WRITE_SPEED
        return plan.seconds - files - 2 * plan.disk_bytes / costs.READ_SPEED

    features = graph.num_nodes * 128 * 4 / costs.READ_SPEED
    lines = 2 * graph.num_edges * 8 / costs.LINES_PER_SECOND  # 128 columns are 8 lines
    for workers in (1, 2, 4, 8):
        assert passes(workers) == pytest.approx(lines / workers + features)


def test_a_worker_that_has_too_little_memory_is_refused_with_what_works(tmp_path):
    graph = stored(tmp_path)
    team = Team(workers=2, cores=1, memory_bytes=GIB // 4)
    request = DiskRequest(graph, PropagationConfig(), graph.features, team=team)
    with pytest.raises(MemoryBudgetError, match="budget of a worker is 256") as error:
        request.plan(tmp_path)
    smallest = error.value.hint.split("`")[1]
    again = replace(request, team=form_team(None, workers=2, memory=smallest))
    assert again.plan(tmp_path).worker_bytes <= again.team.memory_bytes


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"engine": "ray"}, "`local` without `out`"),
        ({"out": "hops", "workers": 2}, "none with the engine `local`"),
        ({"out": "hops", "worker_memory": "1GiB"}, "none with the engine `local`"),
        ({"out": "hops", "engine": "spark"}, "local or ray"),
    ],
)
def test_settings_of_a_cluster_are_refused_where_there_is_none(tmp_path, settings, message):
    graph = stored(tmp_path)
    if "out" in settings:
        settings = settings | {"out": tmp_path / "hops"}
    with pytest.raises(ConfigError, match=message):
        propagate(graph, 2, **settings)


def test_finished_parts_stay_when_workers_are_lost_for_good(tmp_path):
    with pytest.raises(EngineError), WorkFolder(tmp_path / "out", "task") as work:
        np.save(work.file("part.npy"), np.arange(3))
        work.finish("part", files=["part.npy"])
        raise EngineError("A worker was lost 4 times")
    with WorkFolder(tmp_path / "out", "task") as work:
        assert work.finished("part")
