"""Edges sorted in buckets of rows are those that are sorted all at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scr.errors import GraphError, SourceError
from scr.graph._edges import compress_edges
from scr.ingest._row_buckets import (
    Buckets,
    RowRules,
    bucket_ranges,
    count_units,
    plain_ends,
)
from scr.sources import as_edge_source
from scr.sources._edge_source import ArrayEdges, FileEdges, JoinedEdges
from scr.storage import FileRegion


@st.composite
def edge_lists(draw):
    nodes = draw(st.integers(1, 40))
    count = draw(st.integers(0, 120))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    # Cubed, so that the first nodes have most of the edges.
    edges = (generator.random((2, count)) ** 3 * nodes).astype(
        draw(st.sampled_from([np.int16, np.int32, np.uint32, np.int64]))
    )
    rules = RowRules(
        num_nodes=nodes,
        both=draw(st.booleans()),
        keep_loops=draw(st.booleans()),
        bits=draw(st.integers(0, 4)),
        chunk_edges=draw(st.integers(1, 50)),
        threads=draw(st.integers(1, 3)),
    )
    return edges, rules


def joined(pieces):
    """All rows, as offsets, targets and the number of different listed directions."""
    rows = [(piece.degrees, piece.targets.copy(), piece.listed) for piece in pieces]
    degrees, targets = (np.concatenate([each[part] for each in rows]) for part in (0, 1))
    return np.append(0, np.cumsum(degrees)), targets, sum(each[2] for each in rows)


def assert_as_in_memory(edges, rules, found):
    indptr, targets, listed = found
    loops = "keep" if rules.keep_loops else "drop"
    expected = compress_edges(
        edges[0], edges[1], rules.num_nodes, undirected=rules.both, self_loops=loops
    )
    np.testing.assert_array_equal(indptr, expected.indptr)
    np.testing.assert_array_equal(targets, expected.indices)
    assert targets.dtype == expected.indices.dtype
    kept = {(s, t) for s, t in edges.T.tolist() if rules.keep_loops or s != t}
    assert listed == len(kept)


@given(edge_lists(), st.integers(1, 200))
def test_rows_of_buckets_are_those_of_memory(tmp_path_factory, listed, keys):
    edges, rules = listed
    source = ArrayEdges(edges)
    counts = count_units(source, rules)
    assert counts.loops == np.count_nonzero(edges[0] == edges[1])
    ranges = bucket_ranges(counts.directions, keys)
    buckets = Buckets(tmp_path_factory.mktemp("buckets"), rules, ranges)
    buckets.fill(source, counts.directions)
    assert_as_in_memory(edges, rules, joined(buckets.rows()))


@given(st.lists(st.integers(0, 50), min_size=1), st.integers(0, 200), st.data())
def test_buckets_cover_all_units_once_and_fit_unless_one_unit_does_not(counts, keys, data):
    boundary = data.draw(st.integers(0, len(counts) - 1))
    ranges = bucket_ranges(np.array(counts), keys, boundary=boundary)
    assert [unit for first, last in ranges for unit in range(first, last)] == [*range(len(counts))]
    assert boundary in [first for first, _ in ranges]
    for first, last in ranges:
        assert last - first == 1 or sum(counts[first:last]) <= keys
    # As few as can be: no bucket could have taken the next unit as well.
    for first, last in ranges[:-1]:
        assert last == boundary or sum(counts[first : last + 1]) > keys


@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("bad", [-1, 10, 2**31 - 1, -(2**31)])
def test_the_first_edge_outside_the_graph_is_named_by_its_number(end, bad):
    edges = np.zeros((2, 3000), np.int32)
    edges[end, 1234] = edges[end, 2900] = bad
    rules = RowRules(num_nodes=10, chunk_edges=100)
    with pytest.raises(GraphError, match=rf"^Edge 1,234 goes .* node {bad}\b"):
        count_units(ArrayEdges(edges), rules)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.uint16, np.int32, np.uint32, np.int64])
def test_node_numbers_become_plain_without_loss(dtype):
    chunk = np.array([[0, np.iinfo(dtype).max], [1, 2]], dtype).T.copy().T
    sources, targets = plain_ends(chunk)
    np.testing.assert_array_equal([sources, targets], chunk.astype(np.int64))
    assert sources.dtype in (np.int32, np.int64)
    assert sources.flags.c_contiguous


def test_files_of_both_layouts_give_the_same_edges(tmp_path):
    edges = np.arange(14, dtype=np.int64).reshape(2, 7)
    np.save(tmp_path / "rows.npy", edges)
    np.save(tmp_path / "pairs.npy", edges.T.copy())
    np.save(tmp_path / "fortran.npy", np.asfortranarray(edges))
    rows = as_edge_source(np.load(tmp_path / "rows.npy", mmap_mode="r"))
    pairs = as_edge_source(np.load(tmp_path / "pairs.npy", mmap_mode="r").T)
    fortran = as_edge_source(np.load(tmp_path / "fortran.npy", mmap_mode="r"))
    for source in (rows, pairs, fortran):
        assert isinstance(source, FileEdges)
        np.testing.assert_array_equal(np.asarray(source), edges)
        np.testing.assert_array_equal(np.concatenate([*source.chunks(3)], axis=1), edges)
    both = JoinedEdges([rows, pairs])
    np.testing.assert_array_equal(np.asarray(both), np.concatenate([edges, edges], axis=1))
    assert both.shape == (2, 14)


def test_a_file_that_became_shorter_is_told(tmp_path):
    file = tmp_path / "edges.bin"
    np.zeros((2, 5), np.int32).tofile(file)
    region = FileRegion(file, 0, (2, 6), np.dtype(np.int32))
    with pytest.raises(SourceError, match=r"cannot be read: \d+ bytes are missing"):
        np.asarray(FileEdges(region, is_pairs=False))
