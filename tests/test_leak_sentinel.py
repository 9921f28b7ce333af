"""Validation and test labels must not reach training: scrambled, nothing may change, bit for bit.

The stopping epoch is fixed (`select="last"`, no patience) and probabilities are not tempered, since
choosing the epoch and the temperature are the uses of validation labels that are allowed. A planted
leak shows that the sentinel can bark.
"""

import dataclasses

import numpy as np
import pytest
import torch

from scr.classifier import NodeClassifier
from scr.sources._digits import digits
from scr.training import _prepare as preparing

FIXED = {"epochs": 6, "select": "last", "patience": 0, "evaluate_every": 2,
         "postprocess": {"calibrate": "none"}}  # fmt: skip


def scrambled(graph, seed=1):
    """The same graph with random labels on every node that is not a training node."""
    labels = np.array(graph.labels)
    others = np.setdiff1d(np.arange(graph.num_nodes), graph.train)
    labels[others] = np.random.default_rng(seed).integers(0, graph.num_classes, len(others))
    return dataclasses.replace(graph, labels=labels)


def weights_and_predictions(graph, encoder, regularizer, **sections):
    classifier = NodeClassifier(encoder, regularizer, seed=3, **FIXED, **sections).fit(graph)
    state = classifier._trained().model.encoder.state_dict()
    return {name: value.clone() for name, value in state.items()}, classifier.predict_proba()


def same(one, two):
    weights = all(torch.equal(value, two[0][name]) for name, value in one[0].items())
    return weights and np.array_equal(one[1], two[1])


@pytest.mark.parametrize("regularizer", ["none", "scr", "scr-m"])
@pytest.mark.parametrize("encoder", ["ssgc", "gamlp"])
def test_scrambled_validation_and_test_labels_change_nothing(encoder, regularizer):
    graph = digits(seed=0)
    sections = {
        "consistency": {"threshold": 0.5, "refresh": 2, "warmup": 1},
        "propagation": {"label_hops": 2},
    }
    before = weights_and_predictions(graph, encoder, regularizer, **sections)
    after = weights_and_predictions(scrambled(graph), encoder, regularizer, **sections)
    assert same(before, after)


@pytest.mark.parametrize("method", ["rlu", "sle"])
def test_stages_do_not_read_them_either(method):
    graph = digits(seed=0)
    sections = {
        "propagation": {"label_hops": 2},
        "stages": {"method": method, "count": 3, "threshold": 0.3},
    }
    before = weights_and_predictions(graph, "gamlp", "scr", **sections)
    after = weights_and_predictions(scrambled(graph), "gamlp", "scr", **sections)
    assert same(before, after)


def test_scrambled_training_labels_do_change_everything():
    graph = digits(seed=0)
    labels = np.array(graph.labels)
    labels[graph.train] = (labels[graph.train] + 1) % graph.num_classes
    other = dataclasses.replace(graph, labels=labels)
    before = weights_and_predictions(graph, "ssgc", "scr")
    assert not same(before, weights_and_predictions(other, "ssgc", "scr"))


def test_the_sentinel_barks_at_a_planted_leak(monkeypatch):
    """All labeled nodes slip into the label hops: the classic mistake."""
    honest = preparing.label_rows

    def leaky(graph, recipe, **settings):
        everything = np.flatnonzero(np.asarray(graph.labels) >= 0)
        everywhere = dataclasses.replace(graph, train=everything)
        return honest(everywhere, recipe, **settings)

    monkeypatch.setattr(preparing, "label_rows", leaky)
    graph = digits(seed=0)
    sections = {"propagation": {"label_hops": 2}}
    before = weights_and_predictions(graph, "gamlp", "none", **sections)
    after = weights_and_predictions(scrambled(graph), "gamlp", "none", **sections)
    assert not same(before, after)


def test_the_sentinel_barks_when_the_confident_set_asks_validation_labels(monkeypatch):
    """A subtler leak: keeping only those confident nodes whose prediction is right."""
    from scr.training._term import UnlabeledTerm

    graph = digits(seed=0)
    honest = UnlabeledTerm.refresh
    known = {}

    def leaky(self, epoch, rows):
        honest(self, epoch, rows)
        labels = torch.from_numpy(np.array(known["labels"]))
        nodes = self.confident.candidates
        self.confident.nodes = nodes[labels[nodes] < 5]

    monkeypatch.setattr(UnlabeledTerm, "refresh", leaky)
    at_once = {"consistency": {"warmup": 0}}
    known["labels"] = graph.labels
    before = weights_and_predictions(graph, "ssgc", "scr", **at_once)
    known["labels"] = scrambled(graph).labels
    after = weights_and_predictions(scrambled(graph), "ssgc", "scr", **at_once)
    assert not same(before, after)
