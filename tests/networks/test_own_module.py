"""A module of the user's own as encoder: trained, stored and asked as the named ones are."""

import copy
import json
from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from tests.conftest import make_random_graph
from torch import nn
from torch_geometric.nn import GATConv, GCNConv, SAGEConv
from torch_geometric.nn import Sequential as GraphSequential
from torch_geometric.nn.models import GCN as StockGCN

import scr
from scr.encoders import HopBatch, ProblemShape
from scr.errors import ConfigError, RunError, SCRError
from scr.networks import views_are_equal
from scr.networks._own_module import OwnHopEncoder, depth, what_is_read

FEATURES, CLASSES = 8, 3


class Net(nn.Module):
    """Two layers of a kind, as in every tutorial."""

    def __init__(self, layer, features=FEATURES, classes=CLASSES):
        super().__init__()
        self.first, self.second = layer(features, 16), layer(16, classes)

    def forward(self, x, edge_index):
        x = F.relu(self.first(x, edge_index))
        return self.second(F.dropout(x, 0.3, self.training), edge_index)


class OnHops(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(shape.hops * shape.features, 16), nn.ReLU(), nn.Dropout(0.3),
            nn.Linear(16, shape.classes),
        )  # fmt: skip

    def forward(self, hops):
        return self.layers(hops)


class OnBatch(OnHops):
    def forward(self, batch: HopBatch):
        assert isinstance(batch, HopBatch)
        return self.layers(batch.hops)


def graph(seed=0, **settings):
    """Features that tell the class, and four in five edges within a class."""
    made = make_random_graph(nodes=120, num_features=FEATURES, seed=seed)
    generator = np.random.default_rng(seed)
    senders, steps = generator.integers(0, 120, 300), CLASSES * generator.integers(1, 40, 300)
    receivers = (senders + steps + (generator.random(300) < 0.2)) % 120
    return scr.Graph.from_edges(
        np.stack([senders, receivers]), features=made.features, labels=made.labels,
        train=made.train, valid=made.valid, test=made.test, **settings,
    )  # fmt: skip


def classifier(encoder, regularizer="scr", **settings):
    settings = {"epochs": 15, "batch_size": 16, "learning_rate": 0.05, **settings}
    settings = {"postprocess": {"calibrate": "none"}, **settings}
    # Plain features, as the module alone would see them.
    data, propagation = {"scale": "none"}, {"hops": 2, "row_scale": "none"}
    return scr.NodeClassifier(
        encoder, regularizer, data=data, propagation=propagation, preset="few-labels", **settings
    )


def by_hand(module, data):
    """Probabilities by a forward pass of the module itself."""
    edges = torch.tensor(np.stack(data.adjacency().nonzero()))
    with torch.no_grad():
        return module.eval()(torch.tensor(data.features), edges).softmax(-1).numpy()


@pytest.mark.parametrize("neighbors", [None, [4, 4]], ids=["whole graph", "drawn neighbors"])
@pytest.mark.parametrize("regularizer", ["none", "scr", "scr-m"])
@pytest.mark.parametrize("layer", [GCNConv, SAGEConv, GATConv])
def test_a_stock_module_of_pyg_is_trained_and_predicts_what_it_says_itself(
    layer, regularizer, neighbors
):
    torch.manual_seed(0)
    data, net = graph(), Net(layer)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    made = classifier({"module": net, "neighbors": neighbors}, regularizer).fit(data)
    assert made.recipe_.encoder == "own-graph"
    assert made.recipe_.encoder_settings["layers"] == 2
    assert made.score("test") > 0.6  # features alone tell the class; chance is a third
    np.testing.assert_allclose(made.predict_proba(), by_hand(made.module_, data), atol=1e-5)
    # What was given is as it was.
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


@pytest.mark.parametrize("module", [OnHops, OnBatch])
def test_a_module_that_reads_hops_is_trained(module):
    data = graph()
    made = classifier(module, "scr-m").fit(data)
    assert made.recipe_.encoder == "own-hops"
    assert made.score("test") > 0.6
    again = classifier(module, "scr-m").fit(data)
    assert np.array_equal(made.predict_proba(), again.predict_proba())
    other = classifier(module, "scr-m", seed=1).fit(data)
    assert not np.array_equal(made.predict_proba(), other.predict_proba())


