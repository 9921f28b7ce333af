"""Algorithm 1's mixed batches: labelled nodes and confident unlabelled ones, step by step.

An epoch is one pass over the labelled nodes in a fresh order. Beside each part goes a part of the
confident set. All draws come from one seeded generator on the CPU, so they are the same on every
device.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor


def epoch_batches(
    labelled: int,
    confident: Tensor,
    *,
    batch_size: int,
    unlabelled_per_batch: int | Literal["proportional"],
    generator: torch.Generator,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield, per step, positions among the labelled nodes and confident nodes.

    Parts are as even as can be: a last batch of a single row would break BatchNorm.

    Args:
        labelled: How many labelled nodes there are.
        confident: Indices of the confident nodes; empty: no unlabelled rows at all.
        batch_size: N_L, or N_L + N_U with `proportional`.
        unlabelled_per_batch: N_U; `proportional` cuts both pools into equally many parts, of which
            there are at most as many as labelled nodes.
        generator: Source of the order.

    Yields:
        Positions in [0, labelled), and indices out of `confident`.
    """
    if unlabelled_per_batch == "proportional":
        total = labelled + len(confident)
        steps = min(-(-total // batch_size), labelled)  # every step needs a labelled row
        per_step = -(-len(confident) // steps)
    else:
        steps = -(-labelled // batch_size)
        per_step = min(unlabelled_per_batch, len(confident))
    order = torch.randperm(labelled, generator=generator)
    drawn = _draw(confident, steps * per_step, generator)
    for step, part in enumerate(order.tensor_split(steps)):
        yield part, drawn[step * per_step : (step + 1) * per_step]


def _draw(pool: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draw without replacement, going through the pool again only when it is used up."""
    parts: list[Tensor] = []
    while count > 0:
        part = pool[torch.randperm(len(pool), generator=generator)[:count]]
        parts.append(part)
        count -= len(part)
    return torch.cat(parts) if parts else pool[:0]
