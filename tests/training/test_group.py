"""Several processes train as one: the same losses, sets and weights, by shares of the rows."""

import dataclasses
from functools import cache

import numpy as np
import pytest
import torch
from tests.training.members import Members
from torch import nn

from scr.compute import current_group
from scr.encoders.fused._activation import activate, normalize
from scr.sources._digits import digits
from scr.training import fit, graph_facts, resolve
from scr.training._rows import Rows, predict_logits

DRY = {"dropout": 0.0, "input_dropout": 0.0, "label_dropout": 0.0}
"""Without noise, so that results can be compared."""
MATCHES = ("freematch", "softmatch", "r-drop")


@pytest.fixture(scope="module")
def members(tmp_path_factory):
    together = Members(3, tmp_path_factory.mktemp("members"))
    yield together
    together.close()


@cache
def small_digits():
    """Digits with so many labels that hidden layers of a batch take the compiled pass.

    Below that, torch adds a bias before BatchNorm and gives it a gradient of rounding errors, which
    Adam makes whole steps of; shares of a group are small, and must be the same nevertheless.
    """
    graph = digits(seed=0)
    train = np.setdiff1d(np.arange(250), np.concatenate([graph.valid, graph.test[:0]]))[:151]
    test = np.setdiff1d(graph.test, train)
    return dataclasses.replace(graph, train=train.astype(np.int64), test=test)


def trained(encoder, regularizer, sections, train=None):
    """History, weights and confident nodes of a short run, in the group that this process is in."""
    graph = small_digits()
    if train is not None:
        graph = dataclasses.replace(graph, train=graph.train[:train])
    sections = {name: dict(table) for name, table in sections.items()}
    sections["encoder"] = {"hidden": 128, **DRY, **sections.get("encoder", {})}
    sections["training"] = {
        "epochs": 2, "batch_size": 71, "unlabeled_per_batch": 53, "evaluate_every": 1,
        "select": "last", **sections.get("training", {}),
    }  # fmt: skip
    if regularizer != "none":
        terms = {"warmup": 0, "threshold": 0.15, "refresh": 1, "trust": "full"}
        sections["consistency"] = {**terms, **sections.get("consistency", {})}
    recipe = resolve(
        graph_facts(graph), encoder=encoder, regularizer=regularizer, layers=[sections]
    )
    with pytest.MonkeyPatch.context() as patch:
        # Adam divides a gradient by its own size: where it is 0, rounding errors become steps.
        patch.setattr("scr.training._adam.EPSILON", 1e-2)
        fitted = fit(graph, recipe, seed=4)
    history = [
        {name: value for name, value in record.items() if value is not None and name != "seconds"}
        for record in fitted.outcome.history
    ]
    return history, fitted.encoder.state_dict()