def test_a_plain_sequence_of_layers_is_an_encoder():
    layers = nn.Sequential(nn.Flatten(), nn.Dropout(0.2), nn.Linear(3 * FEATURES, CLASSES))
    assert classifier(layers).fit(graph()).score("test") > 0.6


def test_layers_that_find_out_their_widths_do():
    made = classifier(StockGCN(-1, 16, 2, CLASSES, dropout=0.3), "scr-m").fit(graph())
    assert made.score("test") > 0.6


def test_edge_weights_are_given_to_a_module_that_takes_them():
    class Weighed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = GCNConv(FEATURES, CLASSES, normalize=False, add_self_loops=False)

        def forward(self, x, edge_index, edge_weight=None):
            assert edge_weight is not None
            return self.layer(x, edge_index, edge_weight)

    weights = np.random.default_rng(0).random(300).astype(np.float32)
    data = graph(weights=weights)
    made = classifier(Weighed()).fit(data)
    layer = made.module_.layer
    logits = data.adjacency() @ (data.features @ layer.lin.weight.detach().numpy().T)
    expected = torch.softmax(torch.tensor(logits) + layer.bias.detach(), -1)
    np.testing.assert_allclose(made.predict_proba(), expected.numpy(), atol=1e-5)


def test_a_run_stores_weights_and_asks_for_the_module(tmp_path):
    data = graph()
    made = classifier(Net(GCNConv)).fit(data)
    made.save(tmp_path / "run")
    with pytest.raises(RunError, match="expected the module to be given again") as error:
        scr.NodeClassifier.load(tmp_path / "run", graph=data)
    assert "NodeClassifier.load(path, encoder=my_module)" in error.value.hint
    loaded = scr.NodeClassifier.load(tmp_path / "run", graph=data, encoder=Net(GCNConv))
    np.testing.assert_allclose(loaded.predict_proba(), made.predict_proba(), atol=1e-6)
    assert loaded.score("test") == made.score("test")
    assert loaded.resolve(data).tables() == made.recipe_.tables()
    written = json.dumps(json.loads((tmp_path / "run" / "run.json").read_text()))
    for word in ("Net", "GCNConv", "torch_geometric", __name__):
        assert word not in written


@pytest.mark.parametrize("wrong", [Net(SAGEConv), Net(GCNConv, FEATURES + 1), OnHops])
def test_a_run_refuses_another_module(tmp_path, wrong):
    data = graph()
    classifier(Net(GCNConv), epochs=1).fit(data).save(tmp_path / "run")
    with pytest.raises(ConfigError, match="encoder"):
        scr.NodeClassifier.load(tmp_path / "run", graph=data, encoder=wrong)


def test_a_run_with_a_named_encoder_wants_no_module(tmp_path):
    data = graph()
    classifier("sgc", epochs=1).fit(data).save(tmp_path / "run")
    with pytest.raises(RunError, match="expected no module"):
        scr.NodeClassifier.load(tmp_path / "run", encoder=Net(GCNConv))


def test_a_function_makes_the_module_that_is_loaded(tmp_path):
    data = graph()
    made = classifier(OnHops).fit(data)
    made.save(tmp_path / "run")
    loaded = scr.NodeClassifier.load(tmp_path / "run", graph=data, encoder=OnHops)
    np.testing.assert_allclose(loaded.predict_proba(), made.predict_proba(), atol=1e-6)


def test_weights_that_a_module_has_twice_are_stored(tmp_path):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(FEATURES, FEATURES)
            self.second = nn.Linear(FEATURES, FEATURES)
            self.second.weight = self.first.weight
            self.last = nn.Linear(FEATURES, CLASSES)

        def forward(self, hops):
            return self.last(F.dropout(self.second(self.first(hops[:, 1])), 0.1, self.training))

    data = graph()
    made = classifier(Tied(), epochs=2).fit(data)
    made.save(tmp_path / "run")
    loaded = scr.NodeClassifier.load(tmp_path / "run", graph=data, encoder=Tied())
    np.testing.assert_allclose(loaded.predict_proba(), made.predict_proba(), atol=1e-6)


