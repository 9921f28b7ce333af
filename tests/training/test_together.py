"""What a group of workers is sent and returns, and what it refuses."""

import dataclasses
from functools import cache

import numpy as np
import pytest
import torch

from scr import NodeClassifier
from scr.engines import LocalEngine, Needs
from scr.engines._board import MOST_STARTS, Board
from scr.errors import ConfigError, RunError, StoreError
from scr.sources._digits import digits
from scr.training import GroupOfWorkers, check_together, fit, graph_facts, resolve, workers_of
from scr.training._inductive import InductiveRows
from scr.training._rows import Rows
from scr.training._together import _check_folder, _pack


@cache
def small_digits():
    return digits(seed=0)


def recipe_of(encoder="mlp", regularizer="scr", **sections):
    sections["training"] = {"epochs": 6, "evaluate_every": 2, **sections.get("training", {})}
    sections["consistency"] = {"warmup": 0, **sections.get("consistency", {})}
    if regularizer == "none":
        del sections["consistency"]
    facts = graph_facts(small_digits())
    return resolve(facts, encoder=encoder, regularizer=regularizer, layers=[sections])


def same(one, other):
    first, second = one.encoder.state_dict(), other.encoder.state_dict()
    return all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(
    ("encoder", "sections"),
    [
        ("mlp", {}),
        ("gamlp", {"stages": {"method": "rlu", "count": 2}, "propagation": {"label_hops": 2}}),
        ("mlp", {"training": {"inductive": True}}),
        ("mlp", {"training": {"refit": True}, "consistency": {"trust": "compared", "warmup": 0}}),
    ],
)
def test_a_group_of_one_ends_in_the_weights_of_this_process(encoder, sections):
    recipe, epochs = recipe_of(encoder, **sections), []
    alone = fit(small_digits(), recipe, seed=1)
    workers = GroupOfWorkers(LocalEngine(), 1, Needs(cores=torch.get_num_threads()))
    sent = fit(small_digits(), recipe, seed=1, workers=workers, on_epoch=epochs.append)
    assert same(alone, sent)
    assert [r["valid_loss"] for r in alone.outcome.history] == [
        r["valid_loss"] for r in sent.outcome.history
    ]
    assert len(epochs) >= 6


def test_workers_stop_when_asked_and_resume(tmp_path):
    recipe, file = recipe_of(), tmp_path / "checkpoint.safetensors"
    workers = GroupOfWorkers(LocalEngine(), 1, Needs(cores=torch.get_num_threads()))
    epochs = []
    stopped = fit(
        small_digits(), recipe, seed=1, workers=workers, checkpoint=file,
        on_epoch=epochs.append, should_stop=lambda: len(epochs) == 3,
    )  # fmt: skip
    assert stopped.outcome.stopped == "interrupted"
    resumed = fit(small_digits(), recipe, seed=1, workers=workers, checkpoint=file)
    assert same(resumed, fit(small_digits(), recipe, seed=1))


def test_hops_of_a_file_are_read_from_it_and_not_sent(tmp_path):
    hops = np.random.default_rng(0).random((50, 2, 3)).astype(np.float32)
    np.save(tmp_path / "hops.npy", hops)
    mapped = np.load(tmp_path / "hops.npy", mmap_mode="r")
    packed = _pack(Rows(mapped, classes=3))
    assert packed.fields["hops"] is None
    rows = packed.unpack()
    assert rows.on_disk
    assert torch.equal(rows.batch(torch.tensor([7, 3])).hops, torch.from_numpy(hops[[7, 3]]))
    both = _pack(InductiveRows(Rows(hops, classes=3), Rows(mapped, classes=3))).unpack()
    assert both.trained.on_disk is False
    assert both.scored.on_disk
    (tmp_path / "hops.npy").unlink()
    with pytest.raises(StoreError, match="cannot read the hops"):
        packed.unpack()


def test_a_folder_that_a_worker_does_not_see_is_named(tmp_path):
    with pytest.raises(RunError, match=r"no folder .* on the worker's machine"):
        _check_folder(tmp_path / "elsewhere" / "checkpoint.safetensors")


@pytest.mark.parametrize(
    ("encoder", "regularizer", "reason"),
    [
        ("gcn", "none", "`local` with `gcn`, which reads the graph"),
        ("ssgc", "grand", "drops nodes"),
    ],
)
def test_what_reads_the_graph_is_refused(encoder, regularizer, reason):
    with pytest.raises(ConfigError, match=reason):
        check_together(recipe_of(encoder, regularizer))
    with pytest.raises(ConfigError, match=reason):
        NodeClassifier(encoder, regularizer).fit(small_digits(), engine="ray")


def test_a_module_of_ones_own_is_refused():
    classifier = NodeClassifier(lambda shape: torch.nn.Linear(shape.features, shape.classes))
    with pytest.raises(ConfigError, match="with a module of your own"):
        classifier.fit(small_digits(), engine="ray")


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"workers": 2}, "`workers` is 2; expected none with the engine `local`"),
        ({"workers": 0, "engine": "ray"}, "`workers` is 0"),
        ({"worker_cores": 0}, "`worker_cores` is 0"),
        ({"address": "auto"}, "`address` is 'auto'"),
        ({"engine": "dask"}, "`engine` is 'dask'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, reason):
    with pytest.raises(ConfigError, match=reason):
        NodeClassifier("mlp").fit(small_digits(), **settings)


def test_an_engine_that_is_open_has_as_many_workers_as_it_has_room_for():
    with workers_of(LocalEngine(3), cores=2) as group:
        assert (group.workers, group.needs.cores) == (3, 2)


def test_a_board_gives_up_on_workers_that_are_lost_again_and_again():
    board = Board()
    assert all(board.begin() for _ in range(MOST_STARTS))
    board.send(b"epoch 1", 1)
    for _ in range(MOST_STARTS - 1):
        assert board.begin()
        board.send(b"epoch 1", 1)  # again, which is no progress
    board.note("MemoryError")
    assert not board.begin()
    kind, text = board.result()
    assert kind == "lost"
    assert text.endswith("MemoryError")


def test_of_a_board_the_first_error_counts():
    board = Board()
    board.end("error", b"first")
    board.end("finished", b"second")
    assert not board.begin()
    assert board.result() == ("error", b"first")


def test_a_board_hands_over_each_message_once():
    board = Board()
    assert board.take(False) == ([], False)
    board.begin()
    board.send(b"one", 1)
    assert board.take(False) == ([b"one"], True)
    assert board.take(True) == ([], True)
    assert board.stops()
    assert board.result() == ("lost", None)


def test_a_run_with_other_workers_says_so(tmp_path):
    recipe, file = recipe_of(), tmp_path / "checkpoint.safetensors"
    fit(small_digits(), recipe, seed=1, checkpoint=file, should_stop=lambda: True)
    workers = GroupOfWorkers(LocalEngine(), 2, Needs(cores=torch.get_num_threads()))
    with pytest.warns(UserWarning, match="workers 1 before, 2 now"):
        fitted = fit(small_digits(), recipe, seed=1, checkpoint=file, workers=workers)
    assert dataclasses.is_dataclass(fitted)
