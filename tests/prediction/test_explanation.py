"""Explanations of encoders whose behavior is known, on rows made by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import nn

from scr import NodeClassifier
from scr.encoders import NARS, Encoder, HopBatch
from scr.errors import GraphError
from scr.graph import Graph
from scr.prediction._explanation import Explanation, explain, subset_shares
from scr.prediction._permutation import Part, permutation_drops
from scr.sources import load_graph
from scr.training import Rows

NODES, CLASSES = 400, 4


class Reader(Encoder):
    """Says the class whose feature is largest in a weighted sum of the hops."""

    name = "reader"

    def __init__(self, weights: list[float]) -> None:
        super().__init__()
        self.weights = torch.tensor(weights, dtype=torch.float32)

    def hop_attention(self, batch: HopBatch) -> torch.Tensor:
        return self.weights.expand(len(batch), -1)

    def forward(self, batch: HopBatch) -> torch.Tensor:
        mixed = torch.einsum("k,rkc->rc", self.weights, batch.hops)
        return mixed if batch.labels is None else mixed + batch.labels.sum(1)


class Mixture(nn.Module):
    """The learned mixture of relation subsets: hop 0, then subset by subset."""

    def __init__(self, subsets: int, hops: int, features: int) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.ones(features))
        self.weight = nn.Parameter(torch.ones(hops, subsets, features))

    def forward(self, hops: torch.Tensor) -> torch.Tensor:
        count, subsets, features = self.weight.shape
        by_subset = hops[:, 1:].view(len(hops), subsets, count, features)
        mixed = torch.einsum("ksf,rskf->rkf", self.weight, by_subset)
        return torch.cat([(self.first * hops[:, 0])[:, None], mixed], dim=1)


class Subsets(NARS):
    """A mixture and the encoder that reads its hops, both given."""

    name = "subsets"

    def __init__(self, mixture: Mixture, inner: Encoder) -> None:
        Encoder.__init__(self)
        self.mixture, self.inner = mixture, inner


@pytest.fixture(scope="module")
def digits() -> Graph:
    return load_graph("digits")


def make_rows(informative: int, matrices: int) -> tuple[Rows, np.ndarray]:
    """Rows of which one matrix is the class, one is constant and the others are noise."""
    generator = np.random.default_rng(0)
    labels = generator.integers(0, CLASSES, NODES)
    hops = 0.01 * generator.standard_normal((NODES, matrices, CLASSES)).astype(np.float32)
    hops[:, informative] = np.eye(CLASSES)[labels]
    hops[:, 0] = [0.3, 0.1, 0.2, 0.1]
    return Rows(hops, CLASSES), labels


def plain(explanation: Explanation) -> dict[str, object]:
    tables: dict[str, object] = json.loads(json.dumps(explanation.tables()))
    return tables


def drops(explanation: Explanation, what: str) -> list[float]:
    return [drop.mean for drop in explanation.drops if drop.what == what]


def test_only_the_informative_hop_is_missed():
    rows, labels = make_rows(2, 4)
    made = explain(Reader([1, 1, 1, 1]), rows, np.arange(NODES), labels=labels)
    assert made.accuracy == 1
    lost = drops(made, "hop")
    assert lost[0] == 0  # constant: shuffling changes nothing
    assert lost[1] == lost[3] == 0
    assert lost[2] == pytest.approx(0.75, abs=0.08)  # what is left is chance, one of four


def test_shuffled_rows_are_put_back_and_one_seed_gives_one_result():
    rows, labels = make_rows(1, 2)
    batch = rows.batch(torch.arange(NODES))
    before, classes = batch.hops.clone(), torch.from_numpy(labels)
    parts = [Part("hop", "hop 1", (1,))]
    first = permutation_drops(Reader([1, 1]), batch, classes, parts, seed=3)
    assert torch.equal(batch.hops, before)
    assert permutation_drops(Reader([1, 1]), batch, classes, parts, seed=3) == first
    assert permutation_drops(Reader([1, 1]), batch, classes, parts, seed=4) != first


def test_propagated_labels_are_a_part_of_their_own():
    rows, labels = make_rows(1, 2)
    known = np.eye(CLASSES, dtype=np.float32)[labels][:, None]
    with_labels = Rows(np.zeros_like(rows.hops), CLASSES, known)
    made = explain(Reader([1, 1]), with_labels, np.arange(NODES), labels=labels)
    assert drops(made, "hop") == [0, 0]
    assert drops(made, "labels")[0] > 0.6


def test_attention_by_class_is_the_mean_over_the_nodes_predicted_so():
    class PerNode(Reader):
        def hop_attention(self, batch: HopBatch) -> torch.Tensor:
            first = batch.hops[:, 1, 0]  # 1 for nodes of the class 0
            return torch.stack([first, 1 - first], 1)

    rows, labels = make_rows(1, 2)
    names = ["a", "b", "c", "d"]
    made = explain(PerNode([0, 1]), rows, np.arange(NODES), labels=labels, class_names=names)
    assert made.attention is not None
    assert made.attention.classes == ("a", "b", "c", "d")
    assert made.attention.class_nodes == tuple(np.bincount(labels).tolist())
    assert made.attention.by_class == ((1, 0), (0, 1), (0, 1), (0, 1))
    share = (labels == 0).mean()
    assert made.attention.mean == pytest.approx((share, 1 - share))
    assert made.attention.spread == pytest.approx([(share * (1 - share)) ** 0.5] * 2)


def test_shares_of_subsets_are_weights_times_deviations_by_hand():
    weight = torch.tensor([[[3.0, 4.0], [0.0, 5.0]], [[1.0, 0.0], [1.0, 100.0]]])  # hops, subsets
    steps = torch.tensor([-1.0, 1.0])  # deviation 1 over two nodes
    hops = torch.zeros(2, 5, 2)
    hops[:, 1] = steps[:, None]  # hop 1 of subset 0
    hops[:, 3] = steps[:, None]  # hop 1 of subset 1
    hops[:, 2, 0] = steps  # hop 2 of subset 0
    hops[:, 4, 0], hops[:, 4, 1] = 3 * steps, 7.0  # of subset 1, one feature never varies
    torch.testing.assert_close(
        subset_shares(weight, hops), torch.tensor([[0.5, 0.5], [0.25, 0.75]]).double()
    )


def subset_explanation(**options) -> Explanation:
    """Two subsets of two hops, of which hop 2 of subset 1 (matrix 4) is the class."""
    rows, labels = make_rows(4, 5)
    encoder = Subsets(Mixture(2, 2, CLASSES), Reader([0.2, 0.2, 0.6]))
    return explain(encoder, rows, np.arange(NODES), labels=labels, **options)


def test_subsets_and_hops_are_shuffled_across_each_other():
    made = subset_explanation(subsets=[["cites"], ["cites", "writes"]])
    assert made.hops == ("hop 0", "hop 1", "hop 2")
    assert made.attention is not None
    assert made.attention.mean == pytest.approx((0.2, 0.2, 0.6))
    hop_drops, subset_drops = drops(made, "hop"), drops(made, "subset")
    assert hop_drops[:2] == [0, 0]
    assert hop_drops[2] == pytest.approx(0.75, abs=0.08)
    assert subset_drops[0] == 0
    assert subset_drops[1] == pytest.approx(0.75, abs=0.08)


def test_a_subsets_share_goes_equally_to_its_relations():
    made = subset_explanation(subsets=[["cites"], ["cites", "writes"]]).mixing
    assert made is not None
    assert made.relations == ("cites", "writes")
    first, second = np.array(made.by_hop)
    assert second[1] > 0.95  # hop 2 varies in subset 1 only
    expected = [[first[0] + first[1] / 2, first[1] / 2], [second[0] + second[1] / 2, second[1] / 2]]
    np.testing.assert_allclose(made.relation_by_hop, expected)
    # Hop 2 has three times the attention of hop 1.
    np.testing.assert_allclose(made.relation, np.array([0.25, 0.75]) @ expected, rtol=1e-6)


def test_a_relation_has_no_share_in_hops_that_cannot_go_along_it():
    near, far = "author:writes:paper", "author:of:city"
    made = subset_explanation(subsets=[[near, far], ["paper:cites:paper", far]], target="paper")
    assert made.mixing is not None
    first, second = np.array(made.mixing.by_hop)
    # One step from a paper leads to authors; only the second one goes on to cities, and only where
    # the first one is in the subset.
    expected = [[first[0], 0, first[1]], [second[0] / 2, second[0] / 2, second[1]]]
    assert made.mixing.relations == (near, far, "paper:cites:paper")
    np.testing.assert_allclose(made.mixing.relation_by_hop, expected)


def test_subsets_without_names_are_counted():
    made = subset_explanation().mixing
    assert made is not None
    assert made.subsets == (("subset 1",), ("subset 2",))
    assert made.relations == ()


def test_of_one_subset_only_hops_are_told():
    rows, labels = make_rows(2, 3)
    encoder = Subsets(Mixture(1, 2, CLASSES), Reader([0.2, 0.2, 0.6]))
    made = explain(encoder, rows, np.arange(NODES), labels=labels, subsets=[["cites"]])
    assert made.hops == ("hop 0", "hop 1", "hop 2")
    assert made.mixing is None
    assert {drop.what for drop in made.drops} == {"hop"}


def test_few_nodes_are_drawn_of_many_and_unlabeled_ones_are_not_scored():
    rows, labels = make_rows(1, 2)
    labels[::2] = -1
    made = explain(Reader([1, 1]), rows, np.arange(NODES), labels=labels, at_most=50)
    assert made.nodes == 50
    assert made.accuracy == 1
    nothing = explain(Reader([1, 1]), rows, np.arange(0, NODES, 2), labels=labels)
    assert nothing.accuracy is None
    assert nothing.drops == ()
    with pytest.raises(GraphError, match="no nodes"):
        explain(Reader([1, 1]), rows, [])


def test_a_run_directory_holds_the_explanation_of_its_classifier(digits, tmp_path):
    classifier = NodeClassifier("gamlp", "none", epochs=3).fit(digits)
    path = classifier.save(tmp_path / "run")
    explained = classifier.explain()
    assert json.loads((path / "explanation.json").read_text()) == plain(explained)
    assert explained.split == "valid"
    assert explained.nodes == len(digits.valid)
    assert explained.accuracy == pytest.approx(classifier.score("valid"))
    loaded = NodeClassifier.load(path, graph=digits).explain()
    assert loaded.attention == explained.attention
    assert loaded.drops == explained.drops


def test_hops_mixed_beforehand_have_the_weights_of_the_recipe(digits):
    classifier = NodeClassifier("ssgc", "none", epochs=2, propagation={"hops": 3}).fit(digits)
    made = classifier.explain()
    assert made.attention is not None
    assert made.attention.mean == pytest.approx([0.25] * 4)
    assert [drop.what for drop in made.drops] == ["mixture"]
