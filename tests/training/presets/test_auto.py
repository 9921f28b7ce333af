"""What `encoder="auto"` promises: it finds how far neighbors help, and reads no test label."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp

import scr
from scr.errors import InactiveTermWarning, MemoryBudgetError
from scr.graph import Graph
from scr.training import choose
from scr.training._records import TrainingOutcome
from scr.training._trust import baseline_note
from scr.training.presets import _auto

NODES, CLASSES, COLUMNS = 600, 3, 30


def a_graph(*, homophily: float, signal: float, degree: int = 8, seed: int = 0) -> Graph:
    """Classes of equal size; edges go to the own class with a chance, features have a mean each."""
    rng = np.random.default_rng(seed)
    labels = np.arange(NODES) % CLASSES
    source = np.repeat(np.arange(NODES), degree)
    own = rng.random(len(source)) < homophily
    # A number of the same class, or of any of the others.
    shift = np.where(own, 0, rng.integers(1, CLASSES, len(source)))
    target = (labels[source] + shift) % CLASSES + CLASSES * rng.integers(
        0, NODES // CLASSES, len(source)
    )
    means = rng.normal(size=(CLASSES, COLUMNS)) * signal
    features = (means[labels] + rng.normal(size=(NODES, COLUMNS))).astype(np.float32)
    order = rng.permutation(NODES)
    return scr.Graph.from_edges(
        np.stack([source, target]),
        features=features,
        labels=labels,
        train=order[:60],
        valid=order[60:150],
        test=order[150:],
    )


def test_weak_features_among_agreeing_neighbors_are_averaged() -> None:
    choice = choose(a_graph(homophily=0.9, signal=0.2))
    assert choice.tables["encoder"] == {"name": "ssgc"}
    assert choice.tables["propagation"]["hops"] >= 2


def test_good_features_among_disagreeing_neighbors_stay_alone() -> None:
    choice = choose(a_graph(homophily=1 / CLASSES, signal=0.5))
    assert choice.tables["encoder"] == {"name": "mlp"}
    assert choice.tables["propagation"]["hops"] == 0


def test_of_neighbors_that_agree_by_chance_own_features_are_the_usual() -> None:
    # So weak that no look is better than another beyond noise.
    choice = choose(a_graph(homophily=1 / CLASSES, signal=0.05))
    assert choice.tables["encoder"] == {"name": "mlp"}
    assert "no more often than by chance" in choice.reason
    choice = choose(a_graph(homophily=0.9, signal=0.05))
    assert choice.tables["encoder"]["name"] == "ssgc"
    assert "chance" not in choice.reason


@pytest.mark.parametrize(("agreeing", "disagree"), [(0, True), (26, True), (27, False)])
def test_chance_is_counted_over_pairs_of_neighbors(agreeing: int, disagree: bool) -> None:
    # Of 40 pairs of two equally frequent classes 20 agree by chance, and two standard errors more
    # are 20 + 2 sqrt(40 / 4) = 26.3.
    pairs = [(i % 2, i % 2) if i < agreeing else (0, 1) for i in range(40)]
    graph = scr.Graph.from_edges(
        np.arange(80).reshape(40, 2).T, labels=np.ravel(pairs), train=np.arange(80)
    )
    assert _auto._neighbors_disagree(graph, graph.train) is disagree


def test_a_bag_of_words_is_tried_with_both_scales_and_keeps_its_columns() -> None:
    graph = a_graph(homophily=0.9, signal=0.5)
    words = sp.random_array((NODES, 2500), density=0.01, rng=np.random.default_rng(0), format="csr")
    graph = dataclasses.replace(graph, features=sp.csr_array(words.astype(np.float32)))
    choice = choose(graph)
    assert choice.tables["data"]["reduce"] == "none"
    assert choice.tables["data"]["scale"] in ("tfidf", "row")
    # Two scales and a narrow basis, each with four averages and two hops alone.
    assert "of 18 looks" in choice.reason


def test_words_that_are_seldom_shared_are_looked_at_in_a_narrow_basis() -> None:
    # Two hundred words for each class, of which a node has eight: two nodes share hardly one, but
    # the words of a class go together.
    rng, graph = np.random.default_rng(0), a_graph(homophily=0.35, signal=0.0, degree=2)
    words = np.zeros((NODES, CLASSES * 200), np.float32)
    for node, label in enumerate(graph.labels):
        words[node, label * 200 + rng.choice(200, 8, replace=False)] = 1
    few = np.concatenate([graph.train[graph.labels[graph.train] == each][:4] for each in range(3)])
    graph = dataclasses.replace(graph, features=sp.csr_array(words), train=np.sort(few))
    choice = choose(graph)
    assert choice.tables["data"]["reduce"] == "svd"
    assert choice.tables["data"]["reduce_to"] == _auto.FEW_LABELS_NARROW
    assert "64 columns" in choice.reason


def test_in_large_neighborhoods_of_noise_a_far_hop_is_read_alone() -> None:
    graph = a_graph(homophily=0.6, signal=0.12, degree=60)
    choice = choose(graph)
    assert choice.tables["encoder"] == {"name": "ssgc", "mixture": "last", "input_norm": "batch"}
    assert choice.tables["propagation"]["hops"] in _auto.LAST_HOPS
    accuracy = scr.NodeClassifier(seed=0).fit(graph).score("test")
    usual = scr.NodeClassifier("ssgc", seed=0).fit(graph).score("test")
    assert accuracy > usual + 0.1


def test_labels_are_propagated_where_features_say_nothing() -> None:
    graph = a_graph(homophily=0.6, signal=0.0, degree=6)
    order = np.random.default_rng(2).permutation(NODES)
    graph = dataclasses.replace(
        graph, train=np.sort(order[:240]), valid=np.sort(order[240:400]), test=np.sort(order[400:])
    )
    tables = choose(graph).tables
    assert tables["propagation"]["label_hops"] == _auto.LABEL_HOPS
    without = scr.NodeClassifier("auto", propagation={"label_hops": 0}, seed=0).fit(graph)
    assert scr.NodeClassifier(seed=0).fit(graph).score("test") > without.score("test") + 0.03


def test_test_labels_decide_nothing() -> None:
    graph = a_graph(homophily=0.8, signal=0.3)
    labels = graph.labels.copy()
    labels[graph.test] = np.random.default_rng(1).permutation(labels[graph.test])
    scrambled = dataclasses.replace(graph, labels=labels)
    assert choose(graph) == choose(scrambled)


def test_one_label_per_class_is_too_few_to_look() -> None:
    graph = a_graph(homophily=0.8, signal=0.3)
    first = np.array([np.flatnonzero(graph.labels == each)[0] for each in range(CLASSES)])
    alone = dataclasses.replace(graph, train=first, valid=first[:0], test=first[:0])
    choice = choose(alone)
    assert choice.tables["encoder"] == {"name": "ssgc"}
    assert "too few labels" in choice.reason


def test_a_graph_beyond_the_limit_of_work_gets_the_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_auto, "MOST_WORK", 1)
    choice = choose(a_graph(homophily=1 / CLASSES, signal=0.5))
    assert choice.tables["encoder"] == {"name": "ssgc"}
    assert "too large" in choice.reason


def test_a_classifier_without_options_looks_and_says_what_it_chose() -> None:
    graph = a_graph(homophily=1 / CLASSES, signal=0.5)
    for classifier in (
        scr.NodeClassifier(),
        scr.NodeClassifier("auto"),
        scr.NodeClassifier(recipe={"encoder": {"name": "auto"}}),
        scr.NodeClassifier("auto", epochs=3),
    ):
        recipe = classifier.resolve(graph)
        assert recipe.encoder == "mlp"
        assert "own features" in recipe.reason


@pytest.mark.parametrize(
    "settings",
    [
        {"encoder": "ssgc"},
        {"data": {"scale": "none"}},
        {"propagation": {"hops": 3}},
        {"preset": "few-labels"},
    ],
)
def test_who_names_something_is_not_overruled(settings: dict[str, object]) -> None:
    graph = a_graph(homophily=1 / CLASSES, signal=0.5)
    recipe = scr.NodeClassifier(**settings).resolve(graph)  # type: ignore[arg-type]
    assert recipe.encoder == "ssgc"
    assert "linear model" not in recipe.reason


def test_settings_win_over_what_was_chosen() -> None:
    graph = a_graph(homophily=0.9, signal=0.2)
    recipe = scr.NodeClassifier("auto", propagation={"hops": 3}).resolve(graph)
    assert recipe.propagation.hops == 3


def test_a_term_weighs_less_where_labels_are_scarce() -> None:
    graph = a_graph(homophily=0.9, signal=0.2)
    scarce = dataclasses.replace(graph, train=graph.train[:15])
    weights = {}
    for name, each in {"scarce": scarce, "enough": graph}.items():
        consistency = scr.NodeClassifier().resolve(each).consistency
        assert consistency is not None
        weights[name] = consistency.weight
    assert weights == {"scarce": 0.3, "enough": 1.0}
    assert scr.NodeClassifier(regularizer="none").resolve(scarce).consistency is None


def outcome(valid_accuracy: float | None, stopped: str = "epochs") -> TrainingOutcome:
    return TrainingOutcome([], 1, 1, valid_accuracy, 0.0, stopped)


@pytest.mark.parametrize(
    ("with_term", "alone", "is_kept"),
    # Of 100 nodes, 1.5 standard errors of 0.8 are 6 points: 1.5 * sqrt(0.8 * 0.2 / 100).
    [(0.80, 0.78, False), (0.75, 0.80, False), (0.73, 0.80, True), (None, 0.80, False)],
)
def test_a_baseline_is_kept_only_if_it_is_better_beyond_noise(
    with_term: float | None, alone: float, is_kept: bool
) -> None:
    note = baseline_note(outcome(with_term), outcome(alone), valid=100)
    assert (note is not None) == is_kept


def test_a_term_that_harms_is_left_out_and_the_run_says_so() -> None:
    graph = a_graph(homophily=0.9, signal=0.4)
    # A threshold of 0 and a huge weight: the first guesses win.
    settings = {"weight": 1000.0, "warmup": 0, "trust": "compared"}
    with pytest.warns(InactiveTermWarning, match="left out"):
        compared = scr.NodeClassifier("ssgc", consistency=settings, epochs=40).fit(graph)
    alone = scr.NodeClassifier("ssgc", "none", epochs=40).fit(graph)
    np.testing.assert_array_equal(compared.predict_proba(), alone.predict_proba())
    assert compared.inactive_
    assert compared.summary()["consistency"]["weight"] == 0


def test_a_look_that_does_not_fit_memory_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **settings: object) -> None:
        raise MemoryBudgetError("too little memory")

    monkeypatch.setattr(_auto, "propagate", refuse)
    choice = choose(a_graph(homophily=0.9, signal=0.2))
    assert choice.tables["propagation"] == {"hops": 4}
    assert "too large" in choice.reason
