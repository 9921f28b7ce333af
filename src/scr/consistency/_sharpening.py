"""Sharpening: a pseudo label with less entropy asks the model to make up its mind."""

from __future__ import annotations

import torch
from torch import Tensor

from scr.errors import ConfigError


def sharpen(probabilities: Tensor, temperature: float) -> Tensor:
    r"""Push each class distribution towards its most likely class.

    Equation: SCR, sharpening of the pseudo label (docs/equations.md#sharpen)
        q_ic = p_ic^(1/T) / sum_c' p_ic'^(1/T)

    Args:
        probabilities: p, one distribution per row. Shape (nodes, classes).
        temperature: T in (0, 1]; 1 returns p unchanged.
    """
    if not 0 < temperature <= 1:
        raise ConfigError("consistency.temperature", temperature, "a number in (0, 1]")
    if temperature == 1:
        return probabilities
    # Log space: p^(1/T) underflows to 0/0 in half precision with many classes and small T.
    return torch.softmax(probabilities.log() / temperature, dim=-1)