def test_a_graph_that_was_not_there_is_predicted():
    net, other = Net(SAGEConv), graph(seed=5)
    made = classifier(net).fit(graph())
    np.testing.assert_allclose(
        made.predict_proba(graph=other), by_hand(made.module_, other), atol=1e-5
    )


def test_stages_start_from_modules_of_their_own():
    made = classifier(OnHops, "scr", stages={"method": "rlu", "count": 2, "epochs": [3, 3]})
    assert made.fit(graph()).score("test") > 0.4


class Adjacency(nn.Module):
    def forward(self, x, adj):
        return x


class Nothing(nn.Module):
    def forward(self):
        return None


@pytest.mark.parametrize("module", [Adjacency(), Nothing()])
def test_a_signature_that_cannot_be_served_is_named_in_one_sentence(module):
    with pytest.raises(ConfigError) as error:
        classifier(module).fit(graph())
    assert f"{type(module).__name__}.forward(" in error.value.message
    assert "forward(hops), forward(batch) or forward(x, edge_index)" in error.value.message
    assert "\n" not in error.value.message


class Returns(Net):
    """Returns what a function makes of the logits."""

    def __init__(self, change):
        super().__init__(GCNConv)
        self.change = change

    def forward(self, x, edge_index):
        return self.change(super().forward(x, edge_index))


class OnData(nn.Module):
    """As in torch_geometric's first tutorial."""

    def __init__(self):
        super().__init__()
        self.layer = GCNConv(FEATURES, CLASSES)

    def forward(self, data):
        return self.layer(data.x, data.edge_index)


ONE_ARGUMENT = r"expected a module, or a function of one argument \(the sizes\)"


@pytest.mark.parametrize(
    ("encoder", "sentence"),
    [
        (Net(GCNConv, FEATURES + 2), r"takes inputs of shape \(120, 8\), which it cannot"),
        (
            Net(GCNConv, classes=CLASSES + 1),
            r"gives \(2, 4\) for 2 nodes.*logits of shape \(2, 3\)",
        ),
        (nn.Linear(FEATURES, CLASSES), r"gives \(2, 3, 3\) for 2 nodes"),
        (lambda shape: "net", "expected a function that returns a torch module"),
        (7, "expected a name, a table of settings, a torch module"),
        ({"module": Net(GCNConv), "hidden": 7}, r"encoder\.hidden.*expected a known setting"),
        ("own-graph", "or a torch module"),
        (GCNConv, f"the class GCNConv'; {ONE_ARGUMENT}"),
        (Net, f"the class Net, which cannot be made of the sizes: .*; {ONE_ARGUMENT}"),
        (OnData, f"the class OnData'; {ONE_ARGUMENT}"),
        (lambda: Net(GCNConv), f"the function <lambda>'; {ONE_ARGUMENT}"),
        (lambda features, classes: Net(GCNConv), ONE_ARGUMENT),
        (
            Returns(lambda logits: (logits, None)),
            r"gives a tuple of 2 for 120 nodes'; expected logits of shape \(120, 3\)",
        ),
        (Returns(lambda logits: {"logits": logits}), "gives a dict of 1 for 120 nodes"),
        (
            Returns(lambda logits: logits[:1]),
            r"gives \(1, 3\) for 120 nodes'; expected logits of shape \(120, 3\)",
        ),
        (Returns(lambda logits: logits.repeat(2, 1)), r"gives \(240, 3\) for 120 nodes"),
        (Returns(lambda logits: logits.sum()), r"gives \(\) for 120 nodes"),
        (OnData(), r"hint: .*nodes and edges has `forward\(x, edge_index\)`"),
        ({"modul": Net(GCNConv)}, r"encoder\.modul` is 'Net'(.|\n)*did you mean `module`"),
        ({"module": "gcn"}, r"encoder\.module` is 'gcn'; expected a torch module"),
        ({"module": {"module": Net(GCNConv)}}, r"encoder\.module` is 'dict'; expected a torch"),
        ({"module": OnHops, "neighbors": [3, 3]}, r"hint: a module that reads hops has all its"),
    ],
)
def test_what_cannot_work_is_said_before_training(encoder, sentence):
    with pytest.raises(SCRError, match=sentence):
        classifier(encoder).fit(graph())


