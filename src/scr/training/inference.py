"""The streamed forward pass: predictions for any number of rows in bounded memory."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from scr.training.rows import Rows

ROWS_AT_ONCE = 16_384
"""Rows of one forward pass: enough for full speed, and hidden layers stay small."""


@torch.no_grad()
def predict_logits(
    model: nn.Module, rows: Rows, index: Tensor, *, at_once: int = ROWS_AT_ONCE
) -> Tensor:
    """Logits without dropout, on the CPU, in the order of `index`.

    The model is left in the mode (training or evaluation) that it was in.

    Returns:
        Shape (len(index), classes).
    """
    was_training = model.training
    model.eval()
    out = torch.empty(len(index), rows.classes)
    for start in range(0, len(index), at_once):
        part = index[start : start + at_once]
        out[start : start + len(part)] = model(rows.batch(part)).cpu()
    model.train(was_training)
    return out


def predict_probabilities(
    model: nn.Module, rows: Rows, index: Tensor, *, at_once: int = ROWS_AT_ONCE
) -> Tensor:
    """Class probabilities without dropout; see `predict_logits`."""
    return torch.softmax(predict_logits(model, rows, index, at_once=at_once), dim=-1)
