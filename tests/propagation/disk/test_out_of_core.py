from __future__ import annotations

import errno
import itertools
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests import campaigns
from tests.propagation.graphs import graphs, make_graph, random_matrix

from scr.errors import ConfigError, GraphError, MemoryBudgetError, StoreError
from scr.graph import Graph
from scr.graph import _store as store
from scr.propagation import PropagationConfig, kept_rows, propagate
from scr.propagation import _engine as engine
from scr.propagation import _steps as steps_module
from scr.propagation.disk import _blocks as blocks
from scr.propagation.disk import _edge_chunks as edge_chunks
from scr.propagation.disk import _joiner as joiner
from scr.propagation.disk import _joining_plan as joining_plan
from scr.propagation.disk import _layout as layout
from scr.propagation.disk import _out_of_core as out_of_core
from scr.propagation.disk import _pieces as pieces
from scr.propagation.disk import _plan as disk_plan
from scr.propagation.disk._row_ranges import Cuts
from scr.propagation.kernel import _rows as rows_module
from scr.sources import load_graph
from scr.storage import WorkFolder, verify
from scr.storage import _artifact as artifact
from scr.storage import _manifest as manifest
from scr.storage import _sequential_writer as sequential_writer


def stored(tmp_path, *, nodes=300, edges=3000, columns=40, seed=0, directed=False, name="store"):
    """A graph in a store, with features, splits and a hub."""
    rng = np.random.default_rng(seed)
    matrix = random_matrix(rng, nodes, edges, directed=directed, weighted=True)
    graph = make_graph(matrix, directed=directed)
    graph = replace(
        graph,
        features=rng.normal(size=(nodes, columns)).astype(np.float32),
        labels=rng.integers(0, 3, nodes),
        class_names=("a", "b", "c"),
        train=np.arange(0, 30),
        valid=np.arange(40, 50),
        test=np.arange(100, 130),
    )
    return load_graph(str(graph.save(tmp_path / name)))


@pytest.fixture
def tiny(monkeypatch):
    """Hubs, chunks, parts and slabs so small that a small graph has many of each."""
    monkeypatch.setattr(rows_module, "HUB_EDGES", 7)
    monkeypatch.setattr(rows_module, "TASK_COST", 16)
    monkeypatch.setattr(edge_chunks, "CHUNK_EDGES", 20)
    monkeypatch.setattr(disk_plan, "CHUNK_EDGES", 20)
    monkeypatch.setattr(edge_chunks, "CHUNK_ROWS", 11)
    monkeypatch.setattr(disk_plan, "SLAB_BYTES", (4000, 4000))
    monkeypatch.setattr(disk_plan, "SLAB_ROWS", 4)
    monkeypatch.setattr(joining_plan, "WRITE_BYTES", 8000)
    monkeypatch.setattr(joining_plan, "STRETCH_BYTES", 8000)
    monkeypatch.setattr(joining_plan, "STRETCH_SLABS", 1)
    chunks_of(monkeypatch, 4096)
    monkeypatch.setattr(steps_module, "PART_BYTES", 100)
    monkeypatch.setattr(steps_module, "PART_ROWS", 3)
    monkeypatch.setattr(sequential_writer, "DIRECT_BYTES", 5000)
    monkeypatch.setattr(sequential_writer, "BUFFER_BYTES", 4096)
    monkeypatch.setattr(blocks, "GATHER_BYTES", 500)
    monkeypatch.setattr(pieces, "COPIED_BYTES", 500)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # no power cut is tested here


def chunks_of(monkeypatch, size):
    """Make the chunks of results so small."""
    for module in (manifest, layout, joining_plan, disk_plan):
        monkeypatch.setattr(module, "CHUNK_BYTES", size)


def block_of(monkeypatch, columns, ranges=1):
    """Make every plan work in blocks of so many columns, and ranges of rows."""
    plan = disk_plan.DiskRequest.plan

    def narrow(*arguments, **keywords):
        return plan(*arguments, **{**keywords, "block_columns": columns, "row_ranges": ranges})

    monkeypatch.setattr(disk_plan.DiskRequest, "plan", narrow)


