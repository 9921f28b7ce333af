"""Sentences, tables and the section of the page, from the tables of an explanation."""

import html
import json
import re

import numpy as np
import pytest

from scr.report import explained_model, explanation_sentences
from scr.report._explanation import drops_of
from scr.report.page import comparison_page, run_page

HOSTILE = "<script>alert('x')</script>"
RELATIONS = ["package:build depends on:package", "maintainer:maintains:package", HOSTILE]


@pytest.fixture
def explanation():
    return {
        "encoder": "nars-gamlp",
        "nodes": 1234,
        "split": "valid",
        "hops": ["hop 0", "hop 1", "hop 2"],
        "attention": {
            "kind": "attention", "mean": [0.2, 0.5, 0.3], "spread": [0.1, 0.05, 0.02],
            "classes": ["cat", "dog"], "class_nodes": [30, 70],
            "by_class": [[0.1, 0.6, 0.3], [0.3, 0.4, 0.3]],
        },
        "mixing": {
            "subsets": [RELATIONS[:2], RELATIONS, *[RELATIONS[1:]] * 6],
            "by_hop": [[0.3, *[0.1] * 7], [0.65, *[0.05] * 7]],
            "relations": RELATIONS,
            "relation_by_hop": [[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]],
            "relation": [0.25, 0.15, 0.6],
        },
        "accuracy": 0.8,
        "drops": [
            {"what": "hop", "name": "hop 0", "mean": 0.001, "spread": 0.001},
            {"what": "hop", "name": "hop 1", "mean": 0.123, "spread": 0.01},
            {"what": "hop", "name": "hop 2", "mean": -0.01, "spread": 0.002},
            {"what": "labels", "name": "propagated labels", "mean": 0.02, "spread": 0.002},
            *[{"what": "subset", "name": "s", "mean": 0.004, "spread": 0.0}] * 8,
        ],
    }  # fmt: skip


def hops_only(explanation):
    """As of a graph of one relation."""
    hop_drops = [drop for drop in explanation["drops"] if drop["what"] == "hop"]
    return {**explanation, "mixing": None, "drops": hop_drops}


def test_sentences_say_what_counts_and_what_is_needed(explanation):
    explanation["mixing"]["relations"] = ["cites", "writes", "tags"]
    assert explanation_sentences(explanation) == [
        "Hop 1 counts most: 50% of the attention.",
        "Of the relations, tags has the largest share (60%) and writes the smallest (15%).",
        "Shuffling hop 1 costs most: 12.3 points of accuracy on validation nodes.",
        "No subset of relations is needed alone: shuffling any one of them costs less than half a "
        "point.",
        "Shuffling the propagated labels costs 2.0 points of accuracy on validation nodes.",
    ]


def test_sentences_of_equal_hops_name_none():
    explanation = {"hops": ["hop 0", "hop 1"], "attention": {"kind": "fixed", "mean": [0.5, 0.5]}}
    assert explanation_sentences(explanation) == ["All 2 hops count the same."]
    assert explanation_sentences({}) == []


def test_drops_that_are_not_numbers_are_left_out():
    broken = [None, {"what": "hop", "name": "x", "mean": float("nan"), "spread": 0.0}]
    assert drops_of({"drops": broken}, "hop") == []
    assert drops_of({"drops": None}, "hop") == []


def test_a_model_is_named_by_encoder_and_regularizer():
    assert explained_model({"encoder": "sign", "regularizer": "scr-m"}) == "sign with scr-m"
    assert explained_model({"encoder": "sign", "regularizer": "none"}) == (
        "sign without a regularizer"
    )


def table(page, caption):
    """Rows of a table of a page as lists of texts."""
    root = re.search(rf"<caption>(?:<span[^>]*>)?{re.escape(caption)}.*?</table>", page, re.DOTALL)[
        0
    ]
    rows = re.findall(r"<tr>.*?</tr>", root, re.DOTALL)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
    return [[html.unescape(re.sub(r"<.*?>", "", cell)).strip() for cell in row] for row in cells]


