from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.propagation.graphs import reference_hops
from tests.propagation.typed_graphs import (
    RELATIONS,
    dense_step,
    dense_subset,
    random_typed,
    row_mean,
    typed_graphs,
)

from scr.errors import ConfigError, GraphError, MemoryBudgetError
from scr.graph import Graph
from scr.graph import _edge_selection as edge_selection
from scr.propagation import (
    PropagationConfig,
    cached_hops_path,
    kept_rows,
    load_cached_hops,
    plan_propagation,
    propagate,
    propagate_mixture,
)
from scr.propagation import _steps as steps_module
from scr.propagation._cache import hops_key
from scr.propagation._subsets import draw_subsets
from scr.propagation.disk import _blocks as blocks
from scr.propagation.disk import _edge_chunks as edge_chunks
from scr.propagation.disk import _plan as disk_plan
from scr.propagation.kernel import _rows as rows_module
from scr.sources import load_graph
from scr.storage import WorkFolder, verify

WRITES, CITES, EXTENDS, AFFILIATED, TOPIC = RELATIONS
SUBSETS = ((CITES, EXTENDS), (WRITES, AFFILIATED), RELATIONS)


@pytest.fixture
def tiny(monkeypatch):
    """Hubs, chunks, parts and slabs so small that a small graph has many of each."""
    monkeypatch.setattr(rows_module, "HUB_EDGES", 7)
    monkeypatch.setattr(rows_module, "TASK_COST", 16)
    monkeypatch.setattr(edge_chunks, "CHUNK_EDGES", 20)
    monkeypatch.setattr(disk_plan, "CHUNK_EDGES", 20)
    monkeypatch.setattr(edge_selection, "STEP_EDGES", 50)
    monkeypatch.setattr(disk_plan, "SLAB_BYTES", (2000, 2000))
    monkeypatch.setattr(disk_plan, "SLAB_ROWS", 4)
    monkeypatch.setattr(steps_module, "PART_BYTES", 100)
    monkeypatch.setattr(steps_module, "PART_ROWS", 3)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # no power cut is tested here


def features_of(graph: Graph, width: int) -> np.ndarray:
    rng = np.random.default_rng(width)
    return rng.normal(size=(graph.num_nodes, width)).astype(np.float32)


def in_blocks_of(patch, columns):
    plan = disk_plan.DiskRequest.plan

    def narrow(*arguments, **keywords):
        return plan(*arguments, **{**keywords, "block_columns": columns})

    patch.setattr(disk_plan.DiskRequest, "plan", narrow)


def expected_hops(graph, features, subsets, hops):
    """Dense NumPy in float64: X, then the hops over each subset, of the target rows."""
    made = [features[:, None].astype(float)]
    for subset in subsets:
        operator = row_mean(dense_subset(graph, subset))
        made.append(reference_hops(operator, features, hops)[:, 1:])
    return np.concatenate(made, axis=1)[: graph.num_targets]


@given(graph=typed_graphs(), hops=st.integers(0, 3), seed=st.integers(0, 99),
       dtype=st.sampled_from(["float32", "float16"]))  # fmt: skip
def test_subset_hops_are_means_over_all_edges_of_the_subset_that_enter_a_node(
    graph, hops, seed, dtype
):
    subsets, features = draw_subsets(graph, 4, seed), features_of(graph, 5)
    made = propagate(graph, hops, features=features, subsets=subsets, dtype=dtype)
    assert made.shape == (graph.num_targets, 1 + 4 * hops, 5)
    assert made.nodes_kept is None
    tolerance = 1e-5 if dtype == "float32" else 1e-2
    expected = expected_hops(graph, features, subsets, hops)
    np.testing.assert_allclose(np.asarray(made), expected, atol=tolerance)


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    graph=typed_graphs(),
    norm=st.sampled_from(["row", "sym", "col"]),
    self_loops=st.booleans(),
    dtype=st.sampled_from(["float32", "float16"]),
    hop_scale=st.sampled_from(["none", "unit"]),
    block=st.sampled_from([2, 5]),
    some=st.booleans(),
    with_subsets=st.booleans(),
    threads=st.sampled_from([1, 3]),
)
def test_typed_hops_on_disk_are_those_in_memory_to_the_last_bit(
    tmp_path_factory, tiny, graph, norm, self_loops, dtype, hop_scale, block, some, with_subsets,
    threads,
):  # fmt: skip
    path = tmp_path_factory.mktemp("case")
    graph = load_graph(str(graph.save(path / "store")))
    rows = [0, graph.num_targets - 1] if some else "all"
    asked = {
        "hops": 2, "norm": norm, "self_loops": self_loops, "dtype": dtype, "hop_scale": hop_scale,
        "features": features_of(graph, 5), "rows": rows, "threads": threads,
        "subsets": SUBSETS[:2] if with_subsets else None,
    }  # fmt: skip
    told = []
    with pytest.MonkeyPatch.context() as patch:
        in_blocks_of(patch, block)
        made = propagate(
            graph, **asked, out=path / "hops", on_progress=lambda *step: told.append(step)
        )
    expected = propagate(graph, **asked)
    assert np.array_equal(np.asarray(made), np.asarray(expected), equal_nan=True)
    assert (made.nodes_kept is None) == (expected.nodes_kept is None)
    walked = [step for step in told if step[0] == "Propagating"]
    assert walked[-1][1] == walked[-1][2]
    verify(path / "hops")
    assert sorted(item.name for item in path.iterdir()) == ["hops", "store"]