@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    drawn=graphs(),
    norm=st.sampled_from(["row", "sym", "col"]),
    self_loops=st.booleans(),
    direction=st.sampled_from(["both", "out", "in", "separate"]),
    width=st.sampled_from([1, 2, 3, 5, 16, 17, 33, 40]),
    block=st.sampled_from([1, 3, 16, 17, 30]),
    dtype=st.sampled_from(["float32", "float16"]),
    hop_scale=st.sampled_from(["none", "unit"]),
    sparse=st.booleans(),
    some=st.booleans(),
    threads=st.sampled_from([1, 3]),
    slots=st.sampled_from([0, 1, 2]),
    edges_fit=st.booleans(),
    chunk=st.sampled_from([64, 1000, 4096]),
)
def test_hops_on_disk_are_those_in_memory_to_the_last_bit(
    tmp_path_factory, tiny, drawn, norm, self_loops, direction, width, block, dtype, hop_scale,
    sparse, some, threads, slots, edges_fit, chunk,
):  # fmt: skip
    graph, _ = drawn
    path = tmp_path_factory.mktemp("case")
    rng = np.random.default_rng(width)
    features = rng.normal(size=(graph.num_nodes, width)).astype(np.float32)
    features = sp.csr_array(features * (features > 0)) if sparse else features
    graph = load_graph(str(replace(graph, features=features).save(path / "store")))
    rows = rng.permutation(graph.num_nodes)[: 1 + graph.num_nodes // 3] if some else "all"
    asked = {
        "hops": 3, "norm": norm, "self_loops": self_loops, "direction": direction, "dtype": dtype,
        "hop_scale": hop_scale,
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        chunks_of(patch, chunk)
        block_of(patch, min(block, width))
        plan = disk_plan.DiskRequest.plan
        forced = {"state_slots": slots if some else None, "edges_fit": edges_fit}
        patch.setattr(
            disk_plan.DiskRequest, "plan", lambda *a, **k: replace(plan(*a, **k), **forced)
        )
        made = propagate(graph, **asked, out=path / "hops", rows=rows, threads=threads)
        verify(path / "hops")
    expected = propagate(graph, **asked)
    kept = np.arange(graph.num_nodes) if made.nodes_kept is None else made.nodes_kept
    assert np.asarray(made).tobytes() == np.asarray(expected)[kept].tobytes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "computes_apart", lambda *_, **__: False)
        assert np.asarray(propagate(graph, **asked)).tobytes() == np.asarray(expected).tobytes()
    assert sorted(item.name for item in path.iterdir()) == ["hops", "store"]


def test_chunks_cover_every_row_and_edge_once_and_hubs_in_whole_pieces(tiny):
    degrees = np.array([0, 3, 0, 100, 5, 20, 1, 0, 0, 21, 60, *[0] * 30])
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    chunks = edge_chunks.edge_chunks(indptr)
    assert max(chunk.stop - chunk.start for chunk in chunks) <= 20
    assert [edge for c in chunks for edge in range(c.start, c.stop)] == list(range(indptr[-1]))
    whole = [c for c in chunks if (c.start, c.stop) == (indptr[c.first], indptr[c.last])]
    parts = [c for c in chunks if c not in whole]
    assert {c.first for c in parts} == {3, 9, 10}
    assert all((c.start - indptr[c.first]) % rows_module.HUB_EDGES == 0 for c in parts)
    covered = sorted({row for c in chunks for row in range(c.first, c.last)})
    assert covered == list(range(len(degrees)))


def test_only_labeled_rows_are_kept_and_found_by_node_number(tmp_path):
    graph = stored(tmp_path)
    made = propagate(graph, 2, out=tmp_path / "hops", rows="labeled")
    labeled = [*range(30), *range(40, 50), *range(100, 130)]
    assert np.array_equal(made.nodes_kept, labeled)
    expected = np.asarray(propagate(graph, 2))
    assert np.array_equal(made.rows(np.array([129, 0, 45])), expected[[129, 0, 45]])
    with pytest.raises(GraphError, match="Node 30 has no hops; they were kept for 70 nodes"):
        made.rows(np.array([3, 30]))
    assert np.array_equal(np.asarray(propagate(graph, 2, rows="labeled")), np.asarray(made))
    saved = type(made).open(made.save(tmp_path / "again"))
    assert np.array_equal(saved.nodes_kept, labeled)


def test_kept_rows_are_found_by_a_mask_of_nodes(tmp_path):
    graph = stored(tmp_path)
    made = propagate(graph, 1, rows=[0, 1, 5, 7])
    mask = np.isin(np.arange(300), [1, 7])
    assert np.array_equal(made.rows(mask), made.rows(np.array([1, 7])))


def test_without_splits_labeled_means_a_known_label(tmp_path):
    graph = stored(tmp_path)
    empty = np.zeros(0, np.int64)
    labels = np.where(np.arange(300) % 7 == 0, 1, -1)
    graph = replace(graph, train=empty, valid=empty, test=empty, labels=labels)
    made = propagate(graph, 1, out=tmp_path / "hops", rows="labeled")
    assert np.array_equal(made.nodes_kept, np.arange(0, 300, 7))


def test_rows_that_are_all_nodes_are_not_listed(tmp_path):
    graph = stored(tmp_path)
    every = replace(graph, train=np.arange(150), test=np.arange(150, 300))
    for rows in ("labeled", np.arange(300), np.ones(300, bool)):
        assert kept_rows(every, rows) is None


@pytest.mark.parametrize("rows", ["some", [0, 300], [-1], np.zeros((2, 2), int), [0.5], []])
def test_rows_that_cannot_be_kept_are_refused(tmp_path, rows):
    with pytest.raises((ConfigError, GraphError)):
        propagate(stored(tmp_path), 1, out=tmp_path / "hops", rows=rows)
    assert [item.name for item in tmp_path.iterdir()] == ["store"]


class Stop(BaseException):
    """Stands for a kill: nothing in the code catches it."""


def stop_after(monkeypatch, count):
    """Stop when the journal is about to get its `count`-th line."""
    append = WorkFolder._append
    seen = []

    def counting(self, line):
        if len(seen) == count:
            raise Stop
        seen.append(line)
        append(self, line)

    monkeypatch.setattr(WorkFolder, "_append", counting)


@pytest.mark.parametrize(
    ("rows", "slots"), [("all", None), ("labeled", 0), ("labeled", 1), ("labeled", 2)]
)
def test_work_that_is_stopped_anywhere_goes_on_to_the_same_bytes(
    tmp_path, tiny, monkeypatch, rows, slots
):
    graph = stored(tmp_path, nodes=140, edges=900)
    block_of(monkeypatch, 16)
    plan = disk_plan.DiskRequest.plan
    monkeypatch.setattr(
        disk_plan.DiskRequest,
        "plan",
        lambda *a, **k: replace(plan(*a, **k), state_slots=slots),
    )
    expected = np.asarray(propagate(graph, 3, hop_scale="unit", rows=rows))
    for count in range(2, 200):
        with pytest.MonkeyPatch.context() as patch:
            stop_after(patch, 5 if count % 2 else count)
            try:
                made = propagate(
                    graph, 3, hop_scale="unit", out=tmp_path / "hops", rows=rows, threads=2
                )
            except Stop:
                continue
            break
    assert np.array_equal(np.asarray(made), expected)
    verify(tmp_path / "hops")


def test_work_that_is_stopped_after_its_result_has_its_name_begins_again(tmp_path, monkeypatch):
    """The old result, under the name of the new one in the work folder, is removed first."""
    graph = stored(tmp_path, nodes=140, edges=900)
    expected = np.asarray(propagate(graph, 3))
    propagate(graph, 2, out=tmp_path / "hops")
    publish = artifact.publish_folder

    def stopped(*folders):
        publish(*folders)
        raise Stop

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(artifact, "publish_folder", stopped)
        with pytest.raises(Stop):
            propagate(graph, 3, out=tmp_path / "hops", overwrite=True)
    assert (tmp_path / ".hops.work").exists()
    made = propagate(graph, 3, out=tmp_path / "hops", overwrite=True)
    assert np.array_equal(np.asarray(made), expected)


def interrupted(graph, path, lines, **asked):
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, 1 + lines)  # the first line is the identity
        with pytest.raises(Stop):
            propagate(graph, 3, out=path, **asked)