def test_propagated_labels_are_for_modules_that_take_a_batch():
    with pytest.raises(ConfigError, match="expected 0 for a module"):
        scr.NodeClassifier(Net(GCNConv), propagation={"label_hops": 2}).fit(graph())


def test_what_a_module_reads_is_told_by_its_signature():
    taken = "x, edge_index"
    chain = GraphSequential(
        taken, [(GCNConv(2, 3), f"{taken} -> x"), (GCNConv(3, 3), f"{taken} -> x")]
    )
    assert what_is_read(chain) == "edges"
    assert depth(chain) == depth(Net(GATConv)) == 2
    assert what_is_read(StockGCN(2, 3, 2)) == "edges"
    assert what_is_read(nn.Linear(2, 3)) == "hops"


def test_the_callers_random_state_is_left_alone():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    classifier(OnHops, epochs=1).fit(graph())
    assert torch.equal(torch.get_rng_state(), before)


def test_a_module_whose_state_cannot_be_saved_is_refused(random_graph):
    class Remembers(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.LazyLinear(3)

        def get_extra_state(self):
            return {"calls": 1}

        def set_extra_state(self, state):
            pass

        def forward(self, x, edge_index):
            return self.linear(x)

    with pytest.raises(ConfigError, match=r"whose state has module\._extra_state"):
        scr.NodeClassifier(encoder=Remembers()).fit(random_graph())


class HalfOnHops(OnHops):
    """Computes in bfloat16, and takes and gives single precision."""

    def __init__(self, shape):
        super().__init__(shape)
        self.bfloat16()

    def forward(self, hops):
        return self.layers(hops.bfloat16()).float()


def test_a_teacher_in_half_precision_goes_on_from_a_checkpoint_as_if_never_stopped(tmp_path):
    def made():
        return classifier(HalfOnHops, "scr-m", consistency={"warmup": 0, "decay": 0.99}, epochs=8)

    seen = []
    straight = made().fit(graph(), checkpoint=tmp_path / "other")
    made().fit(
        graph(), checkpoint=tmp_path / "file", on_epoch=seen.append,
        should_stop=lambda: len(seen) == 4,
    )  # fmt: skip
    assert len(seen) == 4
    resumed = made().fit(graph(), checkpoint=tmp_path / "file")
    for one, other in zip(straight.module_.parameters(), resumed.module_.parameters(), strict=True):
        assert torch.equal(one, other)


def test_an_error_within_a_function_is_its_own():
    def make(shape):
        return len(shape)

    with pytest.raises(TypeError, match="has no len"):
        classifier(make).fit(graph())


@pytest.mark.parametrize("made", ["module", "function"])
def test_layers_that_keep_the_edges_of_their_first_call_are_refused(made):
    net = Net(lambda inputs, outputs: GCNConv(inputs, outputs, cached=True))
    data, other = graph(), graph(seed=5)
    # What is refused: after one graph, such a module gives another one wrong predictions.
    fresh = by_hand(copy.deepcopy(net), other)
    by_hand(net, data)
    assert not np.allclose(by_hand(net, other), fresh, atol=1e-3)
    with pytest.raises(ConfigError, match=r"with `first`, GCNConv\(cached=True\)'; expected `cac"):
        classifier(net if made == "module" else lambda shape: net).fit(data)
    with pytest.raises(ConfigError, match="since batches and graphs change"):
        classifier(StockGCN(FEATURES, 16, 2, CLASSES, cached=True)).fit(data)


class Quiet(OnHops):
    """Has no dropout."""

    def __init__(self, shape):
        super().__init__(shape)
        self.layers[3] = nn.BatchNorm1d(16)


def test_a_module_without_dropout_is_told_what_its_regularizer_is_left_with():
    def notes(module, regularizer, **consistency):
        settings = {"trust": "full", "warmup": 0, **consistency}
        return classifier(module, regularizer, epochs=1, consistency=settings).fit(graph()).notes_

    same = "The module gives the same output twice: without dropout, views do not differ, and "
    assert notes(Quiet, "scr") == [f"{same}the consistency term only sharpens predictions"]
    assert notes(Quiet, "pi") == [f"{same}the term of `pi` is 0"]
    assert notes(Quiet, "r-drop") == [f"{same}the term of `r-drop` is 0"]
    assert len(notes(Quiet, "scr-m")) == 1
    # In one epoch no node is confident enough for FixMatch, which is a note of its own.
    first, second = notes(Quiet, "fixmatch")
    assert first.startswith(f"{same}`fixmatch` is taught its own predictions")
    assert second.startswith("The term on unlabeled nodes never acted")
    assert notes(Quiet, "none") == notes(Quiet, "entropy") == notes(Quiet, "pi", weight=0) == []
    assert notes(OnHops, "pi") == notes(Net(GCNConv), "scr") == []
    # What the note says: of equal views, the term of the Pi-model is exactly 0.
    epochs = classifier(Quiet, "pi", epochs=3).fit(graph()).history_
    assert {record["consistency_loss"] for record in epochs} == {0.0}


def test_stages_say_it_once():
    stages = {"method": "rlu", "count": 2, "epochs": [1, 1]}
    settings = {"trust": "full", "warmup": 0}
    made = classifier(Quiet, "scr", consistency=settings, stages=stages).fit(graph())
    assert [note for note in made.notes_ if "same output twice" in note] == made.notes_
    assert len(made.notes_) == 1


def test_looking_for_noise_changes_neither_module_nor_random_state():
    batch = HopBatch(torch.randn(2, 3, FEATURES))
    shape = ProblemShape(features=FEATURES, hops=3, classes=CLASSES)
    for module, equal in ((Quiet, True), (OnHops, False)):
        encoder = OwnHopEncoder(shape, module(shape)).eval()
        before = copy.deepcopy(encoder.state_dict())
        state = torch.get_rng_state()
        assert views_are_equal(encoder, batch) is equal
        assert torch.equal(torch.get_rng_state(), state)
        assert not encoder.training
        after = encoder.state_dict()
        assert all(torch.equal(value, before[name]) for name, value in after.items())


def test_noise_that_is_rare_is_found():
    class Rare(nn.Module):
        def forward(self, hops):
            return F.dropout(hops[:, 0, :CLASSES], 0.05, self.training)

    shape = ProblemShape(features=FEATURES, hops=3, classes=CLASSES)
    batch = HopBatch(torch.randn(2, 3, FEATURES))
    torch.manual_seed(0)
    found = []
    for _ in range(40):
        found.append(views_are_equal(OwnHopEncoder(shape, Rare()), batch))
        torch.rand(1)
    # Two passes are equal with a chance of about a half, eight with one of 1 in 12.
    assert sum(found) < 12


class Sees(nn.Module):
    """Remembers what it was given."""

    given: ClassVar[dict] = {}

    def __init__(self, shape):
        super().__init__()
        self.layer = nn.Linear(shape.features, shape.classes)

    def forward(self, x, edge_index):
        self.given["x"], self.given["edges"] = x, {tuple(edge) for edge in edge_index.T.tolist()}
        return self.layer(F.dropout(x, 0.5, self.training))


AS_IT_IS = {
    "data": {"scale": "none", "reduce": "none"},
    "propagation": {"row_scale": "none", "direction": "in"},
}


def test_features_and_edges_are_given_prepared_or_as_they_are():
    # Wide enough for a reduction, and of directed edges.
    words = sp.random(600, 3000, 0.02, format="csr", random_state=0, dtype=np.float32)
    edges = np.stack([np.arange(599), np.arange(1, 600)])
    nodes = np.arange(600)
    data = scr.Graph.from_edges(
        edges, features=words, labels=nodes % CLASSES, train=nodes[:30], valid=nodes[30:60],
        test=nodes[60:90], undirected=False,
    )  # fmt: skip
    scr.NodeClassifier(Sees, epochs=1).fit(data)
    one_way = {(node, node + 1) for node in range(599)}
    assert Sees.given["x"].shape == (600, 512)
    np.testing.assert_allclose(Sees.given["x"].norm(dim=1), np.ones(600), atol=1e-4)
    assert Sees.given["edges"] == one_way | {(to, of) for of, to in one_way}
    scr.NodeClassifier(Sees, epochs=1, **AS_IT_IS).fit(data)
    np.testing.assert_array_equal(Sees.given["x"].numpy(), words.toarray())
    assert Sees.given["edges"] == one_way