@settings(max_examples=25)
@given(graph=typed_graphs(), norm=st.sampled_from(["row", "sym"]))
def test_without_subsets_all_edges_of_a_typed_graph_are_alike(graph, norm):
    features = features_of(graph, 3)
    dense = dense_step(graph, list(range(2 * len(RELATIONS))))
    operator = row_mean(dense)
    if norm == "sym":
        degrees = dense.sum(axis=1)
        scale = np.where(degrees > 0, 1 / np.sqrt(np.where(degrees > 0, degrees, 1)), 0)
        operator = scale[:, None] * dense * scale
    expected = reference_hops(operator, features, 2)[: graph.num_targets]
    made = propagate(graph, 2, norm, features=features)
    np.testing.assert_allclose(np.asarray(made), expected, atol=1e-5)
    weights = [0.5, 0.25, 0.125]
    mixed = propagate_mixture(graph, weights, norm, features=features)
    np.testing.assert_allclose(mixed, np.einsum("nkf,k->nf", expected, weights), atol=1e-5)


def test_a_subset_of_all_relations_is_the_homogenised_graph():
    graph = random_typed(1)
    features = features_of(graph, 4)
    one = propagate(graph, 3, features=features, subsets=[graph.relations])
    other = propagate(graph, 3, "row", features=features)
    assert np.array_equal(np.asarray(one), np.asarray(other))


def test_blocks_of_columns_in_memory_change_nothing(monkeypatch):
    from scr.propagation import _engine as engine

    graph = random_typed(2)
    asked = {"features": features_of(graph, 9), "subsets": SUBSETS, "norm": "sym"}
    whole = np.asarray(propagate(graph, 2, **asked))
    monkeypatch.setattr(engine, "plan_propagation", lambda *_, **__: 4)
    assert np.array_equal(np.asarray(propagate(graph, 2, **asked)), whole)


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


@pytest.mark.parametrize("rows", ["all", "labeled"])
def test_subset_hops_that_are_stopped_anywhere_go_on_to_the_same_bytes(
    tmp_path, tiny, monkeypatch, rows
):
    graph = random_typed(3, papers=30, others=20, edges=80, weighted=True)
    graph = load_graph(str(graph.save(tmp_path / "store")))
    in_blocks_of(monkeypatch, 2)
    asked = {"features": features_of(graph, 4), "subsets": SUBSETS[:2], "rows": rows}
    expected = np.asarray(propagate(graph, 2, **asked))
    stopped = 0
    for count in range(2, 200):
        with pytest.MonkeyPatch.context() as patch:
            stop_after(patch, 4 if count % 2 else count)
            try:
                made = propagate(graph, 2, **asked, out=tmp_path / "hops", threads=2)
            except Stop:
                stopped += 1
                continue
            break
    assert stopped > 2
    assert np.array_equal(np.asarray(made), expected)
    verify(tmp_path / "hops")


def test_finished_subsets_are_not_walked_again(tmp_path, monkeypatch):
    graph = load_graph(str(random_typed(3).save(tmp_path / "store")))
    asked = {"features": features_of(graph, 4), "subsets": SUBSETS, "out": tmp_path / "hops"}
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, 5)  # the identity, the layout, X, and both hops of the first subset
        with pytest.raises(Stop):
            propagate(graph, 2, **asked)
    walked = []
    codes = blocks.relation_codes
    monkeypatch.setattr(blocks, "relation_codes", lambda *a: walked.append(a[1]) or codes(*a))
    propagate(graph, 2, **asked)
    assert walked == list(SUBSETS[1:])


def test_work_on_other_subsets_is_not_gone_on_with(tmp_path):
    graph = load_graph(str(random_typed(3).save(tmp_path / "store")))
    asked = {"features": features_of(graph, 4), "out": tmp_path / "hops"}
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, 5)
        with pytest.raises(Stop):
            propagate(graph, 2, **asked, subsets=SUBSETS)
    made = propagate(graph, 2, **asked, subsets=SUBSETS[::-1])
    del asked["out"]
    expected = propagate(graph, 2, **asked, subsets=SUBSETS[::-1])
    assert np.array_equal(np.asarray(made), np.asarray(expected))


