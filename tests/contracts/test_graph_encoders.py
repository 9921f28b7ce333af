"""What every coupled encoder must do, whatever its paper."""

import copy
import dataclasses

import numpy as np
import pytest
import torch
from tests.conftest import make_random_graph
from tests.contracts.catalog import pairwise_cases

from scr.encoders import ProblemShape
from scr.errors import ConfigError, GraphError
from scr.networks import COUPLED, Embedded, make_encoder
from scr.training import graph_facts, prepare, resolve

NODES, FEATURES, CLASSES = 300, 12, 5
SUBGRAPHS = ("cluster-gcn", "graph-saint")  # GraphSAGE on other batches
NAMES = [encoder.name for encoder in COUPLED if encoder.name not in SUBGRAPHS]
SETTINGS = {
    "defaults": {},
    "three layers": {"hidden": 16, "layers": 3, "norm": "batch"},
    "one layer": {"layers": 1, "input_dropout": 0.2},
    "layer norm": {"hidden": 16, "norm": "layer"},
}
names = pytest.mark.parametrize("name", NAMES)
cases = pytest.mark.parametrize(
    ("name", "settings", "label_hops"),
    [
        pytest.param(name, settings, label_hops, id=f"{name}, {kind}, {label_hops} label hops")
        for name, (kind, settings), label_hops in pairwise_cases(NAMES, SETTINGS.items(), (0, 3))
    ],
)


def make(name, settings, label_hops=0):
    """An encoder and the rows of a small graph for it."""
    graph = make_random_graph(NODES, 900, FEATURES, CLASSES)
    settings = {"input_dropout": 0.1, **settings, "name": name}
    recipe = resolve(graph_facts(graph), layers=[{"encoder": settings}], preset="none")
    labels = None
    if label_hops:
        labels = np.random.default_rng(0).random((NODES, label_hops, CLASSES), np.float32)
    rows = prepare(graph, recipe).rows(CLASSES, labels, torch.device("cpu"))
    torch.manual_seed(0)
    return make_encoder(name, recipe.encoder_settings, rows.shape), rows


def some(count=60):
    return torch.randperm(NODES, generator=torch.Generator().manual_seed(2))[:count]


@cases
def test_logits_have_one_finite_number_per_seed_and_class(name, settings, label_hops):
    encoder, rows = make(name, settings, label_hops)
    for mode in (True, False):
        logits = encoder.train(mode)(rows.batch(some()))
        assert logits.shape == (60, CLASSES)
        assert logits.dtype == torch.float32
        assert logits.isfinite().all()


@cases
def test_gradient_reaches_every_parameter(name, settings, label_hops):
    encoder, rows = make(name, settings, label_hops)
    with torch.no_grad():
        for parameter in encoder.parameters():  # away from zero, where slopes may vanish
            parameter.add_(0.1 * torch.randn_like(parameter))
    encoder(rows.batch(some())).square().sum().backward()
    silent = [
        key
        for key, value in encoder.named_parameters()
        if value.grad is None or not value.grad.any()
    ]
    # Batch norm takes a bias before it away again, up to rounding.
    assert not [key for key in silent if not key.endswith("bias")]


@cases
def test_evaluation_is_deterministic_and_training_is_noisy(name, settings, label_hops):
    encoder, rows = make(name, settings, label_hops)
    batch = rows.batch(some())
    encoder.train()
    assert not torch.equal(encoder(batch), encoder(batch))
    encoder.eval()
    assert torch.equal(encoder(batch), encoder(batch))


@cases
def test_logits_follow_the_seeds_in_their_order_and_may_repeat(name, settings, label_hops):
    encoder, rows = make(name, settings, label_hops)
    encoder.eval()
    wanted = torch.tensor([7, 3, 7, 250])
    every = encoder(rows.batch(torch.arange(NODES)))
    torch.testing.assert_close(encoder(rows.batch(wanted)), every[wanted])
    after = rows.batch(wanted).between(3, 4)
    assert len(after) == 1
    torch.testing.assert_close(encoder(after), every[250:251])


@cases
def test_single_and_double_precision_agree(name, settings, label_hops):
    encoder, rows = make(name, settings, label_hops)
    batch = rows.batch(some())
    encoder.train()(batch)
    single = encoder.eval()(batch)
    labels = None if batch.labels is None else batch.labels.double()
    double = encoder.double()(
        dataclasses.replace(batch, features=batch.features.double(), labels=labels)
    )
    torch.testing.assert_close(single.double(), double, rtol=1e-3, atol=1e-4)


@names
def test_weights_go_through_a_state_dict(name):
    encoder, rows = make(name, {"norm": "batch"}, 1)
    batch = rows.batch(some())
    encoder(batch)
    torch.manual_seed(99)
    other = make_encoder(name, {"norm": "batch", "hidden": encoder.config.hidden}, rows.shape)
    other.load_state_dict(encoder.state_dict())
    assert torch.equal(other.eval()(batch), encoder.eval()(batch))


@names
def test_a_deep_copy_predicts_the_same_and_trains_apart(name):
    encoder, rows = make(name, {})
    encoder.eval()
    batch = rows.batch(some())
    twin, before = copy.deepcopy(encoder), encoder(batch)
    assert torch.equal(twin(batch), before)
    with torch.no_grad():
        next(twin.parameters()).add_(1)
    assert torch.equal(encoder(batch), before)


@names
def test_same_seed_gives_same_weights_and_noise(name):
    def run():
        encoder, rows = make(name, {})
        return encoder(rows.batch(some()))

    assert torch.equal(run(), run())


@names
def test_wrong_settings_are_named(name):
    shape = ProblemShape(features=FEATURES, hops=1, classes=CLASSES)
    with pytest.raises(ConfigError, match=r"encoder\.dropuot.*\n\nhint: did you mean `dropout`"):
        make_encoder(name, {"dropuot": 0.5}, shape)
    with pytest.raises(ConfigError, match=r"`encoder\.neighbors` is \[5\]; expected as many"):
        make_encoder(name, {"neighbors": [5], "layers": 2}, shape)
    with pytest.raises(ConfigError, match=r"`encoder\.neighbors` is \[0, 1\]; expected whole"):
        make_encoder(name, {"neighbors": [0, 1], "layers": 2}, shape)


def test_learned_vectors_take_the_place_of_features():
    shape = ProblemShape(features=FEATURES, hops=1, classes=CLASSES, embedded=2)
    encoder = make_encoder("rgcn", {"node_embeddings": True}, shape)
    _, rows = make("rgcn", {})
    given = Embedded(torch.tensor([4, 9]), torch.tensor([1, 0]))
    inputs = encoder.inputs(dataclasses.replace(rows.batch(some()), embedded=given))
    assert torch.equal(inputs[[9, 4]], encoder.embeddings)
    assert torch.equal(inputs[5], torch.from_numpy(rows.prepared.inputs[5]))
    with pytest.raises(GraphError, match="expected the graph of the training"):
        beyond = dataclasses.replace(given, numbers=torch.tensor([1, 2]))
        encoder.inputs(dataclasses.replace(rows.batch(some()), embedded=beyond))


def test_a_width_that_heads_cannot_share_is_named():
    shape = ProblemShape(features=FEATURES, hops=1, classes=CLASSES)
    with pytest.raises(ConfigError, match=r"`encoder\.hidden` is 20; expected a multiple of"):
        make_encoder("gat", {"hidden": 20}, shape)
    with pytest.raises(ConfigError, match=r"`encoder\.output_heads` is 0"):
        make_encoder("gat", {"output_heads": 0}, shape)
