"""Checkpoints: what goes in comes out, and a damaged one says so."""

import pytest
import torch
from tests.conftest import make_random_graph
from torch import nn

from scr.errors import ResumeWarning, StoreError
from scr.training import fit, graph_facts, read_tensors, resolve
from scr.training._checkpoint import Checkpoint


def trained():
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(4, 3)).square().sum().backward()
        optimizer.step()
    return model, optimizer


def test_an_optimizer_continues_from_a_checkpoint_as_if_never_stopped(tmp_path):
    model, optimizer = trained()
    state = Checkpoint(values={"epoch": 3})
    state.put("model", model.state_dict())
    state.put_optimizer(optimizer)
    state.write(tmp_path / "state")
    read = Checkpoint.read(tmp_path / "state")
    copy = nn.Linear(3, 2)
    copy.load_state_dict(read.get("model"))
    resumed = torch.optim.Adam(copy.parameters(), lr=0.1)
    read.load_optimizer(resumed)
    rows = torch.randn(4, 3)
    for network, stepper in ((model, optimizer), (copy, resumed)):
        stepper.zero_grad()
        network(rows).square().sum().backward()
        stepper.step()
    assert torch.equal(model.weight, copy.weight)
    assert read.values == {"epoch": 3}


def test_a_truncated_checkpoint_is_refused_with_a_way_out(tmp_path):
    model, _ = trained()
    state = Checkpoint()
    state.put("model", model.state_dict())
    path = tmp_path / "state"
    state.write(path)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(StoreError, match=r"cannot be read(.|\n)*remove it"):
        Checkpoint.read(path)


def test_a_failed_write_leaves_the_old_checkpoint(tmp_path, monkeypatch):
    path = tmp_path / "state"
    Checkpoint({"a": torch.ones(1)}).write(path)
    before = path.read_bytes()

    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StoreError, match="disk is too full"):
        Checkpoint({"a": torch.zeros(1)}).write(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_the_same_state_is_the_same_file(tmp_path):
    model, _ = trained()
    for name in "ab":
        state = Checkpoint(values={"epoch": 3}, identity="x")
        state.put("model", model.state_dict())
        state.write(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_changed_tensor_is_found_by_the_checksum(tmp_path):
    path = tmp_path / "state"
    Checkpoint({"a": torch.zeros(4)}, {"epoch": 3}).write(path)
    content = bytearray(path.read_bytes())
    content[-1] ^= 0x40
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"has changed since it was written(.|\n)*remove it"):
        Checkpoint.read(path)


def test_a_checkpoint_without_what_a_run_needs_is_refused(tmp_path):
    graph, path = make_random_graph(), tmp_path / "checkpoint.safetensors"
    recipe = resolve(
        graph_facts(graph), encoder="ssgc", regularizer="scr", layers=[{"training": {"epochs": 2}}]
    )
    fit(graph, recipe, checkpoint=path, should_stop=lambda: True)
    state = read_tensors(path, what="checkpoint")
    whole = Checkpoint.read(path, state[1]["identity"])
    for change in ({"progress": 3}, {"threshold": "x"}):
        values = {**whole.values, **change}
        Checkpoint(whole.tensors, values, whole.identity).write(path)
        with pytest.raises(StoreError, match=r"checkpoint\.safetensors"):
            fit(graph, recipe, checkpoint=path)
    missing = {name: tensor for name, tensor in whole.tensors.items() if "student" not in name}
    Checkpoint(missing, whole.values, whole.identity).write(path)
    with pytest.raises(StoreError, match=r"checkpoint\.safetensors` is damaged"):
        fit(graph, recipe, checkpoint=path)


def test_a_run_resumed_with_other_threads_says_so_and_goes_on(tmp_path):
    graph, path = make_random_graph(), tmp_path / "checkpoint.safetensors"
    recipe = resolve(graph_facts(graph), encoder="ssgc", layers=[{"training": {"epochs": 3}}])
    seen = []

    def stop_after(epochs):
        seen.clear()
        return {"on_epoch": seen.append, "should_stop": lambda: len(seen) == epochs}

    fit(graph, recipe, checkpoint=path, **stop_after(1))
    assert "last bits" not in " ".join(fit(graph, recipe, checkpoint=path, **stop_after(1)).notes)
    torch.set_num_threads(2)
    with pytest.warns(ResumeWarning, match=r"threads 1 before, 2 now.*last bits"):
        fit(graph, recipe, checkpoint=path, **stop_after(0))
    torch.set_num_threads(1)
    # Also where the last part has the threads of the first.
    with pytest.warns(ResumeWarning, match="threads 2 before, 1 now"):
        fitted = fit(graph, recipe, checkpoint=path)
    assert any("last bits" in note for note in fitted.notes)
    assert fitted.outcome.epochs == 3
