"""The streamed forward pass: predictions for any number of rows in bounded memory.

Whoever needs less than all logits, such as the nodes that a model is sure of, takes them part by
part from `stream_logits`. Rows on disk are read while the part before is computed.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable

import torch
from torch import Tensor, nn

from scr.training._row_source import RowSource

ROWS_AT_ONCE = 16_384
"""Rows of one forward pass: enough for full speed, and hidden layers stay small."""


def stream_logits(
    model: nn.Module, rows: RowSource, index: Tensor, *, at_once: int = ROWS_AT_ONCE
) -> Generator[tuple[Tensor, Tensor]]:
    """Yield parts of `index`, in order, each with its logits without dropout, on the CPU.

    Between two parts the model is in evaluation mode; at the end it is in the mode that it was in.
    """
    if len(index) == 0:
        return
    was_training = model.training
    model.eval()
    try:
        yield from rows.stream_logits(model, index, at_once)
    finally:
        model.train(was_training)


def predict_logits(
    model: nn.Module, rows: RowSource, index: Tensor, *, at_once: int = ROWS_AT_ONCE
) -> Tensor:
    """Logits without dropout, on the CPU, in the order of `index`.

    The model is left in the mode (training or evaluation) that it was in.

    Returns:
        Shape (len(index), classes).
    """
    return _filled(stream_logits(model, rows, index, at_once=at_once), len(index), rows.classes)


def predict_probabilities(
    model: nn.Module, rows: RowSource, index: Tensor, *, at_once: int = ROWS_AT_ONCE
) -> Tensor:
    """Class probabilities without dropout; see `predict_logits`."""
    parts = stream_logits(model, rows, index, at_once=at_once)
    probabilities = ((part, torch.softmax(logits, dim=-1)) for part, logits in parts)
    return _filled(probabilities, len(index), rows.classes)


def _filled(parts: Iterable[tuple[Tensor, Tensor]], rows: int, columns: int) -> Tensor:
    """What belongs to parts of an index, below each other."""
    filled, start = torch.empty(rows, columns), 0
    for part, values in parts:
        filled[start : start + len(part)] = values
        start += len(part)
    return filled