def test_a_plan_counts_the_hops_of_target_rows_and_the_edges_of_a_subset(tmp_path):
    graph = random_typed(0, papers=40, others=20, edges=60)
    config = PropagationConfig(hops=2, norm="row")
    request = disk_plan.DiskRequest(graph, config, features_of(graph, 10), subsets=SUBSETS)
    plan = request.plan(tmp_path / "hops")
    assert (plan.rows, plan.passes, plan.state_slots) == (40, 6, 0)
    assert plan.disk_bytes == 40 * 7 * 10 * 4
    assert plan.work_bytes >= 2 * plan.disk_bytes + 4 * graph.num_edges
    with pytest.raises(MemoryBudgetError):
        plan_propagation(
            graph, config, 10, subsets=SUBSETS,
            memory=plan.disk_bytes + 2 * graph.num_nodes * 10 * 4,
        )  # fmt: skip


def test_the_budget_that_a_refusal_of_subset_hops_names_is_enough(tmp_path):
    graph = random_typed(0)
    asked = {"features": features_of(graph, 40), "subsets": SUBSETS}
    for place in (None, tmp_path / "hops"):
        with pytest.raises(MemoryBudgetError) as caught:
            propagate(graph, 2, **asked, out=place, memory=1000)
        named = str(caught.value.hint).split("`")[1]
        assert propagate(graph, 2, **asked, out=place, memory=named).shape == (12, 7, 40)


def test_rows_of_a_typed_graph_are_numbers_or_masks_of_target_nodes():
    graph = random_typed(0)
    assert kept_rows(graph, np.arange(12)) is None
    assert kept_rows(graph, np.ones(12, bool)) is None
    assert kept_rows(graph, np.arange(12) < 2).tolist() == [0, 1]
    assert len(kept_rows(graph, "labeled")) == 8
    with pytest.raises(GraphError, match="from 0 to 11"):
        kept_rows(graph, [12])


def test_hops_over_subsets_are_found_by_their_subsets(tmp_path):
    graph = load_graph(str(random_typed(0).save(tmp_path / "store")))
    config = PropagationConfig(hops=2, norm="row")
    features = features_of(graph, 4)
    for subsets in (SUBSETS, None):
        path = cached_hops_path(graph, config, subsets=subsets)
        propagate(graph, 2, "row", features=features, out=path, subsets=subsets)
    assert load_cached_hops(graph, config, subsets=SUBSETS).count == 7
    assert load_cached_hops(graph, config).count == 3
    assert load_cached_hops(graph, config, subsets=SUBSETS[::-1]) is None
    drawn_otherwise = replace(config, subsets=2, subset_seed=9)
    assert load_cached_hops(graph, drawn_otherwise).count == 3


def test_names_of_hops_of_graphs_without_types_stay_as_they_were():
    graph = Graph.from_edges(
        [[0, 1, 2], [1, 2, 3]],
        features=np.arange(8, dtype=np.float32).reshape(4, 2),
        labels=[0, 1, 0, 1],
    )
    assert hops_key(graph, PropagationConfig(hops=2)) == "34e3f9dbfcb76b25c5fb"
    other = PropagationConfig(hops=3, direction="separate", dtype="float16")
    assert hops_key(graph, other, ("a",)) == "ea6be0abde502a2d431e"


def test_a_graph_of_one_relation_is_its_own_only_subset():
    graph = Graph.from_edges([[0, 1, 2], [1, 2, 3]], features=np.eye(4, dtype=np.float32))
    made = propagate(graph, 2, subsets=["edge"])
    assert np.array_equal(np.asarray(made), np.asarray(propagate(graph, 2, "row")))


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        ({"subsets": ["cites"], "direction": "separate"}, ConfigError, "`both` with subsets"),
        ({"subsets": ["affiliated"]}, GraphError, "never reaches the target type"),
        ({"subsets": ["sites"]}, GraphError, "did you mean `cites`"),
        ({"subsets": ["cites"], "features": None}, GraphError, "nodes of all types"),
        ({"features": np.ones((12, 2), np.float32)}, GraphError, "one row per node"),
    ],
)
def test_requests_that_cannot_be_met_are_one_sentence(tmp_path, asked, error, message):
    graph = random_typed(0)
    with pytest.raises(error, match=message):
        propagate(graph, 1, **{"features": features_of(graph, 2), "out": tmp_path / "h", **asked})
    assert list(tmp_path.iterdir()) == []
