"""The search for settings of Correct & Smooth: what it may read, and what it chooses."""

import dataclasses
import tracemalloc

import numpy as np
import pytest

from scr.errors import GraphError, MemoryBudgetError
from scr.graph import Graph
from scr.prediction.smoothing import smooth_predictions, steps_taken
from scr.prediction.smoothing._correct_and_smooth import as_probabilities, correct, smooth
from scr.prediction.smoothing._smoothing import needed_bytes
from scr.propagation import normalize
from scr.training import PostprocessConfig

SEARCH = PostprocessConfig(method="correct-and-smooth", correct_hops=6, smooth_hops=8)
FIXED = dataclasses.replace(SEARCH, search=False)
CLASSES = 4


def clustered(seed: int = 0, nodes: int = 240, noise: float = 1.0, **settings) -> tuple:
    """A graph whose edges mostly stay within a class, and noisy predictions for it."""
    rng = np.random.default_rng(seed)
    labels = np.arange(nodes) % CLASSES
    ends = rng.integers(0, nodes, (2, 4 * nodes))
    stays = rng.random(4 * nodes) < 0.8
    ends[1, stays] += labels[ends[0, stays]] - labels[ends[1, stays]]
    logits = np.eye(CLASSES)[labels] + noise * rng.standard_normal((nodes, CLASSES))
    probabilities = np.exp(2 * logits) / np.exp(2 * logits).sum(axis=1, keepdims=True)
    order = rng.permutation(nodes)
    splits = {"train": order[:40], "valid": order[40:101], "test": order[101:]}
    given = {"labels": labels, "num_nodes": nodes, **splits} | settings
    return Graph.from_edges(ends, **given), probabilities.astype(np.float32)


def relabeled(graph: Graph, nodes: np.ndarray, seed: int = 1) -> Graph:
    labels = np.array(graph.labels)
    labels[nodes] = np.random.default_rng(seed).permutation(labels[nodes])
    assert not np.array_equal(labels, graph.labels)
    return dataclasses.replace(graph, labels=labels)


def accuracy(predictions: np.ndarray, graph: Graph, nodes: np.ndarray) -> float:
    return float((predictions[nodes].argmax(axis=1) == graph.labels[nodes]).mean())


@pytest.mark.parametrize("labels", ["train", "train+valid"])
@pytest.mark.parametrize("config", [SEARCH, FIXED], ids=["search", "fixed"])
def test_scrambled_test_labels_change_neither_choice_nor_a_bit_of_the_result(config, labels):
    graph, probabilities = clustered()
    config = dataclasses.replace(config, labels=labels)
    one = smooth_predictions(graph, probabilities, config)
    two = smooth_predictions(relabeled(graph, graph.test), probabilities, config)
    assert one.test_accuracy != two.test_accuracy  # so the scramble was seen where it may be
    assert (one.config, one.trials, one.valid_accuracy) == (
        two.config,
        two.trials,
        two.valid_accuracy,
    )
    np.testing.assert_array_equal(one.probabilities, two.probabilities)


def test_validation_labels_are_not_spread_unless_asked_for():
    graph, probabilities = clustered()
    scrambled = relabeled(graph, graph.valid)
    one, two = (smooth_predictions(g, probabilities, FIXED) for g in (graph, scrambled))
    np.testing.assert_array_equal(one.probabilities, two.probabilities)
    both = dataclasses.replace(FIXED, labels="train+valid")
    one, two = (smooth_predictions(g, probabilities, both) for g in (graph, scrambled))
    assert not np.array_equal(one.probabilities, two.probabilities)