def assert_equal_runs(one, other, *, tolerance=1e-5):
    for first, second in zip(one[0], other[0], strict=True):
        assert first == pytest.approx(second, abs=tolerance, rel=tolerance)
    assert one[1].keys() == other[1].keys()
    for name, value in one[1].items():
        torch.testing.assert_close(
            value, other[1][name], atol=tolerance, rtol=tolerance, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.parametrize("regularizer", ["none", "scr", "scr-m"])
@pytest.mark.parametrize("encoder", ["mlp", "sign", "gamlp", "sagn"])
def test_a_group_trains_as_one_process_does(members, encoder, regularizer):
    # Longer runs differ where a unit's input is 0 but for rounding, and is cut off in one of them.
    sections = {"encoder": {"norm": "batch"}, "training": {"epochs": 1}}
    if encoder in ("gamlp", "sagn"):
        sections["encoder"]["attention_dropout"] = 0.0
    alone = trained(encoder, regularizer, sections)
    for size in (2, 3):
        for member in members.call(size, trained, encoder, regularizer, sections):
            assert_equal_runs(member, alone)


SPECIAL = {
    "balanced classes": ("sign", "scr", {"training": {"class_weights": "balanced", "clip": 0.1}}),
    "a norm of the input": ("ssgc", "scr", {"encoder": {"input_norm": "batch", "norm": "batch"}}),
    "a teacher that sees the batch": (
        "mlp", "scr-m",
        {"encoder": {"norm": "batch"}, "consistency": {"teacher_statistics": "batch"}},
    ),
    "an average, lowest loss": (
        "mlp", "none", {"training": {"average_decay": 0.5, "select": "lowest-loss"}},
    ),
    "thresholds that follow the batch": ("mlp", "freematch", {}),
    "weights that follow the batch": ("mlp", "softmatch", {}),
    "views of labeled rows": ("mlp", "r-drop", {}),
    "reliable nodes": (
        "gamlp", "scr",
        {"encoder": {"attention_dropout": 0.0}, "stages": {"method": "rlu", "count": 2}},
    ),
    "a sample of the candidates": ("mlp", "scr", {"consistency": {"refresh_sample": 301}}),
}  # fmt: skip


@pytest.mark.parametrize("case", SPECIAL)
def test_what_depends_on_a_whole_batch_does_so_in_a_group(members, case):
    encoder, regularizer, sections = SPECIAL[case]
    sections = (
        {"consistency": {"threshold": 0.0}, **sections} if regularizer in MATCHES else sections
    )
    alone = trained(encoder, regularizer, sections)
    for member in members.call(3, trained, encoder, regularizer, sections):
        assert_equal_runs(member, alone)


@pytest.mark.parametrize(
    ("encoder", "extra"),
    [
        ("mlp", {"norm": "batch", "hidden": 2048}),
        ("sign", {"norm": "none"}),
        ("gamlp", {"norm": "none", "attention_dropout": 0.0}),
        ("sagn", {"norm": "none", "attention_dropout": 0.0, "heads": 2}),
    ],
)
def test_a_process_may_have_no_rows(members, encoder, extra):
    sections = {"encoder": extra, "training": {"batch_size": 2, "epochs": 1}}
    alone = trained(encoder, "none", sections, 4)
    for member in members.call(3, trained, encoder, "none", sections, 4):
        assert_equal_runs(member, alone)


def of_layers(rows):
    """Results, gradients and running statistics of two kinds of layers."""
    group = current_group()
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, 96, generator=generator) * 3 + 1
    weights = torch.randn(rows, 96, generator=generator)
    own = group.share(rows)
    results = []
    for layer in (activate, normalize):
        norm, part = nn.BatchNorm1d(96), x[own].clone().requires_grad_()
        result = layer(part, norm)
        (result * weights[own]).sum().backward()
        group.sum_all_([norm.weight.grad, norm.bias.grad])
        results += [group.join(each.detach(), rows) for each in (result, part.grad)]
        results += [norm.weight.grad, norm.bias.grad, norm.running_mean, norm.running_var]
    return results


@pytest.mark.parametrize("rows", [5, 100, 131])
def test_batch_norm_is_by_the_rows_of_all_processes(members, rows):
    alone = of_layers(rows)
    for member in members.call(3, of_layers, rows):
        for first, second in zip(member, alone, strict=True):
            torch.testing.assert_close(first, second, atol=1e-5, rtol=1e-4)


def noise_and_order():
    """What is drawn in two epochs: bits of dropout, and numbers of the nodes of a step."""
    from scr.training._loop import Trainer

    drawn, before = [], Trainer._step

    def step(self, epoch, step, batch):
        torch_state = torch.get_rng_state().numpy().tobytes()
        drawn.append((epoch, torch_state, step.labeled.tolist(), len(batch)))
        return before(self, epoch, step, batch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "_step", step)
        trained("mlp", "none", {"encoder": {"dropout": 0.5}})
    return drawn


def test_processes_draw_the_same_steps_and_noise_of_their_own(members):
    members_drawn = members.call(2, noise_and_order)
    for first, second in zip(*members_drawn, strict=True):
        assert first[0] == second[0]
        assert first[1] != second[1]
        assert first[2] == second[2]
        assert first[3] + second[3] == len(first[2])
    states = [state for member in members_drawn for _, state, _, _ in member]
    assert len(set(states)) == len(states)


def of_rows(count):
    """Logits of nodes, and rows that each process has a different number of."""
    group = current_group()
    hops = np.arange(60, dtype=np.float32).reshape(20, 1, 3)
    rows = Rows(hops, classes=3)

    class First(nn.Module):
        def forward(self, batch):
            return batch.hops[:, 0]

    index = torch.arange(count).flip(0)
    gathered = group.gather(torch.full((group.rank, 2), group.rank))
    return predict_logits(First(), rows, index), gathered, group.same(group.rank)


@pytest.mark.parametrize("count", [0, 1, 7])
def test_results_are_put_together_in_order(members, count):
    expected, _, _ = of_rows(count)
    for logits, gathered, value in members.call(3, of_rows, count):
        assert torch.equal(logits, expected)
        assert gathered.tolist() == [[1, 1], [2, 2], [2, 2]]
        assert value == 0
