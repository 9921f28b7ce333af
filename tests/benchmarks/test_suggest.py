"""The benchmark of suggestions: what its tables say of rows that are made up."""

import numpy as np
import pytest
from scipy import stats

ROWS = [
    {"graph": graph, "seed": seed, "rule": rule, "mean_accuracy": accuracy,
     "accuracies": [0.5, accuracy + 0.01], "labels": [9, 39]}
    for graph, rule, each in (
        ("cora", "random", [0.70, 0.72]), ("cora", "suggest", [0.74, 0.75]),
        ("uai", "random", [0.60, 0.61]), ("uai", "suggest", [0.62, 0.60]),
    )
    for seed, accuracy in enumerate(each)
]  # fmt: skip


RULES = (
    "random", "suggest", "margin", "entropy", "k-center", "k-means", "doubtful k-means", "coverage",
    "doubtful coverage",
)  # fmt: skip


@pytest.fixture
def suggest(benchmark_module):
    return benchmark_module("suggest")


def test_graphs_have_means_and_are_marked_where_the_rule_was_chosen(suggest):
    heading, _, first, second, *_ = suggest.tables(ROWS)
    assert heading == "| graph | labels | random | suggest |"
    assert first == "| cora* | 9 to 39 | 71.0 (72.0) | 74.5 (75.5) |"
    assert second == "| uai | 9 to 39 | 60.5 (61.5) | 61.0 (62.0) |"


def test_differences_to_random_labels_are_paired_and_apart_for_graphs_not_chosen_on(suggest):
    *_, chosen, others = suggest.tables(ROWS)
    gaps = np.array([0.02, -0.01])
    low, high = 100 * np.array(stats.t.interval(0.95, 1, gaps.mean(), stats.sem(gaps)))
    assert f"| {100 * gaps.mean():+.1f} ({low:+.1f} to {high:+.1f}) |" in others
    assert "+3.5 (" in chosen
    assert others.startswith("| **others, against random**")


@pytest.mark.parametrize("rule", RULES)
def test_rules_pick_nodes_of_the_pool(rule, suggest, random_graph):
    graph = random_graph()
    pool = graph.test[:20]
    visible = suggest.visible(graph, graph.train, graph.valid, graph.test[20:])
    classifier = suggest.NodeClassifier("ssgc", "none", preset="none", epochs=3).fit(visible)
    hops = np.asarray(graph.features)
    generator = np.random.default_rng(0)
    now = suggest.Round(classifier, visible, hops, suggest.directions(hops), pool, 4, generator)
    picks = suggest.RULES[rule](now)
    assert len(set(picks.tolist())) == len(picks) <= 4
    assert set(picks) <= set(pool)
