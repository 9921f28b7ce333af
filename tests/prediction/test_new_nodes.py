"""New nodes: what is computed of their neighborhood is what the whole enlarged graph gives."""

import dataclasses
import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import make_random_graph

from scr import training
from scr.classifier import NodeClassifier
from scr.errors import GraphError
from scr.features import fit_features
from scr.graph import Graph, GraphPart, NewNodes, enlarged
from scr.prediction import ENSEMBLE
from scr.propagation import Neighborhoods

DIRECTIONS = ("both", "out", "in", "separate")


@dataclasses.dataclass
class Case:
    known: Graph
    whole: Graph  # from all edges at once, as if nobody had ever split them
    new: NewNodes


def make_case(seed, *, nodes=30, edges=50, new_nodes=3, new_edges=6, directed, weighted):
    rng = np.random.default_rng(seed)
    total = nodes + new_nodes
    ends = rng.integers(0, nodes, (2, edges))
    added = rng.integers(0, total, (2, new_edges))
    added[0] = rng.integers(nodes, total, new_edges)
    flipped = rng.random(new_edges) < 0.5
    added[:, flipped] = added[::-1, flipped]
    values = rng.uniform(0.1, 3, edges + new_edges).astype(np.float32) if weighted else None
    features = rng.standard_normal((total, 4)).astype(np.float32)
    labels = rng.integers(0, 3, nodes)
    labels[:9] = np.arange(9) % 3
    known = Graph.from_edges(
        ends, features=features[:nodes], labels=labels, train=np.arange(9),
        valid=np.arange(9, 15), undirected=not directed, num_nodes=nodes,
        weights=None if values is None else values[:edges],
    )  # fmt: skip
    whole = Graph.from_edges(
        np.concatenate([ends, added], axis=1), features=features,
        labels=np.concatenate([labels, np.full(new_nodes, -1)]), train=np.arange(9),
        valid=np.arange(9, 15), undirected=not directed, num_nodes=total, weights=values,
    )  # fmt: skip
    new_weights = None if values is None else values[edges:]
    return Case(known, whole, NewNodes.of(known, features[nodes:], added.T, new_weights))


cases = st.builds(
    make_case,
    st.integers(0, 2**32 - 1),
    edges=st.integers(0, 80),
    new_nodes=st.integers(1, 4),
    new_edges=st.integers(0, 10),
    directed=st.booleans(),
    weighted=st.booleans(),
)


@st.composite
def recipes(draw):
    """A recipe whose rows depend on the graph in one of many ways."""
    encoder = draw(st.sampled_from(["gamlp", "sgc"]))
    guard = draw(st.sampled_from(["none", "exact", "folds"]))
    propagation = {
        "hops": draw(st.integers(0, 3)),
        "norm": draw(st.sampled_from(["row", "sym", "col"])),
        "self_loops": draw(st.booleans()),
        "direction": draw(st.sampled_from(DIRECTIONS)),
        "hop_scale": draw(st.sampled_from(["none", "unit"])),
        "row_scale": draw(st.sampled_from(["none", "unit"])),
        "label_hops": draw(st.integers(0, 2)) if encoder == "gamlp" else 0,
        "label_norm": draw(st.sampled_from(["row", "sym", "col"])),
        "label_self_loops": draw(st.booleans()),
        "label_direction": draw(st.sampled_from(DIRECTIONS[:3])),
        "label_keep": draw(st.sampled_from(["last", "all"])),
        "label_guard": guard,
    }
    tables = {
        "encoder": {"name": encoder},
        "propagation": propagation,
        "training": {"refit": draw(st.booleans())},
    }
    return training.Recipe.from_tables(tables, preset="none")


def rows_of(graph, recipe, nodes):
    """What an encoder reads of some nodes: hops, and label hops if there are any."""
    graph = training.with_known_labels(graph, recipe)
    fitted = fit_features(np.ones((3, 4), np.float32))
    prepared = training.prepare(graph, recipe, fitted=fitted, nodes=nodes)
    rows = training.make_rows(prepared, graph, recipe, torch.device("cpu"), seed=3)
    batch = rows.batch(torch.from_numpy(nodes))
    return [each.numpy() for each in (batch.hops, batch.labels) if each is not None]


def walks(recipe):
    config = recipe.propagation
    way = {"out", "in"} if config.direction == "separate" else {config.direction}
    labels = {config.label_direction} if config.label_hops else set()
    return max(config.hops, config.label_hops), way | labels


