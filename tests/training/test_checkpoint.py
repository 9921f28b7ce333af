"""Checkpoints: what goes in comes out, and a damaged one says so."""

import pytest
import torch
from torch import nn

from scr.errors import StoreError
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
