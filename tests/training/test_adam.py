"""Our Adam against torch's, bit for bit."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from scr.training._adam import Adam, make_adam
from scr.training._checkpoint import Checkpoint


def model(dtype=torch.float32):
    torch.manual_seed(0)
    return nn.ModuleDict({
        "used": nn.Sequential(nn.Linear(5, 33), nn.PReLU(), nn.Linear(33, 3)).to(dtype),
        "sometimes": nn.Linear(5, 3).to(dtype),
        "never": nn.Linear(2, 2).to(dtype),
        "short": nn.Linear(5, 3).to(torch.bfloat16),
    })  # fmt: skip


def train(module, optimizer, steps, *, first=0):
    generator = torch.Generator().manual_seed(1 + first)
    for step in range(first, first + steps):
        kind = next(module["used"].parameters()).dtype
        rows = torch.randn(7, 5, generator=generator).to(kind)
        output = module["used"](rows)
        if step % 3 == 1:  # a parameter may be without a gradient
            output = output + module["sometimes"](rows)
        loss = output.square().mean() + module["short"](rows.bfloat16()).float().square().mean()
        for group in optimizer.param_groups:
            group["lr"] = 0.01 / (step + 1)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()


def same(one, other):
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return all(torch.equal(first, second) for first, second in pairs)


@given(st.sampled_from([0.0, 1e-3, 0.3]), st.sampled_from([torch.float32, torch.float64]))
def test_steps_are_those_of_torch(weight_decay, dtype):
    ours, theirs = model(dtype), model(dtype)
    adam = make_adam(ours.parameters(), learning_rate=0.01, weight_decay=weight_decay)
    assert isinstance(adam, Adam)
    reference = torch.optim.Adam(
        theirs.parameters(), lr=0.01, weight_decay=weight_decay, fused=True
    )
    train(ours, adam, 12)
    train(theirs, reference, 12)
    assert same(ours, theirs)
    mine, other = adam.state_dict()["state"], reference.state_dict()["state"]
    assert mine.keys() == other.keys()
    for position in mine:
        assert all(
            torch.equal(mine[position][name], value) for name, value in other[position].items()
        )


def test_a_checkpoint_of_either_is_resumed_by_the_other(tmp_path):
    whole = model()
    train(whole, torch.optim.Adam(whole.parameters(), lr=0.01, fused=True), 4)
    for before, after in ((Adam, torch.optim.Adam), (torch.optim.Adam, Adam)):
        module = model()

        def made(kind, module=module):
            if kind is Adam:
                return Adam(module.parameters(), learning_rate=0.01, weight_decay=0.0)
            return torch.optim.Adam(module.parameters(), lr=0.01, fused=True)

        optimizer = made(before)
        train(module, optimizer, 4)
        assert same(module, whole)
        state = Checkpoint()
        state.put_optimizer(optimizer)
        state.write(tmp_path / "checkpoint.safetensors")
        resumed = made(after)
        Checkpoint.read(tmp_path / "checkpoint.safetensors").load_optimizer(resumed)
        train(module, resumed, 3, first=4)
        straight = model()
        reference = torch.optim.Adam(straight.parameters(), lr=0.01, fused=True)
        train(straight, reference, 4)
        train(straight, reference, 3, first=4)
        assert same(module, straight)