def test_finished_hops_are_not_computed_again(tmp_path, monkeypatch):
    graph = stored(tmp_path)
    interrupted(graph, tmp_path / "hops", 3)  # the header and hops 1 and 2
    passes = []
    product = blocks.product_by_chunks
    monkeypatch.setattr(
        blocks, "product_by_chunks", lambda *a, **k: passes.append(1) or product(*a, **k)
    )
    made = propagate(graph, 3, out=tmp_path / "hops")
    assert len(passes) == 1
    assert np.array_equal(np.asarray(made), np.asarray(propagate(graph, 3)))


@pytest.mark.parametrize("damage", ["alter", "truncate", "remove"])
@pytest.mark.parametrize("name", ["part-0-1", "part-0-2"])
@pytest.mark.parametrize("rows", ["all", "labeled"])
def test_a_damaged_part_is_made_again(tmp_path, damage, name, rows):
    graph = stored(tmp_path)
    asked = {"rows": rows}
    interrupted(graph, tmp_path / "hops", 3 if rows == "all" else 5, **asked)
    file = tmp_path / ".hops.work" / name
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    {
        "alter": lambda: file.write_bytes(data),
        "truncate": lambda: file.write_bytes(data[:-1]),
        "remove": file.unlink,
    }[damage]()
    if damage == "alter":
        with pytest.warns(UserWarning, match="had changed"):
            made = propagate(graph, 3, out=tmp_path / "hops", **asked)
    else:
        made = propagate(graph, 3, out=tmp_path / "hops", **asked)
    assert np.array_equal(np.asarray(made), np.asarray(propagate(graph, 3, rows=rows)))