def test_tables_hold_the_numbers(run_dir, explanation):
    (run_dir / "explanation.json").write_text(json.dumps(explanation))
    page = run_page(run_dir)
    means = [row[1] for row in table(page, "Attention per hop")[1:]]
    assert means == ["20", "50", "30"]
    first = table(page, "Share of each relation, percent")
    assert first[0] == ["relation", "hop 1", "hop 2"]
    assert first[1][0] == RELATIONS[0]
    shares = np.array([[float(cell) for cell in row[1:]] for row in first[1:]]).T
    np.testing.assert_allclose(shares, 100 * np.array(explanation["mixing"]["relation_by_hop"]))
    lost = [row[1] for row in table(page, "Accuracy lost if shuffled")[1:]]
    assert "−12.30" in lost


def test_of_many_classes_the_most_frequent_are_shown(run_dir, explanation):
    attention = {
        **explanation["attention"], "classes": [f"class-{number}" for number in range(20)],
        "class_nodes": list(range(20)), "by_class": [[0.2, 0.3, 0.5]] * 20,
    }  # fmt: skip
    record = {**explanation, "attention": attention}
    (run_dir / "explanation.json").write_text(json.dumps(record))
    page = run_page(run_dir)
    assert "15 of 20 classes" in page
    assert "class-19 (19)" in page
    assert "class-4 " not in page


def test_weights_below_zero_are_shown(run_dir, explanation):
    """SAGN's tanh weights may be negative."""
    attention = {"kind": "attention", "mean": [-0.3, 0.8, 0.5], "spread": [0.1] * 3}
    (run_dir / "explanation.json").write_text(
        json.dumps({**hops_only(explanation), "attention": attention})
    )
    assert "-30" in [row[1] for row in table(run_page(run_dir), "Attention per hop")]


def test_hops_that_count_the_same_are_a_sentence_and_no_bars(run_dir, explanation):
    fixed = {"kind": "fixed", "mean": [1 / 3] * 3, "spread": [0.0] * 3}
    (run_dir / "explanation.json").write_text(
        json.dumps({**hops_only(explanation), "attention": fixed})
    )
    page = run_page(run_dir)
    assert "All 3 hops count the same." in page
    assert "Weights of the hops" not in page


def test_the_page_of_a_run_shows_what_carries_the_prediction(run_dir, explanation):
    assert "What carries the prediction" not in run_page(run_dir)
    (run_dir / "explanation.json").write_text(json.dumps(explanation))
    page = run_page(run_dir)
    assert HOSTILE not in page
    for expected in ("What carries the prediction", "Measured on 1,234 validation nodes",
                     "Share of each relation", "Share of each subset",
                     "Attention per hop"):  # fmt: skip
        assert expected in page


def test_the_page_of_a_graph_of_one_relation_shows_hops_only(run_dir, explanation):
    (run_dir / "explanation.json").write_text(json.dumps(hops_only(explanation)))
    page = run_page(run_dir)
    assert "Attention per hop" in page
    assert "elation" not in page
    assert "ubset" not in page


def test_tables_that_never_were_json_are_shown_too(explanation):
    """A comparison hands over tuples."""
    explained = {**explanation, "hops": tuple(explanation["hops"])}
    page = comparison_page({"runs": [], "explanation": explained}, title="t", graph_facts={})
    assert len(table(page, "Share of each relation, percent")) == 1 + len(RELATIONS)


def test_the_page_of_a_comparison_says_whose_explanation_it_is(explanation):
    run = {"encoder": "nars-gamlp", "regularizer": "scr", "seed": 3, "valid_accuracy": 0.8,
           "test_accuracy": 0.8, "train_seconds": 1.0}  # fmt: skip
    explained = {**explanation, "regularizer": "scr", "seed": 3}
    page = comparison_page(
        {"runs": [run], "explanation": explained}, title="t", graph_facts={"nodes": 3}
    )
    assert "Shown for nars-gamlp with scr, the best on validation nodes (seed 3)" in page
    without = comparison_page(
        {"runs": [run], "explanation": None}, title="t", graph_facts={"nodes": 3}
    )
    assert "What carries the prediction" not in without