@given(cases, recipes(), st.data())
def test_rows_of_a_neighborhood_are_those_of_the_whole_graph(case, recipe, data):
    some = st.sets(st.integers(0, case.known.num_nodes - 1), max_size=5)
    known = np.array(sorted(data.draw(some)), np.int64)
    part = Neighborhoods(case.known).part(case.new, known, *walks(recipe))
    asked = np.concatenate([np.arange(case.known.num_nodes, case.whole.num_nodes), known])
    expected = rows_of(case.whole, recipe, asked)
    computed = rows_of(part, recipe, np.arange(len(asked)))
    assert len(computed) == len(expected)
    for ours, theirs in zip(computed, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize("refit", [False, True])
@pytest.mark.parametrize("guard", ["folds", "exact"])
def test_training_nodes_do_not_see_their_own_labels_either(guard, refit):
    case = make_case(4, directed=False, weighted=False)
    tables = {
        "encoder": {"name": "gamlp"},
        "propagation": {"hops": 1, "label_hops": 2, "label_guard": guard},
        "training": {"refit": refit},
    }
    recipe = training.Recipe.from_tables(tables, preset="none")
    for known in (np.array([2, 5]), np.arange(15)):
        part = Neighborhoods(case.known).part(case.new, known, *walks(recipe))
        expected = rows_of(case.whole, recipe, known)
        computed = rows_of(part, recipe, case.new.count + np.arange(len(known)))
        np.testing.assert_allclose(computed[1], expected[1], atol=1e-5)


@given(cases, recipes())
def test_known_nodes_that_new_ones_do_not_change_keep_their_rows(case, recipe):
    changed = Neighborhoods(case.known).changed(case.new, *walks(recipe))
    others = np.setdiff1d(np.arange(case.known.num_nodes), changed)
    before, after = (rows_of(graph, recipe, others) for graph in (case.known, case.whole))
    for ours, theirs in zip(after, before, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


@given(cases)
def test_the_enlarged_graph_is_that_of_all_edges(case):
    joined = enlarged(case.known, case.new)
    difference = joined.adjacency() - case.whole.adjacency()
    assert abs(difference).max() == 0
    np.testing.assert_array_equal(joined.features, case.whole.features)
    np.testing.assert_array_equal(joined.labels, case.whole.labels)


def test_a_part_holds_what_is_near_and_the_degrees_of_the_whole():
    # A path 0 - 1 - 2 - 3 - 4; node 5 joins at 1, and 1 and 2 are within two steps of it.
    path = Graph.from_edges([[0, 1, 2, 3], [1, 2, 3, 4]], features=np.eye(5))
    new = NewNodes.of(path, np.ones((1, 5)), [[5, 1]])
    part = Neighborhoods(path).part(new, np.zeros(0, np.int64), 2, {"both"})
    assert part.numbers.tolist() == [5, 1, 0, 2]
    assert part.reach == (1, 2, 4)
    # Of node 1 there are three edges now; node 2 has its second one outside.
    assert part.degrees["both"][0].tolist() == [1, 3, 1, 2]


def test_equal_neighborhoods_with_other_degrees_are_not_taken_for_each_other():
    star = Graph.from_edges([[0, 0, 0, 4], [1, 2, 3, 5]], features=np.ones((6, 2)))
    cut = Neighborhoods(star)
    near_hub, near_leaf = (
        cut.part(NewNodes.of(star, np.ones((1, 2)), [[6, end]]), np.zeros(0, np.int64), 1, {"both"})
        for end in (0, 4)
    )
    assert Graph.fingerprint(near_hub, "edges") == Graph.fingerprint(near_leaf, "edges")
    assert near_hub.fingerprint("edges") != near_leaf.fingerprint("edges")


def test_an_interrupted_cut_leaves_nothing_behind(monkeypatch):
    case = make_case(1, directed=False, weighted=False)
    cut, none = Neighborhoods(case.known), np.zeros(0, np.int64)
    expected = cut.part(case.new, none, 2, {"both"}).numbers
    with monkeypatch.context() as patched:
        patched.setattr(cut, "_adjacency", lambda spread: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            cut.part(case.new, none, 2, {"both"})
    assert cut.part(case.new, none, 2, {"both"}).numbers.tolist() == expected.tolist()


SETTINGS = {
    "gamlp": {"propagation": {"label_hops": 2, "hops": 2}},
    "sgc": {"propagation": {"hops": 2, "norm": "row"}},
    "sign": {"refit": True, "propagation": {"norm": "col", "self_loops": True}},
    "mlp": {},
    "gcn": {},
}


def fitted(graph, encoder, **settings):
    return NodeClassifier(
        {"name": encoder, "hidden": 8} if encoder != "sgc" else "sgc",
        "none", preset="none", epochs=4, **settings,
    ).fit(graph)  # fmt: skip


@pytest.mark.parametrize("encoder", SETTINGS)
def test_new_nodes_are_predicted_as_in_the_enlarged_graph(encoder):
    case = make_case(5, directed=False, weighted=True)
    classifier = fitted(case.known, encoder, **SETTINGS[encoder])
    made = classifier.new_node_predictor().predict_numbered(
        case.new, np.arange(30, 33), changed=True
    )
    expected = classifier.predict_proba(graph=case.whole)
    np.testing.assert_allclose(made.probabilities, expected[made.ids], atol=1e-5)
    assert made.new.tolist() == [True] * 3 + [False] * (len(made) - 3)
    unchanged = np.setdiff1d(np.arange(30), made.ids)
    if encoder != "gamlp":  # of one that reads labels, other graphs guard them in other folds
        np.testing.assert_allclose(
            classifier.predict_proba(unchanged), expected[unchanged], atol=1e-5
        )
    assert bool(made.notes) == (encoder == "gcn")


def test_after_stages_the_whole_graph_is_computed_and_that_is_said():
    case = make_case(5, directed=False, weighted=False)
    classifier = fitted(
        case.known, "gamlp", propagation={"label_hops": 2},
        stages={"method": "rlu", "count": 2, "threshold": 0.4},
    )  # fmt: skip
    made = classifier.new_node_predictor().predict_numbered(case.new, np.arange(30, 33))
    expected = classifier.predict_proba([30, 31, 32], graph=case.whole)
    np.testing.assert_allclose(made.probabilities, expected, atol=1e-5)
    assert "stages" in made.notes[0]


def test_several_models_are_averaged(tmp_path):
    case = make_case(5, directed=False, weighted=True)
    run = tmp_path / "run"
    fitted(case.known, "sgc").save(run)
    fitted(case.known, "gamlp", propagation={"label_hops": 1}).save(run / "models" / "first")
    fitted(case.known, "sign", refit=True).save(run / "models" / "second")
    models = [
        {"folder": "models/first", "weight": 3.0}, {"folder": "models/second", "weight": 1.0},
    ]  # fmt: skip
    (run / ENSEMBLE).write_text(json.dumps({"models": models}), encoding="utf-8")
    classifier = NodeClassifier.load(run, graph=case.known)
    predictor = classifier.new_node_predictor()
    made = predictor.predict_numbered(case.new, np.arange(30, 33), changed=True)
    expected = classifier.predict_proba(graph=case.whole)
    np.testing.assert_allclose(made.probabilities, expected[made.ids], atol=1e-5)
    again = predictor.predict_numbered(case.new, np.arange(30, 33), changed=True)
    np.testing.assert_array_equal(again.probabilities, made.probabilities)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_nodes_with_ids_join_by_them(random_graph, tmp_path, is_sparse):
    names = [f"n{number}" for number in range(60)]
    graph = random_graph(ids=names, class_names=("ant", "bee", "cat"))
    if is_sparse:
        graph = dataclasses.replace(graph, features=sp.csr_array(graph.features))
    classifier = fitted(graph, "sign")
    features = np.asarray(make_random_graph(seed=9).features[:2])
    made = classifier.predict_new(
        features, [["x", "n3"], ["n7", "x"], ["x", "y"]], ids=["x", "y"], coverage=0.5
    )
    adjacency = np.zeros((62, 62))
    adjacency[:60, :60] = graph.adjacency().toarray()
    for first, second in [(60, 3), (60, 7), (60, 61)]:
        adjacency[first, second] = adjacency[second, first] = 1
    dense = graph.features.toarray() if is_sparse else graph.features
    whole = Graph.from_scipy(sp.csr_array(adjacency), features=np.concatenate([dense, features]))
    expected = classifier.predict_proba([60, 61], graph=whole)
    np.testing.assert_allclose(made.probabilities, expected, atol=1e-5)
    np.testing.assert_array_equal(made.sets, classifier.predict_sets([60, 61], 0.5, graph=whole))
    made.write(tmp_path / "new.parquet")
    written = pq.read_table(tmp_path / "new.parquet")
    assert written.equals(made.table())
    assert written["id"].to_pylist() == ["x", "y"]
    best = [graph.class_names[each] for each in expected.argmax(axis=1)]
    assert written["prediction"].to_pylist() == best
    assert written["split"].to_pylist() == ["", ""]
    assert written["label"].to_pylist() == [None, None]


def test_known_nodes_that_change_keep_their_split_and_label(random_graph):
    graph = random_graph(ids=np.arange(100, 160))
    made = fitted(graph, "sgc").predict_new(np.ones((1, 8)), [[7, 100]], ids=[7], changed=True)
    rows = dict(zip(made.ids.tolist(), made.table().to_pylist(), strict=True))
    assert rows[7]["split"] == ""
    assert rows[100]["split"] == "train"
    assert rows[100]["label"] == graph.class_names[graph.labels[0]]


def test_a_node_without_edges_is_predicted_from_its_features(random_graph):
    classifier = fitted(random_graph(), "sgc")
    made = classifier.predict_new(np.ones((1, 8)))
    assert made.ids.tolist() == [60]
    whole = Graph.from_edges(np.zeros((2, 0), int), features=np.ones((1, 8)))
    np.testing.assert_allclose(made.probabilities, classifier.predict_proba(graph=whole), atol=1e-6)


def test_several_targets_per_node(random_graph):
    targets = np.random.default_rng(0).integers(0, 2, (60, 3))
    classifier = fitted(random_graph(labels=targets), "sign")
    made = classifier.predict_new(np.ones((1, 8)), [[60, 0]])
    assert made.probabilities.shape == (1, 3)
    chosen = [
        name
        for name, share in zip(made.class_names, made.probabilities[0], strict=True)
        if share > 0.5
    ]
    assert made.table()["prediction"].to_pylist() == [chosen]


ROW = np.ones((1, 8))
WRONG = {
    "no nodes": ((np.ones((0, 8)),), {}, "no new nodes; expected at least one"),
    "columns": ((np.ones((1, 7)),), {}, "have 7 features; expected 8"),
    "not finite": ((np.full((1, 8), np.nan),), {}, "finite"),
    "shape": ((ROW, [[60, 0, 1]]), {}, "shape (1, 3); expected (edges, 2)"),
    "known edges": ((ROW, [[0, 0], [60, 1]]), {}, "1 of 2 new edges are between two known nodes"),
    "unknown": ((ROW, [[60, 61]]), {}, "The id `61` is not one of the graph"),
    "weights": ((ROW, [[60, 0]]), {"weights": [1.0]}, "expected edges without weights"),
    "taken": ((ROW,), {"ids": [3]}, "The id `3` is one of the graph `random` already"),
    "twice": ((np.ones((2, 8)),), {"ids": [70, 70]}, "`70` is given to several nodes"),
    "not a number": ((ROW,), {"ids": ["new"]}, "`new` is not a whole number"),
    "ids": ((ROW,), {"ids": [70, 71]}, "2 new ids; expected 1"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_join_is_refused_in_one_sentence(random_graph, name):
    arguments, settings, message = WRONG[name]
    classifier = fitted(random_graph(), "sgc")
    with pytest.raises(GraphError) as caught:
        classifier.predict_new(*arguments, **settings)
    assert message in caught.value.message
    assert "\n" not in caught.value.message


def test_edges_that_the_graph_has_already_bring_nothing(random_graph):
    graph = random_graph()
    classifier = fitted(graph, "sgc")
    first = int(np.flatnonzero(np.diff(graph.indptr))[0])
    old = [first, int(graph.indices[graph.indptr[first]])]
    expected = classifier.predict_new(ROW, [[60, 5]]).probabilities
    made = classifier.predict_new(ROW, [old, [60, 5], old[::-1]])
    np.testing.assert_array_equal(made.probabilities, expected)


def test_nodes_of_a_graph_with_ids_need_ids(random_graph):
    classifier = fitted(random_graph(ids=[f"n{number}" for number in range(60)]), "sgc")
    with pytest.raises(GraphError, match="expected an id for each"):
        classifier.predict_new(ROW)


def test_a_part_is_a_graph_to_all_that_read_graphs():
    case = make_case(2, directed=True, weighted=True)
    part = Neighborhoods(case.known).part(case.new, np.zeros(0, np.int64), 2, {"out", "in"})
    assert isinstance(part, GraphPart)
    rows = part.adjacency().toarray()
    whole = case.whole.adjacency().toarray()[np.ix_(part.numbers, part.numbers)]
    inner = part.reach[-2]
    np.testing.assert_array_equal(rows[:inner], whole[:inner])
    np.testing.assert_array_equal(rows[:, :inner], whole[:, :inner])
