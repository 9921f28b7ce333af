"""Views and their average."""

import torch
from torch import nn

from scr.consistency import average_views, noisy_views, weak_view


def test_the_average_is_of_probabilities_not_of_logits():
    logits = torch.tensor([[[0.9, 0.1]], [[0.3, 0.7]]]).log()
    torch.testing.assert_close(average_views(logits), torch.tensor([[0.6, 0.4]]))


def test_views_differ_by_dropout_alone():
    torch.manual_seed(0)
    model = nn.Dropout(0.5)
    rows = torch.ones(4, 50)
    views = noisy_views(model, rows, 3)
    assert views.shape == (3, 4, 50)
    assert not torch.equal(views[0], views[1])
    model.eval()
    views = noisy_views(model, rows, 2)
    assert torch.equal(views[0], views[1])


def test_a_weak_view_is_the_model_without_dropout():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2))
    model[1].eval()  # a part that is frozen stays so
    rows = torch.randn(5, 3)
    weak = weak_view(model, rows)
    assert [module.training for module in model] == [True, False, True, True]
    assert not weak.requires_grad
    assert torch.equal(weak, model.eval()(rows).softmax(dim=-1))
    model.train()
    assert not torch.equal(weak_view(model, rows, dropout=True), weak)
    assert int(model[1].num_batches_tracked) == 0
