"""Rows by node number: in memory or on disk, of all nodes or of some, batch by batch."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from scr.errors import GraphError
from scr.training import Rows, positions_of

KEPT = np.array([2, 3, 17, 40, 41, 99])


def made(tmp_path, *, on_disk, dtype, kept=None):
    count = 30 if kept is None else len(kept)
    generator = np.random.default_rng(1)
    hops = generator.standard_normal((count, 3, 5)).astype(dtype)
    labels = generator.random((count, 2, 4), dtype=np.float32)
    if on_disk:
        np.save(tmp_path / f"{dtype}.npy", hops)
        hops = np.load(tmp_path / f"{dtype}.npy", mmap_mode="r")
    return Rows(hops, 4, labels, kept=kept)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("on_disk", [False, True])
@given(batches=st.lists(st.lists(st.integers(0, 29), min_size=1, max_size=9), max_size=7))
def test_streamed_batches_are_the_rows_asked_for(tmp_path_factory, on_disk, dtype, batches):
    rows = made(tmp_path_factory.getbasetemp(), on_disk=on_disk, dtype=dtype)
    assert rows.on_disk == on_disk
    indices = [torch.tensor(batch) for batch in batches]
    streamed = list(rows.stream(indices, lambda index: index))
    assert [item.tolist() for item, _ in streamed] == batches
    for index, batch in streamed:
        expected = np.asarray(rows.hops)[index.numpy()].astype(np.float32)
        assert batch.hops.dtype == torch.float32
        np.testing.assert_array_equal(batch.hops.numpy(), expected)
        np.testing.assert_array_equal(batch.labels.numpy(), rows.labels[index.numpy()])


@pytest.mark.parametrize("on_disk", [False, True])
def test_nodes_are_found_among_those_kept(tmp_path, on_disk):
    rows = made(tmp_path, on_disk=on_disk, dtype="float16", kept=KEPT)
    assert rows.nodes().tolist() == KEPT.tolist()
    batch = rows.batch(torch.tensor([99, 2, 17, 17]))
    np.testing.assert_array_equal(batch.hops, rows.hops[[5, 0, 2, 2]].astype(np.float32))
    np.testing.assert_array_equal(batch.labels, rows.labels[[5, 0, 2, 2]])


@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize("node", [0, 18, 100])
def test_a_node_without_hops_is_one_sentence(tmp_path, on_disk, node):
    rows = made(tmp_path, on_disk=on_disk, dtype="float32", kept=KEPT)
    with pytest.raises(GraphError, match=rf"Node {node} has no hops; they were kept for 6 nodes"):
        list(rows.stream([torch.tensor([2]), torch.tensor([99, node])], lambda index: index))


@given(st.sets(st.integers(0, 200), min_size=1), st.data())
def test_positions_are_where_the_nodes_are(kept, data):
    kept = np.array(sorted(kept))
    nodes = data.draw(st.lists(st.sampled_from(kept.tolist())))
    found = positions_of(np.array(nodes, dtype=np.int64), kept)
    assert found.tolist() == [kept.tolist().index(node) for node in nodes]


def test_as_many_numbers_of_nodes_as_rows_are_expected():
    with pytest.raises(GraphError, match="2 rows of numbers of nodes; expected 3"):
        Rows(np.zeros((3, 1, 1), np.float32), 2, kept=np.array([0, 5]))