def test_a_part_that_is_damaged_during_assembly_is_made_again(tmp_path, tiny):
    graph = stored(tmp_path)
    interrupted(graph, tmp_path / "hops", 6)  # the header, three parts, and two stretches
    file = tmp_path / ".hops.work" / "part-0-2"
    assert 0 < file.stat().st_size < 300 * 40 * 4
    data = bytearray(file.read_bytes())
    data[0] ^= 1
    file.write_bytes(data)
    with pytest.warns(UserWarning, match="had changed"):
        made = propagate(graph, 3, out=tmp_path / "hops")
    assert np.array_equal(np.asarray(made), np.asarray(propagate(graph, 3)))


@pytest.mark.filterwarnings("ignore:.*had changed")
def test_a_disk_that_keeps_nothing_is_told_instead_of_written_to_forever(tmp_path, monkeypatch):
    graph = stored(tmp_path)
    monkeypatch.setattr(joiner, "slab_checksum", lambda rows: -1)
    with pytest.raises(StoreError, match=r"part-0-[12]` was written twice, and was not what was"):
        propagate(graph, 3, out=tmp_path / "hops", threads=1)


def test_no_more_stretches_are_on_their_way_than_the_plan_has_disk_for(tmp_path, tiny, monkeypatch):
    graph = stored(tmp_path)
    block_of(monkeypatch, 16)
    begun, most = [], []
    join, record = joiner.Joiner.join, pieces.Pieces.record_assembled

    def joining(self, stretch):
        begun.append(stretch)
        most.append(len(begun))
        return join(self, stretch)

    def recorded(self, chunk, digests):
        begun.pop()
        record(self, chunk, digests)

    monkeypatch.setattr(joiner.Joiner, "join", joining)
    monkeypatch.setattr(pieces.Pieces, "record_assembled", recorded)
    made = propagate(graph, 3, out=tmp_path / "hops")
    assert len(most) > 5
    assert max(most) == joining_plan.ON_THEIR_WAY
    assert np.array_equal(np.asarray(made), np.asarray(propagate(graph, 3)))


