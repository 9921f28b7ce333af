"""The consistency term: the paper's sum, its gradient, its edges."""

import pytest
import torch
from torch import nn

from scr.consistency import ConsistencyLoss
from scr.errors import ConfigError


def logits(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_term_is_the_papers_double_sum():
    views = logits(3, 4, 5)
    predictions = views.softmax(-1)
    pseudo = predictions.mean(0) ** 2
    pseudo /= pseudo.sum(-1, keepdim=True)  # T = 1/2
    total = 0.0
    for s in range(3):
        for i in range(4):
            total += float(((pseudo[i] - predictions[s, i]) ** 2).sum())
    expected = 0.7 * total / (3 * 4)
    assert ConsistencyLoss(0.7, 0.5)(views).item() == pytest.approx(expected)


def test_a_teacher_replaces_the_average():
    views, teacher = logits(1, 4, 5), logits(4, 5, seed=1).softmax(-1)
    sharp = teacher**2 / (teacher**2).sum(-1, keepdim=True)
    expected = ((views.softmax(-1)[0] - sharp) ** 2).sum(-1).mean()
    torch.testing.assert_close(ConsistencyLoss(1.0, 0.5)(views, teacher), expected)


def test_no_gradient_goes_through_the_pseudo_label():
    views = logits(2, 3, 4).requires_grad_()
    (ours,) = torch.autograd.grad(ConsistencyLoss(1.0, 0.5)(views), views)
    fixed = views.detach().softmax(-1).mean(0) ** 2
    fixed /= fixed.sum(-1, keepdim=True)
    loss = ((views.softmax(-1) - fixed) ** 2).sum(-1).mean()
    (expected,) = torch.autograd.grad(loss, views)
    torch.testing.assert_close(ours, expected)


def test_an_empty_confident_set_is_no_term_and_no_crash():
    views = torch.zeros(2, 0, 4, requires_grad=True)
    loss = ConsistencyLoss()(views)
    loss.backward()
    assert loss.item() == 0.0


def test_two_dimensional_logits_are_one_view():
    single = logits(3, 4)
    loss = ConsistencyLoss(1.0, 0.4)
    assert loss(single) == loss(single.unsqueeze(0))


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"distance": "l1"}, "distance"),
        ({"weight": -1}, "weight"),
        ({"temperature": 0}, "temperature"),
    ],
)
def test_bad_settings_are_named(settings, named):
    with pytest.raises(ConfigError, match=named):
        ConsistencyLoss(**settings)


def test_it_works_in_a_plain_torch_loop():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    rows, loss = torch.randn(64, 4), ConsistencyLoss(1.0, 0.5)

    def disagreement():
        with torch.no_grad():
            views = torch.stack([model(rows).softmax(-1) for _ in range(20)])
        return views.var(0).sum().item()

    before = disagreement()
    for _ in range(50):
        optimizer.zero_grad()
        loss(torch.stack([model(rows), model(rows)])).backward()
        optimizer.step()
    assert disagreement() < 0.8 * before
