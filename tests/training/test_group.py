"""Several processes train as one: the same losses, sets and weights, by shares of the rows.

Any number of processes ends in the same weights. One process without a group takes sums over rows
in another order, and Adam divides a gradient by its own size: where it is 0, rounding errors become
steps. So it is compared in double precision, and in single precision with a larger epsilon.
"""

import dataclasses
import threading
from contextlib import contextmanager, nullcontext
from functools import cache, partial
from itertools import chain

import numpy as np
import pytest
import torch
from tests.training.members import Members
from torch import nn

from scr.compute import STEP_SHARES, current_group
from scr.encoders import HopBatch
from scr.encoders.fused._activation import activate, normalize
from scr.sources._digits import digits
from scr.training import fit, graph_facts, resolve
from scr.training._objective import balanced_class_weights
from scr.training._rows import Rows, predict_logits

DRY = {"dropout": 0.0, "input_dropout": 0.0, "label_dropout": 0.0}
"""Without noise, so that results can be compared."""
MATCHES = ("freematch", "softmatch", "r-drop")


@pytest.fixture(scope="module")
def members():
    together = Members(3)
    yield together
    together.close()


@cache
def small_digits():
    """Digits with more labels, so that shares of a step may be large enough for compiled loops."""
    graph = digits(seed=0)
    train = np.setdiff1d(np.arange(1000), graph.valid)[:601]
    test = np.setdiff1d(graph.test, train)
    return dataclasses.replace(graph, train=train.astype(np.int64), test=test)


@contextmanager
def double_precision():
    """Train in float64, where rounding errors are too small for Adam to make steps of.

    Without weight decay: where a gradient is 0 but for rounding, Adam makes of a weight w the step
    -rate * decay * w / 1e-8, thousands of times w, so that rounding errors grow in every step.
    """
    finish, balanced = Rows.finish, balanced_class_weights

    def in_double(rows, batch, index):
        batch = finish(rows, batch, index)
        labels = None if batch.labels is None else batch.labels.double()
        return HopBatch(batch.hops.double(), labels)

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Rows, "finish", in_double)
            patch.setattr(
                "scr.training._loop.balanced_class_weights",
                lambda *arguments: balanced(*arguments).double(),
            )
            yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def large_epsilon():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scr.training._adam.EPSILON", 1e-2)
        yield


def trained(encoder, regularizer, sections, train=151, by=nullcontext, checkpoint=None, stop=None):
    """History, weights and confident nodes of a short run, in the group that this process is in."""
    epochs = []
    graph = small_digits()
    graph = dataclasses.replace(graph, train=graph.train[:train])
    sections = {name: dict(table) for name, table in sections.items()}
    sections["encoder"] = {"hidden": 128, **DRY, **sections.get("encoder", {})}
    sections["training"] = {
        "epochs": 2, "batch_size": 71, "unlabeled_per_batch": 53, "evaluate_every": 1,
        "select": "last", **sections.get("training", {}),
    }  # fmt: skip
    if by is double_precision:
        sections["training"]["weight_decay"] = 0.0
    if regularizer != "none":
        terms = {"warmup": 0, "threshold": 0.15, "refresh": 1, "trust": "full"}
        sections["consistency"] = {**terms, **sections.get("consistency", {})}
    recipe = resolve(
        graph_facts(graph), encoder=encoder, regularizer=regularizer, layers=[sections]
    )
    with by():
        fitted = fit(
            graph, recipe, seed=4, checkpoint=checkpoint, on_epoch=epochs.append,
            should_stop=lambda: len(epochs) == stop,
        )  # fmt: skip
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


def assert_equal_groups(members, *arguments):
    """One process and three of a group do the same, and so do all groups in single precision."""
    arguments = (*arguments, 151)[:4]
    alone = trained(*arguments, double_precision)
    for member in members.call(3, trained, *arguments, double_precision):
        assert_equal_runs(member, alone, tolerance=1e-8)
    one = members.call(1, trained, *arguments)[0]
    for member in members.call(3, trained, *arguments):
        assert_equal_runs(member, one)


ENCODERS = ["mlp", "sign", "gamlp", "gamlp-jk", "sagn"]
REGULARIZERS = ["none", "scr", "scr-m"]


def sections_of(encoder, **training):
    extra = {} if encoder in ("mlp", "sign") else {"attention_dropout": 0.0}
    return {"encoder": {"norm": "batch", **extra}, "training": training}