@pytest.mark.parametrize("config", [SEARCH, FIXED], ids=["search", "fixed"])
def test_validation_labels_that_are_spread_do_not_judge_themselves(config):
    # Labels, edges and predictions know nothing of each other: only a label that judges itself
    # could be predicted better than by chance.
    graph, probabilities = clustered(noise=50, nodes=2000)
    order = np.random.default_rng(2).permutation(2000)
    split = {"train": order[:200], "valid": order[200:1800], "test": order[1800:]}
    graph = relabeled(dataclasses.replace(graph, **split), order)
    config = dataclasses.replace(config, labels="train+valid", smooth_alpha=0.1)
    made = smooth_predictions(graph, probabilities, config)
    assert made.valid_nodes == 800
    assert abs(made.valid_accuracy - 1 / CLASSES) < 0.08
    fixed = smooth_predictions(graph, probabilities, dataclasses.replace(config, search=False))
    assert accuracy(fixed.probabilities, graph, graph.valid) > 0.9  # at last they are all spread


@pytest.mark.parametrize("labels", ["train", "train+valid"])
def test_the_choice_has_the_best_validation_accuracy_and_of_those_the_fewest_hops(labels):
    graph, probabilities = clustered()
    config = dataclasses.replace(SEARCH, labels=labels)
    made = smooth_predictions(graph, probabilities, config)

    def hops(trial: dict) -> int:
        return trial.get("correct_hops", 0) + trial.get("smooth_hops", 0)

    best = max(trial["valid_accuracy"] for trial in made.trials)
    equals = [trial for trial in made.trials if trial["valid_accuracy"] == best]
    first = min(equals, key=hops)
    assert steps_taken(made.config) | {"valid_accuracy": best} == first
    assert made.valid_accuracy == best
    assert {trial["steps"] for trial in made.trials} == {"none", "correct", "smooth", "both"}
    assert made.trials[0] == {"steps": "none", "valid_accuracy": made.valid_accuracy_before}


def test_every_trial_has_the_accuracy_of_its_settings():
    graph, probabilities = clustered()
    made = smooth_predictions(graph, probabilities, SEARCH)
    assert len(made.trials) > 100
    for trial in made.trials[1::9]:
        settings = {key: value for key, value in trial.items() if key != "valid_accuracy"}
        again = smooth_predictions(graph, probabilities, dataclasses.replace(FIXED, **settings))
        assert again.valid_accuracy == trial["valid_accuracy"]


def test_smoothing_helps_where_neighbors_share_a_class():
    graph, probabilities = clustered()
    made = smooth_predictions(graph, probabilities, SEARCH)
    assert made.config.method == "correct-and-smooth"
    assert made.test_accuracy > made.test_accuracy_before + 0.1
    assert made.test_accuracy == accuracy(made.probabilities, graph, graph.test)
    assert made.test_accuracy_before == accuracy(probabilities, graph, graph.test)


def test_nothing_is_done_where_nothing_is_better():
    graph, _ = clustered()
    perfect = np.full((graph.num_nodes, CLASSES), 0.1, np.float32)
    perfect[np.arange(graph.num_nodes), graph.labels] = 0.7
    made = smooth_predictions(graph, perfect, SEARCH)
    assert made.config.method == "none"
    np.testing.assert_array_equal(made.probabilities, perfect)


def test_the_settings_found_give_the_same_result_without_a_search():
    graph, probabilities = clustered()
    for labels in ("train", "train+valid"):
        made = smooth_predictions(graph, probabilities, dataclasses.replace(SEARCH, labels=labels))
        again = smooth_predictions(graph, probabilities, made.config)
        np.testing.assert_array_equal(again.probabilities, made.probabilities)
        assert again.valid_accuracy == made.valid_accuracy
        assert again.trials == []


@pytest.mark.parametrize("steps", ["correct", "smooth", "both"])
def test_fixed_settings_are_the_two_equations(steps):
    graph, probabilities = clustered()
    config = dataclasses.replace(
        FIXED, steps=steps, scale=2.0, correct_norm="col", smooth_norm="row", smooth_alpha=0.3
    )
    known = graph.labels[graph.train], graph.train
    expected = probabilities
    if steps != "smooth":
        expected = correct(
            normalize(graph, norm="col"), expected, *known, hops=6, alpha=0.8, scale=2.0
        )
    if steps != "correct":
        expected = smooth(normalize(graph, norm="row"), expected, *known, hops=8, alpha=0.3)
    made = smooth_predictions(graph, probabilities, config)
    np.testing.assert_array_equal(made.probabilities, as_probabilities(expected))


