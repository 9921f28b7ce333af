"""Ranges of rows of one hop: the bytes of one process, whoever computes which rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from tests.propagation.disk import test_out_of_core
from tests.propagation.disk.test_out_of_core import stored

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
KEPT = {"all": "all", "some": np.arange(3, 300, 4)}
TEAM = Team(workers=3, cores=1, memory_bytes=2**30)


def content(folder):
    return {file.name: file.read_bytes() for file in folder.glob("*.npy")}


@pytest.fixture
def ranged(monkeypatch):
    """Every plan of a team has blocks of 16 columns in three ranges of rows."""
    test_out_of_core.block_of(monkeypatch, 16, ranges=3)
    monkeypatch.setattr(disk_plan, "SLAB_ROWS", 4)


def by_ranges(graph, out, *, rows=None, features=None, engine=None, **settings):
    source = graph.features if features is None else features
    request = DiskRequest(graph, PropagationConfig(**settings), source, rows, team=TEAM)
    return propagate_to_disk(request, out, False, None, engine or LocalEngine())


@given(
    degrees=st.lists(st.integers(0, 9), min_size=1, max_size=60),
    count=st.integers(1, 5),
    slab_rows=st.integers(1, 7),
    some=st.booleans(),
)
def test_ranges_hold_every_row_once_and_end_between_slabs(degrees, count, slab_rows, some):
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    picked = np.arange(0, len(degrees), 2) if some else None
    rows = len(degrees) if picked is None else len(picked)
    cuts = Cuts.of(indptr, picked, count, slab_rows)
    assert 1 <= len(cuts) <= count
    for ranges, total in ((cuts.nodes, len(degrees)), (cuts.rows, rows)):
        assert [node for first, last in ranges for node in range(first, last)] == [*range(total)]
    assert all(first % slab_rows == 0 for first, _ in cuts.rows)
    for nodes, (first, last) in zip(cuts.nodes, cuts.rows, strict=True):
        held = np.arange(rows) if picked is None else picked
        assert np.flatnonzero((held >= nodes[0]) & (held < nodes[1])).tolist() == [
            *range(first, last)
        ]
        assert last > first
    for start in range(rows):
        found = [part for part in cuts.between(start, start + 1) if part[2] > part[1]]
        assert [part[1:] for part in found] == [(start, start + 1)]


def test_ranges_have_about_as_many_edges():
    degrees = np.array([1000] * 10 + [1] * 9000)
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    cuts = Cuts.of(indptr, None, 2, 1)
    # Rows count beside edges: 10,010 for the first ten rows, 18,000 for the others.
    assert cuts.rows == [(0, 10 + (28010 // 2 - 10010 + 1) // 2), (cuts.rows[0][1], 9010)]


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
    ("kind", "rows", "settings"),
    [
        ("dense", "all", {"hops": 3}),
        ("dense", "some", {"hops": 3, "norm": "row"}),
        ("lazy", "some", {"hops": 2, "direction": "separate", "dtype": "float16"}),
        ("lazy", "all", {"hops": 2, "norm": "col", "self_loops": True, "hop_scale": "unit"}),
        ("sparse", "all", {"hops": 1, "direction": "in", "self_loops": True}),
        ("sparse", "some", {"hops": 2, "self_loops": True, "hop_scale": "unit"}),
        ("dense", "all", {"hops": 2, "direction": "separate", "dtype": "float16"}),
    ],
)
def test_ranges_of_rows_make_the_bytes_of_one_process(
    tmp_path,
    tiny,
    ranged,
    kind,
    rows,
    settings,
):
    graph = stored(tmp_path, directed="direction" in settings)
    features = graph.features
    if kind == "lazy":
        features = transform_lazily(
            fit_features(features, FeatureConfig(scale="standard")), features
        )
    elif kind == "sparse":
        features = sp.csr_array(np.asarray(features) * (np.asarray(features) > 0))
    propagate(graph, out=tmp_path / "local", features=features, rows=KEPT[rows], **settings)
    kept = None if rows == "all" else KEPT[rows]
    by_ranges(graph, tmp_path / "ranges", rows=kept, features=features, **settings)
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


def test_work_that_is_stopped_resumes_with_the_ranges_that_are_missing(
    tmp_path,
    tiny,
    ranged,
    monkeypatch,
):
    done, compute = [], Blocks.compute_rows

    def counted(self, block, steps, number):
        done.append((block, steps[-1].place, number))
        compute(self, block, steps, number)

    monkeypatch.setattr(Blocks, "compute_rows", counted)
    graph = stored(tmp_path)
    for rows, kept in KEPT.items():
        done.clear()
        propagate(graph, 2, out=tmp_path / f"local-{rows}", rows=kept)
        kept, out = None if rows == "all" else kept, tmp_path / rows
        for tasks in (1, 4, 2):
            with pytest.raises(EngineError):
                by_ranges(graph, out, rows=kept, hops=2, engine=Lost(tasks))
        by_ranges(graph, out, rows=kept, hops=2)
        assert content(out) == content(tmp_path / f"local-{rows}")
        # Three blocks of 40 columns; hop 0 has parts where some rows are kept. Each run
        # that was stopped did one task of which the result was not taken.
        hops = (1, 2) if kept is None else (0, 1, 2)
        tasks = [(block, hop, part) for block in range(3) for hop in hops for part in range(3)]
        assert sorted(set(done)) == tasks
        assert len(done) == len(tasks) + 3


@pytest.mark.filterwarnings("ignore:.*had changed")
@pytest.mark.parametrize("name", ["part-0-1-1", "part-2-2-0", "state-1-1-2"])
def test_a_damaged_range_is_made_again(tmp_path, tiny, ranged, name):
    graph, rows = stored(tmp_path), "some" if name.startswith("state") else "all"
    kept = KEPT[rows] if rows == "some" else None
    propagate(graph, 2, out=tmp_path / "local", rows=KEPT[rows])
    out, engine = tmp_path / "ranges", LocalEngine()
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
    by_ranges(graph, out, rows=kept, hops=2, engine=engine)
    assert damaged
    assert content(out) == content(tmp_path / "local")


def unfilled(dtype, *shape):
    """An array of zeros that takes no memory."""
    return np.broadcast_to(np.zeros((), dtype), shape)


def large_request(workers, memory, *, rows=None, nodes=10**8, edges=10**10, indptr=None):
    indptr = np.broadcast_to(np.int64(edges), nodes + 1) if indptr is None else indptr
    graph = Graph(
        indptr=indptr, indices=unfilled(np.int32, edges),
        labels=unfilled(np.int64, nodes),
    )  # fmt: skip
    team = Team(workers=workers, cores=8, memory_bytes=memory)
    config = PropagationConfig(hops=3, dtype="float16", norm="row")
    return DiskRequest(graph, config, unfilled(np.float16, nodes, 64), rows, team=team)


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
    whole = large_request(2, 64 * 2**30).plan(tmp_path / "hops", used_bytes=10**13)
    plan = large_request(4, 64 * 2**30).plan(tmp_path / "hops", used_bytes=10**13)
    # Two blocks; each of two ranges reads all features, then twice the hop before.
    features, hop = nodes * 64 * 2, nodes * 32 * 2
    joined = 3 * nodes * 64 * 2 + features
    assert plan.read_bytes == 2 * (3 * edges * 4 + 2 * (features + 2 * hop)) + joined
    assert plan.written_bytes == whole.written_bytes
    # Of the second matrix, a worker has half the rows.
    assert whole.worker_bytes - plan.worker_bytes == (nodes - plan.spare_rows) * 32 * 2
    assert plan.spare_rows == pytest.approx(nodes / 2, rel=0.01)
    gathered = 3 * edges / (LINES_PER_SECOND * 8)
    reading = (features + 2 * hop) / READ_SPEED
    passes = plan.seconds - (whole.seconds - (gathered + features / READ_SPEED))
    assert passes == pytest.approx(gathered / 2 + reading + 3 * TASK_SECONDS)


def test_whole_hops_are_counted_on_the_disk_where_some_rows_are_kept(tmp_path):
    request = large_request(
        4, 64 * 2**30, rows=np.arange(0, 10**5, 10), nodes=10**5, edges=10**6,
        indptr=np.arange(10**5 + 1) * 10,
    )  # fmt: skip
    whole, plan = (
        request.plan(tmp_path / "hops", used_bytes=10**13, block_columns=32, row_ranges=count)
        for count in (1, 2)
    )
    states = 2 * 10**5 * 64 * 2  # of hops 1 and 2
    assert plan.written_bytes - whole.written_bytes == states
    # The disk takes one slab of the result beside it; several are put together where there is room.
    more = 2 * (plan.slabs - 1) * plan.slab_rows * 4 * 64 * 2
    for disk, ranges in ((plan.work_bytes - more, 2), (plan.work_bytes - more - 1, 1)):
        tight = replace(request, disk=disk)
        found = tight.plan(tmp_path / "hops", block_columns=32, row_ranges=2)
        assert (found.row_ranges, found.work_bytes <= disk) == (ranges, True)
