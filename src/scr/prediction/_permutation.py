"""What a part of the input is worth: the accuracy that is lost when it is shuffled among nodes.

Weights say what a model looks at, not what it needs: what two hops say alike counts twice in the
weights and is lost by shuffling neither. So both are shown. Shuffled rows keep their distribution,
which zeros would not, and several matrices of a part are shuffled alike, so that they still fit
each other.

Paper: Breiman 2001, "Random forests", Machine Learning 45 (for variables).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from scr.encoders import HopBatch

REPEATS = 3
"""Shuffles of each part; their spread says how far to trust the mean."""

What = Literal["hop", "subset", "mixture", "labels"]


@dataclass(frozen=True)
class Part:
    """Some matrices of a row."""

    what: What
    name: str
    positions: tuple[int, ...] = ()
    """Matrices of the hops; of propagated labels, all are one part."""


@dataclass(frozen=True)
class Drop:
    """Accuracy without shuffling minus accuracy with, in 0..1; below 0 where a part misleads."""

    what: What
    name: str
    mean: float
    spread: float
    """Standard deviation over the shuffles."""


def permutation_drops(
    encoder: nn.Module, batch: HopBatch, labels: Tensor, parts: Iterable[Part], *, seed: int = 0
) -> tuple[float, list[Drop]]:
    """Accuracy of an encoder in evaluation mode, and what each part adds to it.

    Hops of the batch are shuffled in place, and as they were at the end.
    """
    generator = torch.Generator().manual_seed(seed)

    def accuracy() -> float:
        with torch.no_grad():
            return float((encoder(batch).argmax(1) == labels).double().mean())

    before = accuracy()
    drops = []
    for part in parts:
        lost = torch.tensor(
            [before - accuracy() for _ in _shuffles(batch, part, generator)], dtype=torch.float64
        )
        drops.append(Drop(part.what, part.name, float(lost.mean()), float(lost.std(correction=0))))
    return before, drops


def _shuffles(batch: HopBatch, part: Part, generator: torch.Generator) -> Iterator[None]:
    """Shuffle a part of the batch anew at each step, and put it back in the end."""
    if part.what == "labels":
        assert batch.labels is not None
        shuffled, positions = batch.labels, list(range(batch.labels.shape[1]))
    else:
        shuffled, positions = batch.hops, list(part.positions)
    original = shuffled[:, positions].clone()
    try:
        for _ in range(REPEATS):
            order = torch.randperm(len(batch), generator=generator).to(original.device)
            shuffled[:, positions] = original[order]
            yield
    finally:
        shuffled[:, positions] = original