def test_parts_are_cut_as_soon_as_their_rows_are_in_the_result(tmp_path, tiny, monkeypatch):
    graph = stored(tmp_path)
    block_of(monkeypatch, 16)
    work, record = tmp_path / ".hops.work", pieces.Pieces.record_assembled
    used = []

    def recorded(self, chunk, digests):
        parts = sum(file.stat().st_size for file in work.glob("part-*"))
        record(self, chunk, digests)
        used.append((chunk, parts))

    monkeypatch.setattr(pieces.Pieces, "record_assembled", recorded)
    propagate(graph, 3, out=tmp_path / "hops")
    slab = 24 * 640  # rows, of so many bytes in the result, under one checksum
    for (chunk, _), (_, parts) in itertools.pairwise(used):
        # Of hop 0 there are no parts.
        assert chunk * 4096 * 3 / 4 <= parts + 1 <= (chunk * 4096 + slab) * 3 / 4 + 1


def test_stretches_before_ones_that_did_not_reach_the_disk_are_not_noted(
    tmp_path, tiny, monkeypatch
):
    graph, noted, synced = stored(tmp_path), [], []
    block_of(monkeypatch, 16)
    record, sync = pieces.Pieces.record_assembled, sequential_writer.SequentialWriter.sync

    def recorded(self, chunk, digests):
        noted.append(chunk)
        record(self, chunk, digests)

    def syncing(self):
        if self._path.name == "hops.npy":
            synced.append(self._path)
            if len(synced) == 3:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(self)

    with monkeypatch.context() as patch:
        patch.setattr(pieces.Pieces, "record_assembled", recorded)
        patch.setattr(sequential_writer.SequentialWriter, "sync", syncing)
        with pytest.raises(StoreError, match="Input/output error"):
            propagate(graph, 3, out=tmp_path / "hops")
    assert len(noted) == 2
    monkeypatch.setattr(blocks.Blocks, "compute", None)  # finished parts are there
    made = propagate(graph, 3, out=tmp_path / "hops")
    assert np.array_equal(np.asarray(made), np.asarray(propagate(graph, 3)))