def test_directed_edges_count_both_ways():
    ends = np.random.default_rng(0).integers(0, 240, (2, 900))
    graph, probabilities = clustered()
    splits = {name: getattr(graph, name) for name in ("labels", "train", "valid", "test")}
    one, two = (
        smooth_predictions(
            Graph.from_edges(ends, num_nodes=240, undirected=undirected, **splits),
            probabilities,
            dataclasses.replace(FIXED, correct_norm="col", smooth_norm="row"),
        )
        for undirected in (False, True)
    )
    np.testing.assert_array_equal(one.probabilities, two.probabilities)


def test_the_seed_decides_which_half_judges_and_nothing_else():
    graph, probabilities = clustered()
    config = dataclasses.replace(FIXED, labels="train+valid")
    made = [smooth_predictions(graph, probabilities, config, seed=seed) for seed in (0, 0, 1, 2, 3)]
    assert made[0].valid_accuracy == made[1].valid_accuracy
    assert len({one.valid_accuracy_before for one in made}) > 1
    for one in made:
        assert one.valid_nodes == 31  # of 61
        np.testing.assert_array_equal(one.probabilities, made[0].probabilities)


def test_method_none_leaves_predictions_alone():
    graph, probabilities = clustered()
    made = smooth_predictions(graph, probabilities, PostprocessConfig())
    np.testing.assert_array_equal(made.probabilities, probabilities)
    assert made.valid_accuracy == made.valid_accuracy_before
    assert made.trials == []


def test_nodes_without_a_label_are_neither_spread_nor_judges():
    graph, probabilities = clustered()
    unknown = np.concatenate([graph.train[:5], graph.valid[:7], graph.test])
    labels = np.array(graph.labels)
    labels[unknown] = -1
    made = smooth_predictions(dataclasses.replace(graph, labels=labels), probabilities, SEARCH)
    assert made.valid_nodes == 61 - 7
    assert made.test_accuracy is None


def without(graph: Graph, *splits: str) -> Graph:
    return dataclasses.replace(graph, **{split: np.zeros(0, np.int64) for split in splits})


def test_a_search_needs_validation_nodes_and_fixed_settings_do_not():
    graph, probabilities = clustered()
    alone = without(graph, "valid")
    with pytest.raises(GraphError, match="No validation node"):
        smooth_predictions(alone, probabilities, SEARCH)
    assert smooth_predictions(alone, probabilities, FIXED).valid_accuracy is None


def test_what_cannot_be_smoothed_is_refused():
    graph, probabilities = clustered()
    with pytest.raises(GraphError, match="No training node"):
        smooth_predictions(without(graph, "train"), probabilities, SEARCH)
    with pytest.raises(GraphError, match=r"\(240, 3\); expected \(240, 4\)"):
        smooth_predictions(graph, probabilities[:, :3], SEARCH)
    probabilities[3, 2] = np.nan
    with pytest.raises(GraphError, match="not finite"):
        smooth_predictions(graph, probabilities, SEARCH)


def peak_bytes(graph: Graph, probabilities: np.ndarray, config: PostprocessConfig) -> int:
    tracemalloc.start()
    try:
        smooth_predictions(graph, probabilities, config)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("search", [False, True], ids=["fixed", "search"])