@pytest.mark.parametrize("regularizer", REGULARIZERS)
@pytest.mark.parametrize("encoder", ENCODERS)
def test_any_number_of_processes_ends_in_the_same_weights(members, encoder, regularizer):
    # Hidden layers of a share are large enough for compiled loops.
    sections = sections_of(encoder, batch_size=201, unlabeled_per_batch=203, epochs=1)
    one = members.call(1, trained, encoder, regularizer, sections, 601)[0]
    for size in (2, 3):
        for member in members.call(size, trained, encoder, regularizer, sections, 601):
            assert_equal_runs(member, one)


@pytest.mark.parametrize("regularizer", REGULARIZERS)
@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_group_trains_as_one_process_does(members, encoder, regularizer):
    sections = sections_of(encoder)
    alone = trained(encoder, regularizer, sections, 151, double_precision)
    for member in members.call(3, trained, encoder, regularizer, sections, 151, double_precision):
        assert_equal_runs(member, alone, tolerance=1e-8)


@pytest.mark.parametrize("regularizer", REGULARIZERS)
@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_group_trains_as_one_process_does_in_single_precision(members, encoder, regularizer):
    # Longer runs differ where a unit's input is 0 but for rounding, and is cut off in one of them.
    sections = sections_of(encoder, epochs=1)
    alone = trained(encoder, regularizer, sections, 151, large_epsilon)
    for member in members.call(3, trained, encoder, regularizer, sections, 151, large_epsilon):
        assert_equal_runs(member, alone)


def test_noise_does_not_depend_on_the_number_of_processes(members):
    sections = {"encoder": {"dropout": 0.5, "input_dropout": 0.2}}
    one = members.call(1, trained, "gamlp", "scr-m", sections)[0]
    for member in members.call(3, trained, "gamlp", "scr-m", sections):
        assert_equal_runs(member, one)


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
    assert_equal_groups(members, encoder, regularizer, sections)


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
    assert_equal_groups(members, encoder, "none", sections, 4)


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


def test_a_run_resumes_with_another_number_of_processes(members, tmp_path):
    sections = {"encoder": {"dropout": 0.5}, "training": {"epochs": 3}}
    whole = members.call(1, trained, "mlp", "scr-m", sections)[0]
    file = tmp_path / "checkpoint.safetensors"
    for size, stop in ((2, 1), (1, 1), (3, None)):
        resumed = members.call(
            size, trained, "mlp", "scr-m", sections, 151, nullcontext, file, stop
        )
    for member in resumed:
        assert_equal_runs(member, whole)


def order_of_nodes():
    """Numbers of the nodes of each step, and how many rows this process has of them."""
    from scr.training._loop import Trainer

    drawn, before = [], Trainer._step

    def step(self, epoch, step, batch):
        drawn.append((step.labeled.tolist(), len(batch)))
        return before(self, epoch, step, batch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "_step", step)
        trained("mlp", "none", {})
    return drawn


def test_processes_draw_the_same_steps_and_share_their_rows(members):
    for first, second in zip(*members.call(2, order_of_nodes), strict=True):
        assert first[0] == second[0]
        assert first[1] + second[1] == len(first[0])


def noise_of_shares():
    """What the shares of this process draw, before and after they ask each other."""
    group = current_group()
    torch.manual_seed(5)

    def draw():
        first = torch.rand(2).tolist()
        assert len(current_group().stack(torch.zeros(1))) == STEP_SHARES
        return (*first, *torch.rand(2).tolist())

    return [group.run_shares([draw] * len(group.step_shares)) for _ in range(2)]


def test_shares_draw_noise_of_their_own_whoever_computes_them(members):
    one = members.call(1, noise_of_shares)[0]
    assert len({number for step in one for share in step for number in share}) == 4 * 24
    for size in (2, 3):
        several = members.call(size, noise_of_shares)
        assert [list(chain(*steps)) for steps in zip(*several, strict=True)] == one


def failing():
    """One share fails while others wait for it."""
    group = current_group()

    def run(number):
        if number == 1:
            raise ValueError("share 1")
        return group.step_shares[number].stack(torch.zeros(1))

    with pytest.raises(ValueError, match="share 1"):
        group.run_shares([partial(run, number) for number in range(len(group.step_shares))])
    return threading.active_count()


def test_a_share_that_fails_ends_the_others(members):
    before = members.call(1, threading.active_count)[0]
    assert members.call(1, failing)[0] == before


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