@settings(max_examples=200)
@given(
    shape=st.tuples(st.integers(0, 60), st.integers(1, 4), st.integers(0, 9)),
    slab_rows=st.integers(1, 20),
    chunk=st.sampled_from([64, 100, 128, 500]),
    chunks=st.integers(1, 5),
    cut=st.integers(0, 60),
)
def test_stretches_have_every_byte_once_and_all_rows_that_they_are_of(
    shape, slab_rows, chunk, chunks, cut
):
    rows, matrices, columns = shape
    edge = cut // slab_rows * slab_rows
    cuts = Cuts([(0, edge), (edge, rows)] if 0 < edge < rows else [(0, rows)])
    with pytest.MonkeyPatch.context() as patch:
        chunks_of(patch, chunk)
        whole = layout.Layout(
            shape, np.dtype(np.float32), [slice(0, columns)], True, None, cuts, slab_rows
        )
        row_bytes = 4 * matrices * columns
        assert whole.chunks == -(-rows * row_bytes // chunk)
        bounds = sorted({*range(0, whole.chunks, chunks), whole.chunks})
        pairs = list(itertools.pairwise(bounds))
        ends = {pair: pair[1] == whole.chunks for pair in pairs}
        written = {pair: whole.written(*pair, is_end=is_end) for pair, is_end in ends.items()}
        for found in ([whole.hashed(*pair) for pair in pairs], written.values()):
            assert [byte for each in found for byte in range(*each)] == [
                *range(rows * row_bytes if pairs else 0)
            ]
        for (first, last), (begin, end) in written.items():
            assert begin == 0 or (begin + len(whole.header)) % chunk == 0
            hashed = whole.hashed(first, last)
            assert whole.written(first, last, is_end=True)[1] == hashed[1]
            start, stop = whole.rows(first, last)
            assert start % slab_rows == 0
            assert stop % slab_rows == 0 or stop == rows
            assert start * row_bytes <= min(begin, hashed[0])
            assert max(end, hashed[1]) <= stop * row_bytes
            assert stop == whole.rows_before(last) >= whole.rows_before(first)
            read = [
                (int(place), row)
                for name, slabs in whole.reads(first, last)
                for place, number in [[*name.split("-"), "0"][2:4]]
                for row in range(slabs.start * slab_rows, slabs.stop * slab_rows)
                for row in [row + cuts.ranges[int(number)][0]]
                if row < cuts.ranges[int(number)][1]
            ]
            assert sorted(read) == [
                (place, row) for place in range(matrices) for row in range(start, stop)
            ]


def test_a_disk_that_does_not_answer_loses_no_part(tmp_path, tiny, monkeypatch):
    graph, stream = stored(tmp_path), joiner.FileRows.stream

    def fails(self, *arguments):
        if not self._region.path.name.startswith("part-"):
            return stream(self, *arguments)
        try:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        except OSError:
            raise StoreError("`part` cannot be read: Input/output error") from None

    with monkeypatch.context() as patch:
        patch.setattr(joiner.FileRows, "stream", fails)
        with pytest.raises(StoreError, match="cannot be read"):
            propagate(graph, 3, out=tmp_path / "hops")
    monkeypatch.setattr(blocks.Blocks, "compute", None)  # finished parts are there
    made = propagate(graph, 3, out=tmp_path / "hops")
    assert np.array_equal(np.asarray(made), np.asarray(propagate(graph, 3)))


def test_few_parts_are_open_at_once(tmp_path, tiny, monkeypatch):
    graph, most = stored(tmp_path, nodes=130, edges=600), []
    block_of(monkeypatch, 3)  # 14 blocks of 3 hops
    part = joiner.Joiner._part

    def opened(self, *arguments):
        found = part(self, *arguments)
        most.append(len(self._parts))
        return found

    monkeypatch.setattr(joiner.Joiner, "_part", opened)
    made = propagate(graph, 3, out=tmp_path / "hops")
    assert max(most) <= joiner.OPEN_PARTS < 42
    assert np.array_equal(np.asarray(made), np.asarray(propagate(graph, 3)))


def test_bytes_that_no_digest_was_made_of_are_written_again(tmp_path, tiny):
    """The header shifts pages: the last stretch begins in a chunk that is hashed by the one before.

    What lies there when the work resumes is not known to be what was written.
    """
    graph = stored(tmp_path)
    interrupted(graph, tmp_path / "hops", 6)  # the header, three parts, and two stretches
    file = tmp_path / ".hops.work" / "result" / "hops.npy"
    names = (tmp_path / ".hops.work" / "journal.jsonl").read_text()
    chunk = min(int(text.split('"')[0]) for text in names.split("assembled from chunk ")[1:])
    assert chunk > 0
    with file.open("r+b") as stream:
        stream.seek(chunk * 4096)  # the first page of the last stretch, whose data begin later
        stream.write(b"?" * 128)
    made = propagate(graph, 3, out=tmp_path / "hops")
    verify(tmp_path / "hops")
    assert np.array_equal(np.asarray(made), np.asarray(propagate(graph, 3)))


def test_work_whose_half_made_result_is_gone_begins_again(tmp_path, tiny):
    graph = stored(tmp_path)
    interrupted(graph, tmp_path / "hops", 6)
    (tmp_path / ".hops.work" / "result" / "hops.npy").unlink()
    made = propagate(graph, 3, out=tmp_path / "hops")
    assert np.array_equal(np.asarray(made), np.asarray(propagate(graph, 3)))


@pytest.mark.parametrize("change", ["norm", "features", "rows"])
def test_work_on_something_else_is_not_gone_on_with(tmp_path, change):
    graph = stored(tmp_path)
    interrupted(graph, tmp_path / "hops", 3)
    asked = {"out": tmp_path / "hops"}
    if change == "norm":
        asked["norm"] = "row"
    elif change == "features":
        asked["features"] = np.asarray(graph.features) + 1
    else:
        asked["rows"] = "labeled"
    made = propagate(graph, 3, **asked)
    del asked["out"]
    assert np.array_equal(np.asarray(made), np.asarray(propagate(graph, 3, **asked)))


def test_a_line_of_the_journal_that_was_cut_short_is_not_believed(tmp_path):
    graph = stored(tmp_path)
    interrupted(graph, tmp_path / "hops", 3)
    journal = tmp_path / ".hops.work" / "journal.jsonl"
    journal.write_bytes(journal.read_bytes()[:-3])
    made = propagate(graph, 3, out=tmp_path / "hops")
    assert np.array_equal(np.asarray(made), np.asarray(propagate(graph, 3)))


def test_another_budget_goes_on_with_the_blocks_of_before_if_they_fit(tmp_path, monkeypatch):
    graph = stored(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        block_of(patch, 16)
        interrupted(graph, tmp_path / "hops", 3)
    seen = []
    replayed = out_of_core.OutOfCore.run
    monkeypatch.setattr(
        out_of_core.OutOfCore,
        "run",
        lambda self, file: seen.append(self.plan) or replayed(self, file),
    )
    made = propagate(graph, 3, out=tmp_path / "hops")
    assert seen[0].block_columns == 16
    assert np.array_equal(np.asarray(made), np.asarray(propagate(graph, 3)))


@pytest.mark.parametrize("writes", [1, 3, 6, 20])
@pytest.mark.parametrize("rows", ["all", "labeled"])
def test_a_full_disk_is_one_sentence_and_the_work_goes_on_later(
    tmp_path, tiny, monkeypatch, writes, rows
):
    graph = stored(tmp_path, nodes=140, edges=900)
    seen = []

    def fails(function):
        def writing(*arguments):
            seen.append(1)
            if len(seen) > writes:
                raise OSError(28, "No space left on device")
            return function(*arguments)

        return writing

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", fails(os.write))
        patch.setattr(os, "pwrite", fails(os.pwrite))
        with pytest.raises(StoreError, match="disk is too full") as caught:
            propagate(graph, 3, out=tmp_path / "hops", rows=rows)
    assert len(str(caught.value).splitlines()) == 3
    assert not (tmp_path / "hops").exists()
    made = propagate(graph, 3, out=tmp_path / "hops", rows=rows)
    assert np.array_equal(np.asarray(made), np.asarray(propagate(graph, 3, rows=rows)))


def test_numbers_that_float16_cannot_hold_leave_nothing(tmp_path):
    graph = stored(tmp_path)
    features = np.full((300, 2), 7e4, np.float32)
    with pytest.raises(ConfigError, match="65504"):
        propagate(graph, 1, dtype="float16", features=features, out=tmp_path / "hops")
    assert [item.name for item in tmp_path.iterdir()] == ["store"]


def test_two_processes_do_not_work_on_the_same(tmp_path):
    graph = stored(tmp_path)
    with (
        WorkFolder(tmp_path / "hops", "another"),
        pytest.raises(StoreError, match="Another process"),
    ):
        propagate(graph, 1, out=tmp_path / "hops")


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_budget_that_a_refusal_names_is_enough(tmp_path, dtype):
    graph = stored(tmp_path)
    with pytest.raises(MemoryBudgetError, match="interpreter") as caught:
        propagate(graph, 2, dtype=dtype, out=tmp_path / "hops", memory="1MiB")
    named = str(caught.value.hint).split("`")[1]
    made = propagate(graph, 2, dtype=dtype, out=tmp_path / "hops", memory=named)
    assert np.array_equal(np.asarray(made), np.asarray(propagate(graph, 2, dtype=dtype)))


def test_a_disk_that_is_too_small_is_refused_and_named(tmp_path):
    graph = stored(tmp_path)
    with pytest.raises(StoreError, match="on disk") as caught:
        propagate(graph, 2, out=tmp_path / "hops", disk=1000)
    assert [item.name for item in tmp_path.iterdir()] == ["store"]
    named = str(caught.value).split(" take ")[1].split(" on disk")[0]
    assert propagate(graph, 2, out=tmp_path / "hops", disk=named).count == 3


def test_a_plan_counts_states_and_blocks(tmp_path, monkeypatch):
    graph = stored(tmp_path, columns=100)
    config = PropagationConfig(hops=2, dtype="float16")
    request = disk_plan.DiskRequest(graph, config, graph.features, np.arange(70))
    roomy = request.plan(tmp_path / "hops")
    assert (roomy.block_columns, roomy.blocks, roomy.passes) == (100, 1, 2)
    assert roomy.disk_bytes == 70 * 3 * 100 * 2
    assert roomy.state_slots == 0  # begun again within the time that is worth a state
    monkeypatch.setattr(disk_plan, "STATE_SECONDS", 0)
    roomy = request.plan(tmp_path / "hops")
    state = 300 * 100 * 2
    least = roomy.work_bytes - 2 * state
    for room, slots in ((0, 0), (state, 1), (2 * state, 2), (5 * state, 2)):
        assert replace(request, disk=least + room).plan(tmp_path / "hops").state_slots == slots
    assert replace(request, rows=None).plan(tmp_path / "hops").state_slots is None


def test_blocks_are_whole_cache_lines_and_of_even_width():
    assert disk_plan.block_widths(128, 32) == [128, 64, 48, 32, 16]
    assert disk_plan.block_widths(100, 16) == [100, 64, 48, 32, 16]
    assert disk_plan.block_widths(7, 16) == [7]
    assert disk_plan.block_widths(0, 16) == [0]


SCRIPT = """
import sys
from scr.graph import open_store
from scr.propagation import propagate
from scr.compute import peak_bytes
path, out, hops, dtype, memory, rows = sys.argv[1:]
propagate(
    open_store(path), int(hops), dtype=dtype, memory=int(memory), rows=rows, out=out, threads=1
)
print(peak_bytes())
"""


def large_store(path, *, nodes, edges, columns):
    rng = np.random.default_rng(0)
    ends = (nodes * rng.random((2, edges)) ** 2).astype(np.int32)
    graph = Graph.from_edges(ends, num_nodes=nodes, class_names=("0",))
    features = rng.standard_normal((nodes, columns), dtype=np.float32)
    return store.write_store(
        replace(graph, features=features, labels=np.where(np.arange(nodes) % 50, -1, 0)), path
    )


@pytest.mark.skipif(sys.platform != "linux", reason="counts memory as Linux does")
def test_the_whole_process_stays_within_its_budget(tmp_path):
    path = large_store(tmp_path / "store", nodes=300_000, edges=1_500_000, columns=64)
    result, budget = 300_000 * 64 * 4 * 11, 400 * 2**20
    assert budget < result / 2
    arguments = [path, tmp_path / "hops", "10", "float32", str(budget), "all"]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert int(done.stdout) < budget


@pytest.mark.parametrize("rows", ["all", "labeled"])
@campaigns.seeds(20)
def test_killed_again_and_again_the_same_bytes_come_out(tmp_path, rows, seed):
    path = large_store(tmp_path / "store", nodes=60_000, edges=400_000, columns=64)
    command = [
        sys.executable, "-c", SCRIPT, str(path), str(tmp_path / "hops"), "5", "float16",
        str(2**34), rows,
    ]  # fmt: skip
    waits = np.random.default_rng(seed).uniform(0, 0.05, 3 if seed else 2)
    journal = tmp_path / ".hops.work" / "journal.jsonl"
    for kill, wait in enumerate(waits):
        print(f"killed {wait:.4f} s after line {2 * kill + 1} of the journal")
        process = subprocess.Popen(command)
        # From the first line on, so that there is something to go on with.
        while process.poll() is None and not (
            journal.exists() and len(journal.read_bytes().splitlines()) > 2 * kill
        ):
            time.sleep(0.001)
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run(command, check=True, timeout=120, capture_output=True)
    made = type(propagate(stored(tmp_path, name="other"), 0)).open(tmp_path / "hops")
    expected = propagate(load_graph(str(path)), 5, dtype="float16", rows=rows)
    assert np.array_equal(np.asarray(made), np.asarray(expected))
    verify(tmp_path / "hops")