@pytest.mark.parametrize("labels", ["train", "train+valid"])
def test_the_memory_that_is_asked_for_is_that_which_is_used(labels, search):
    nodes, classes, generator = 60_000, 32, np.random.default_rng(0)
    parts = np.split(generator.permutation(nodes), [600, 1200])
    graph = Graph.from_edges(
        generator.integers(0, nodes, (2, 500)), num_nodes=nodes, labels=np.arange(nodes) % classes,
        **dict(zip(("train", "valid", "test"), parts, strict=True)),
    )  # fmt: skip
    probabilities = generator.random((nodes, classes), dtype=np.float32)
    config = dataclasses.replace(FIXED, labels=labels, search=search, correct_hops=1, smooth_hops=1)
    smooth_predictions(graph, probabilities, FIXED)  # compiles
    needed = needed_bytes(graph, config)
    # Numbers per node, such as scales of the adjacency, and temporaries of few rows are left out.
    assert 0.9 * needed < peak_bytes(graph, probabilities, config) < 1.25 * needed
    assert needed == (4 if search else 3) * probabilities.nbytes


def test_what_does_not_fit_into_memory_is_refused(monkeypatch):
    graph, probabilities = clustered()
    needed = needed_bytes(graph, SEARCH)
    monkeypatch.setattr("scr.prediction.smoothing._smoothing.memory_budget", lambda _: needed)
    smooth_predictions(graph, probabilities, SEARCH)
    monkeypatch.setattr("scr.prediction.smoothing._smoothing.memory_budget", lambda _: needed - 1)
    with pytest.raises(MemoryBudgetError, match=r"240 nodes and 4 classes(.|\n)*without a search"):
        smooth_predictions(graph, probabilities, SEARCH)
    smooth_predictions(graph, probabilities, FIXED)


def typed(seed: int = 0) -> tuple:
    """Papers with labels and authors without, whose edges are parallel here and there."""
    rng = np.random.default_rng(seed)
    labels = np.arange(40) % CLASSES
    graph = Graph.from_relations(
        {
            ("paper", "cites", "paper"): rng.integers(0, 40, (2, 80)),
            ("paper", "extends", "paper"): rng.integers(0, 40, (2, 40)),
            ("author", "writes", "paper"): np.stack([rng.integers(0, 15, 90), np.arange(90) % 40]),
        },
        labels=labels, target="paper", num_nodes={"author": 15, "paper": 40},
        train=np.arange(12), valid=np.arange(12, 22), test=np.arange(22, 40),
    )  # fmt: skip
    return graph, rng.dirichlet(np.ones(CLASSES), 40).astype(np.float32)


def test_labels_smooth_over_all_types_and_the_targets_come_back():
    graph, probabilities = typed()
    config = dataclasses.replace(FIXED, steps="smooth", smooth_norm="row", smooth_alpha=0.7)
    found = smooth_predictions(graph, probabilities, config)
    counts = np.zeros((55, 55))
    rows = np.repeat(np.arange(55), np.diff(graph.indptr))
    np.add.at(counts, (rows, graph.indices), 1)  # parallel edges count as often as they are there
    averaging = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    start = np.zeros((55, CLASSES))
    start[:40] = probabilities
    start[graph.train] = np.eye(CLASSES)[graph.labels[graph.train]]
    state = start
    for _ in range(config.smooth_hops):
        state = np.clip(0.3 * start + 0.7 * averaging @ state, 0, 1)
    expected = state[:40] / state[:40].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.probabilities, expected, rtol=1e-5, atol=1e-6)


def test_the_search_on_a_typed_graph_judges_target_nodes():
    graph, probabilities = typed()
    found = smooth_predictions(graph, probabilities, SEARCH)
    assert found.probabilities.shape == (40, CLASSES)
    assert found.valid_accuracy >= found.valid_accuracy_before
    assert found.valid_accuracy == max(trial["valid_accuracy"] for trial in found.trials)


def test_predictions_for_all_types_are_refused():
    graph, _ = typed()
    with pytest.raises(GraphError, match=r"expected \(40, 4\)"):
        smooth_predictions(graph, np.ones((55, CLASSES), np.float32) / CLASSES, FIXED)
