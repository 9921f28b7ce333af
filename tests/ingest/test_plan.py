"""Plans are arithmetic on sizes: what fits, what is refused."""

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scr.config import parse_bytes
from scr.errors import MemoryBudgetError, StoreError
from scr.ingest import _plan as ingest_plan
from scr.ingest._plan import LARGE_EDGES, MARGIN_BYTES, IngestSize, plan_ingest

GIB, TERABYTE = 2**30, 10**12
PAPERS = IngestSize(
    nodes=111_059_956,
    edges=1_615_685_872,
    read_seconds=1_615_685_872 * 8 / 1.8e9,
    node_bytes=2 * 8 * 111_059_956,
    feature_source_bytes=111_059_956 * 256,
)
"""ogbn-papers100M with linked float16 features and 32-bit edges."""
SMALL = IngestSize(nodes=1000, edges=5000)


def plan(size, budget, *, resident=160 << 20, free_disk=TERABYTE):
    return plan_ingest(size, budget=budget, resident=resident, free_disk=free_disk)


def test_more_than_two_to_the_31_directions_are_planned_exactly():
    made = plan(PAPERS, 16 * GIB)
    # By hand: 4 bytes for each of 3,231,371,744 directions, 8 for each offset and node number.
    assert made.final_bytes == 4 * 3_231_371_744 + 8 * 111_059_957 + 16 * 111_059_956
    assert made.method == "buckets"
    # 8 bytes each in buckets, half of which the rows take over after the first GiB of them.
    assert made.temporary_bytes == 4 * 3_231_371_744 + 2**30 + 2**26
    # 40 bytes for each node are more than the buckets and chunks take.
    assert 40 * 111_059_956 < made.memory_bytes < 5 * GIB
    assert made.chunk_edges == 1 << 21


def test_a_graph_that_fits_goes_through_memory_and_a_large_one_never_does():
    assert plan(SMALL, GIB).method == "memory"
    large = dataclasses.replace(SMALL, edges=LARGE_EDGES, nodes=10**6)
    assert plan(large, 100 * GIB).method != "memory"
    assert plan(dataclasses.replace(large, edges=LARGE_EDGES - 1), 100 * GIB).method == "memory"


def test_rows_that_are_too_long_for_buckets_of_many_threads_leave_memory_if_that_fits(monkeypatch):
    monkeypatch.setattr(ingest_plan, "default_threads", lambda: 64)
    dense = dataclasses.replace(SMALL, edges=20_000_000, nodes=8_000)
    # Two units of 1024 rows, in every thread: 2 * 40,000,000 * 1024 / 8000 * 8 * 65 = 5.3 GB.
    assert plan(dense, 4 * GIB).method == "memory"
    assert plan(dense, 8 * GIB).method == "buckets"


def test_a_disk_without_room_for_buckets_leaves_memory_if_that_fits():
    short = PAPERS.final_bytes + 4 * 3_231_371_744 + 2**30 + 2**26 - 1
    assert plan(PAPERS, 300 * GIB, free_disk=short + 1).method == "buckets"
    assert plan(PAPERS, 300 * GIB, free_disk=short).method == "memory"
    with pytest.raises(StoreError, match=r"of disk, and 13\.11GiB while it is made; "):
        plan(PAPERS, 16 * GIB, free_disk=short)


def test_a_disk_without_room_for_the_store_is_refused():
    with pytest.raises(StoreError, match=r"takes up to 14\.\d\dGiB of disk; 10\.00GiB are free"):
        plan(PAPERS, 16 * GIB, free_disk=10 * GIB)
    copied = dataclasses.replace(PAPERS, feature_store_bytes=PAPERS.feature_source_bytes)
    with pytest.raises(StoreError, match="link the features instead of copying"):
        plan(copied, 16 * GIB, free_disk=30 * GIB)
    with pytest.raises(StoreError, match="The store `papers` takes up to"):
        plan_ingest(PAPERS, budget=16 * GIB, resident=0, free_disk=GIB, store=Path("papers"))


sizes = st.builds(
    IngestSize,
    nodes=st.integers(1, 2**31 - 1),
    edges=st.integers(0, 2**36),
    both=st.booleans(),
    edge_bytes=st.sampled_from([8, 16]),
    read_seconds=st.floats(0, 1e4),
)


@given(sizes, st.integers(2**20, 2**38))
def test_a_plan_keeps_the_budget_or_names_one_that_works(size, budget):
    room = {"free_disk": 2**62}
    try:
        made = plan(size, budget, **room)
    except MemoryBudgetError as error:
        named = parse_bytes(error.hint.split("`")[1])
        assert named > budget
        made = plan(size, named, **room)
        budget = named
    assert made.memory_bytes <= budget
    assert made.method == "memory" or made.room() > 0


def test_what_works_in_memory_only_is_refused_with_its_reason():
    weighted = dataclasses.replace(PAPERS, memory_only="edges with weights")
    with pytest.raises(MemoryBudgetError, match="Sorting edges with weights takes") as error:
        plan(weighted, 16 * GIB)
    assert "`2" in error.value.hint  # more than 200 GiB


def test_what_the_process_holds_already_counts():
    least = 160 << 20
    with pytest.raises(MemoryBudgetError):
        plan(SMALL, least + MARGIN_BYTES, resident=least)
    assert plan(SMALL, GIB, resident=0).memory_bytes < plan(SMALL, GIB, resident=least).memory_bytes
