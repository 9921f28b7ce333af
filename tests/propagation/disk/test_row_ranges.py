"""Ranges of rows of one hop: the bytes of one process, whoever computes which rows."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from tests.propagation.disk import test_out_of_core

from scr.engines import LocalEngine
from scr.errors import EngineError
from scr.features import FeatureConfig, fit_features, transform_lazily
from scr.graph import Graph
from scr.propagation import PropagationConfig, propagate
from scr.propagation.disk import DiskRequest, Team, propagate_to_disk
from scr.propagation.disk import _plan as disk_plan
from scr.propagation.disk._blocks import Blocks
from scr.propagation.disk._costs import LINES_PER_SECOND, TASK_SECONDS
from scr.propagation.disk._row_ranges import Cuts
from scr.propagation.kernel._row_sets import RowRange, RowSet
from scr.storage import READ_SPEED

tiny = test_out_of_core.tiny
TEAM = Team(workers=3, cores=1, memory_bytes=2**30)
stored = partial(test_out_of_core.stored, nodes=150, edges=800)
"""Fewer chunks than other tests have, since each task goes through them."""


def content(folder):
    return {file.name: file.read_bytes() for file in folder.glob("*.npy")}


@pytest.fixture
def ranged(monkeypatch):
    """Every plan of a team has blocks of 16 columns in three ranges of rows."""
    test_out_of_core.block_of(monkeypatch, 16, ranges=3)
    monkeypatch.setattr(disk_plan, "SLAB_ROWS", 4)


def by_ranges(graph, out, *, features=None, engine=None, team=TEAM, on_progress=None, **settings):
    source = graph.features if features is None else features
    request = DiskRequest(graph, PropagationConfig(**settings), source, team=team)
    return propagate_to_disk(request, out, False, on_progress, engine or LocalEngine())


@given(
    degrees=st.lists(st.integers(0, 9), min_size=1, max_size=60),
    count=st.integers(1, 5),
    slab_rows=st.integers(1, 7),
)
def test_ranges_hold_every_row_once_and_end_between_slabs(degrees, count, slab_rows):
    indptr, rows = np.concatenate([[0], np.cumsum(degrees)]), len(degrees)
    cuts = Cuts.of(indptr, rows, count, slab_rows)
    assert 1 <= len(cuts) <= count
    assert [row for first, last in cuts.ranges for row in range(first, last)] == [*range(rows)]
    assert all(first % slab_rows == 0 and first < last for first, last in cuts.ranges)
    costs = [sum(degrees[first:last]) + last - first for first, last in cuts.ranges]
    assert cuts.largest == pytest.approx(max(costs) / sum(costs))
    for start in range(rows):
        assert [part[1:] for part in cuts.between(start, start + 1)] == [(start, start + 1)]


def test_ranges_have_about_as_many_edges():
    degrees = np.array([1000] * 10 + [1] * 9000)
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    cuts = Cuts.of(indptr, len(degrees), 2, 1)
    # Rows count beside edges: 10,010 for the first ten rows, 18,000 for the others.
    assert cuts.ranges == [(0, 10 + (28010 // 2 - 10010 + 1) // 2), (cuts.ranges[0][1], 9010)]
    assert cuts.largest == pytest.approx(0.5, abs=1e-4)


@pytest.mark.parametrize(("first", "last"), [(0, 5), (3, 9), (4, 4), (0, 20)])
def test_a_range_is_asked_for_as_a_set_is(first, last):
    one, other = RowRange(20, first, last), RowSet(20, np.arange(first, last))
    assert len(one) == len(other)
    for start in range(20):
        for stop in range(start, 21):
            assert one.between(start, stop).tolist() == other.between(start, stop).tolist()
    rows = np.arange(20)
    assert one.places(rows).tolist() == other.places(rows).tolist()


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("dense", {"hops": 3}),
        ("dense", {"hops": 2, "direction": "separate", "dtype": "float16"}),
        ("lazy", {"hops": 2, "norm": "col", "self_loops": True, "hop_scale": "unit"}),
        ("lazy", {"hops": 2, "direction": "separate", "norm": "row"}),
        ("sparse", {"hops": 1, "direction": "in", "self_loops": True}),
    ],
)
def test_ranges_of_rows_make_the_bytes_of_one_process(tmp_path, tiny, ranged, kind, settings):
    graph = stored(tmp_path, directed="direction" in settings)
    features = graph.features
    if kind == "lazy":
        features = transform_lazily(
            fit_features(features, FeatureConfig(scale="standard")), features
        )
    elif kind == "sparse":
        features = sp.csr_array(np.asarray(features) * (np.asarray(features) > 0))
    propagate(graph, out=tmp_path / "local", features=features, **settings)
    by_ranges(graph, tmp_path / "ranges", features=features, **settings)
    assert content(tmp_path / "ranges") == content(tmp_path / "local")
    assert not (tmp_path / ".ranges.work").exists()


class Lost(LocalEngine):
    """Workers that are lost for good after some tasks."""

    def __init__(self, tasks):
        super().__init__()
        self._tasks = tasks

    def run(self, *arguments, **keywords):
        for number, done in enumerate(super().run(*arguments, **keywords)):
            if number == self._tasks:
                raise EngineError("Workers were lost 4 times")
            yield done


@pytest.fixture
def done(monkeypatch):
    """Ranges that were computed, as blocks, hops and numbers."""
    found, compute = [], Blocks.compute_rows

    def noted(self, block, steps, number):
        found.append((block, steps[-1].place, number))
        compute(self, block, steps, number)

    monkeypatch.setattr(Blocks, "compute_rows", noted)
    return found


@pytest.mark.parametrize("team", [TEAM, replace(TEAM, workers=7), None])
def test_work_that_is_stopped_resumes_with_the_ranges_that_are_missing(tmp_path, tiny, done, team):
    graph, out = stored(tmp_path), tmp_path / "ranges"
    propagate(graph, 2, out=tmp_path / "local")
    with pytest.MonkeyPatch.context() as patch:
        test_out_of_core.block_of(patch, 16, ranges=3)
        for tasks in (1, 4, 2):
            with pytest.raises(EngineError):
                by_ranges(graph, out, hops=2, engine=Lost(tasks))
    told = []
    by_ranges(graph, out, hops=2, team=team, on_progress=lambda *a: told.append(a))
    assert content(out) == content(tmp_path / "local")
    # Three blocks of two hops. Each run that was stopped did one task of which the result was not
    # taken.
    tasks = [(block, hop, part) for block in range(3) for hop in (1, 2) for part in range(3)]
    assert sorted(set(done)) == tasks
    assert len(done) == len(tasks) + 3
    passes = [a for a in told if a[0] == "Propagating"]
    assert passes[-1][1] == passes[-1][2] < 6 * graph.num_edges


def test_a_hop_that_is_lost_between_others_is_made_again(tmp_path, tiny, ranged, done):
    graph, out = stored(tmp_path), tmp_path / "ranges"
    propagate(graph, 3, out=tmp_path / "local")
    with pytest.raises(EngineError):
        by_ranges(graph, out, hops=3, engine=Lost(20))
    (tmp_path / ".ranges.work" / "part-0-2-1").unlink()
    done.clear()
    by_ranges(graph, out, hops=3)
    assert content(out) == content(tmp_path / "local")
    assert [task for task in done if task[0] == 0] == [(0, 2, 1)]


@pytest.mark.filterwarnings("ignore:.*had changed")
@pytest.mark.parametrize("name", ["part-0-1-1", "part-2-2-0", "part-1-1-2"])
def test_a_damaged_range_is_made_again(tmp_path, tiny, ranged, name):
    graph, out, engine = stored(tmp_path), tmp_path / "ranges", LocalEngine()
    propagate(graph, 2, out=tmp_path / "local")
    run = engine.run

    def damaging(*arguments, **keywords):
        for task, made in run(*arguments, **keywords):
            yield task, made
            file = tmp_path / ".ranges.work" / name
            if file.exists() and not damaged:
                damaged.append(name)
                file.write_bytes(file.read_bytes()[:-1] + b"?")

    damaged = []
    engine.run = damaging
    by_ranges(graph, out, hops=2, engine=engine)
    assert damaged
    assert content(out) == content(tmp_path / "local")


def unfilled(dtype, *shape):
    """An array of zeros that takes no memory."""
    return np.broadcast_to(np.zeros((), dtype), shape)


def large_request(workers, memory):
    nodes, edges = 10**8, 10**10
    graph = Graph(
        indptr=np.broadcast_to(np.int64(edges), nodes + 1), indices=unfilled(np.int32, edges),
        labels=unfilled(np.int64, nodes),
    )  # fmt: skip
    team = Team(workers=workers, cores=8, memory_bytes=memory)
    config = PropagationConfig(hops=3, dtype="float16", norm="row")
    return DiskRequest(graph, config, unfilled(np.float16, nodes, 64), team=team)


@pytest.mark.parametrize(
    ("workers", "ranges", "width"),
    # 64 columns in float16 are two cache lines, so two blocks at most are of whole ones.
    [(1, 1, 64), (2, 1, 32), (4, 2, 32), (6, 3, 32)],
)
def test_more_workers_than_cache_lines_share_rows(tmp_path, workers, ranges, width):
    plan = large_request(workers, 64 * 2**30).plan(tmp_path / "hops", used_bytes=10**13)
    assert (plan.row_ranges, plan.block_columns, plan.workers) == (ranges, width, workers)
    assert plan.tasks == plan.blocks * (1 if ranges == 1 else 3 * ranges)


def test_a_plan_of_ranges_is_what_arithmetic_says(tmp_path):
    nodes, edges = 10**8, 10**10
    # Too little memory for the edges, which take 40 GB.
    whole = large_request(2, 40 * 2**30).plan(tmp_path / "hops", used_bytes=10**13)
    plan = large_request(4, 40 * 2**30).plan(tmp_path / "hops", used_bytes=10**13)
    # Two blocks; each of two ranges reads all features, then twice the hop before.
    features, hop = nodes * 64 * 2, nodes * 32 * 2
    joined = 3 * nodes * 64 * 2 + features
    assert plan.read_bytes == 2 * (3 * edges * 4 + 2 * (features + 2 * hop)) + joined
    assert plan.written_bytes == whole.written_bytes
    # Of the second matrix, a worker has half the rows.
    assert whole.worker_bytes - plan.worker_bytes == (
        (nodes - plan.spare_rows) * 32 * 2 - 4 * 8 * 2**22
    )  # numbers of rows, four million at a time, take some
    assert plan.spare_rows == pytest.approx(nodes / 2, rel=0.01)
    gathered = 3 * edges / (LINES_PER_SECOND * 8)
    reading = (features + 2 * hop) / READ_SPEED
    passes = plan.seconds - (whole.seconds - (gathered + features / READ_SPEED))
    assert passes == pytest.approx(gathered * plan.spare_rows / nodes + reading + 3 * TASK_SECONDS)


@pytest.mark.parametrize("change", ["rows", "hops", "uneven"])
def test_ranges_are_not_shared_where_they_save_nothing(tmp_path, change):
    request = large_request(4, 64 * 2**30)
    if change == "rows":
        request = replace(request, rows=np.arange(0, 10**8, 10**4))
    elif change == "hops":
        request = replace(request, config=replace(request.config, hops=0))
    else:  # nearly all edges are those of the last rows, which end between slabs
        indptr = np.arange(10**8 + 1, dtype=np.int64)
        indptr[-1] = 10**10
        request = replace(request, graph=replace(request.graph, indptr=indptr))
    assert request.plan(tmp_path / "hops", used_bytes=10**13).row_ranges == 1


@pytest.mark.parametrize("workers", [2, 4])
def test_edges_count_where_there_is_memory_for_them_beside_a_block(tmp_path, workers):
    streamed = large_request(workers, 40 * 2**30).plan(tmp_path / "hops", used_bytes=10**13)
    mapped = large_request(workers, 64 * 2**30).plan(tmp_path / "hops", used_bytes=10**13)
    assert (streamed.edges_fit, mapped.edges_fit) == (False, True)
    assert mapped.worker_bytes == streamed.worker_bytes + 4 * 10**10 <= 64 * 2**30
