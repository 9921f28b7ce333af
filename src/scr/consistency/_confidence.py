"""Confidence-based masking: only nodes that the model is sure of take part in the consistency term.

The confident set is drawn from all rows that are not training nodes, refreshed every few epochs by
one pass without dropout, and the threshold that a node must reach may fall during training. Of a
graph with very many nodes, that pass would take longer than the epochs between two of them, so it
may score a sample of the rows, a fresh one each time, from which the set is then drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from scr.compute import current_group
from scr.errors import ConfigError

ROUNDING = 1e-2
"""By how much a probability in half precision may be above 1."""


def confidence_mask(probabilities: Tensor, threshold: float) -> Tensor:
    r"""Which rows have a class that is at least as likely as the threshold.

    Equation: SCR, confident node set (docs/equations.md#confident-set)
        V_C = { i in V_U : max_c ybar_i[c] >= eta }

    Args:
        probabilities: Unsharpened pseudo labels, shape (nodes, classes).
        threshold: eta in [0, 1].
    """
    return probabilities.amax(dim=-1) >= threshold


def threshold_at(epoch: int, epochs: int, start: float, end: float | None = None) -> float:
    """The threshold of one epoch: constant, or a straight line from `start` to `end`.

    Args:
        epoch: Counted from 0.
        epochs: How many there are in all.
        start: eta of the first epoch.
        end: eta of the last epoch; none keeps `start`.

    Examples:
        >>> [round(threshold_at(epoch, 3, 0.9, 0.8), 2) for epoch in range(3)]
        [0.9, 0.85, 0.8]
    """
    if end is None or epochs <= 1:
        return start
    return start + (end - start) * min(epoch / (epochs - 1), 1.0)


class ConfidentSet:
    """The unlabeled nodes that are confident enough, kept up to date through training.

    Usable in anybody's loop:

        confident = ConfidentSet(~train_mask, threshold=0.9, threshold_end=0.8, refresh=20)
        for epoch in range(epochs):
            if confident.due(epoch):
                confident.update(predict_proba, epoch, epochs)
            nodes = confident.sample(256)

    Its `state_dict` belongs into the checkpoint of a loop that may be resumed.
    """

    def __init__(
        self,
        candidates: Tensor | ArrayLike,
        *,
        threshold: float = 0.0,
        threshold_end: float | None = None,
        refresh: int = 20,
        sample: int | None = None,
        seed: int = 0,
    ) -> None:
        """Start with every candidate in the set.

        Args:
            candidates: Indices of the unlabeled nodes, shape (nodes,); or a mask of all nodes. A
                tensor, a numpy array or a list.
            threshold: eta, or its first value.
            threshold_end: Last value of eta; none keeps it constant.
            refresh: beta, epochs between two updates.
            sample: Candidates that are scored at each update; none: all.
            seed: Decides, with the epoch, which those are.
        """
        for name, value in (("refresh", refresh), ("refresh_sample", sample)):
            if value is not None and value < 1:
                raise ConfigError(f"consistency.{name}", value, "a whole number of at least 1")
        for name, share in (("threshold", threshold), ("threshold_end", threshold_end)):
            if share is not None and not 0 <= share <= 1:
                raise ConfigError(f"consistency.{name}", share, "a number in [0, 1]")
        self.candidates = self.nodes = _numbers(candidates)
        self.start, self.end = threshold, threshold_end
        self.threshold, self.refresh = threshold, refresh
        self.scored_at_once, self.seed = sample, seed

    @property
    def selective(self) -> bool:
        """Whether any threshold can leave a node out; if not, no scoring pass is needed."""
        return self.start > 0 or (self.end or 0) > 0

    def due(self, epoch: int, *, first: int = 0) -> bool:
        """Whether the set should be refreshed before this epoch, counted from 0.

        The first epoch in which the set is used, after the warm-up, is `first`.
        """
        return self.selective and epoch >= first and (epoch - first) % self.refresh == 0

    def to_score(self, epoch: int) -> Tensor:
        """The candidates that an update before this epoch is about, in their order.

        All of them, or a sample that depends on the seed and the epoch alone: a resumed run draws
        the same, and no other draw of the run changes.
        """
        size = self.scored_at_once
        if size is None or size >= len(self.candidates):
            return self.candidates
        generator = np.random.default_rng([self.seed, epoch])
        drawn = generator.choice(len(self.candidates), size, replace=False, shuffle=False)
        return self.candidates[torch.from_numpy(np.sort(drawn)).to(self.candidates.device)]

    def update(
        self,
        probabilities: Tensor | ArrayLike | Callable[[Tensor], Tensor | ArrayLike],
        epoch: int | None = None,
        epochs: int | None = None,
    ) -> None:
        """Choose the confident nodes by fresh predictions, without dropout.

        Args:
            probabilities: Of the nodes of `to_score`, in their order, shape (nodes, classes); or a
                function from these nodes to that.
            epoch: Counted from 0; a threshold that does not change needs neither this nor `epochs`.
            epochs: How many there are in all.
        """
        if self.end is not None and (epoch is None or epochs is None):
            raise ConfigError(
                "epochs" if epochs is None else "epoch", None,
                "a whole number where `threshold_end` is set, since the threshold changes by epoch",
                hint="give both: `confident.update(probabilities, epoch, epochs)`",
            )  # fmt: skip
        epoch, epochs = epoch or 0, epochs or 1
        scored = self.to_score(epoch)
        given = probabilities(scored) if callable(probabilities) else probabilities
        rows = _as_tensor("probabilities", given)
        if rows.ndim != 2 or len(rows) != len(scored):
            raise ConfigError(
                "probabilities", f"of shape {tuple(rows.shape)}",
                f"one row per candidate, {len(scored)}, and a column per class",
                hint="of all nodes' probabilities, take `probabilities[confident.to_score(epoch)]`",
            )  # fmt: skip
        if rows.numel() and not bool(((rows >= 0) & (rows <= 1 + ROUNDING)).all()):
            found = f"numbers from {float(rows.min()):.3g} to {float(rows.max()):.3g}"
            hint = "take the softmax of logits"
            raise ConfigError("probabilities", found, "class probabilities", hint=hint)
        self.update_by_parts([rows.detach()], epoch, epochs)

    def update_by_parts(self, parts: Iterable[Tensor], epoch: int, epochs: int) -> None:
        """The same, by predictions that come part by part and need not be held together.

        Parts are probabilities of shape (nodes, classes), of all nodes of `to_score`, in order; in
        a group of processes, of the share of these nodes that is this one's.
        """
        scored = self.to_score(epoch)
        threshold = threshold_at(epoch, epochs, self.start, self.end)
        masks = [confidence_mask(part, threshold).to(scored.device) for part in parts]
        mask = torch.cat(masks) if masks else torch.zeros(0, dtype=torch.bool)
        group = current_group()
        if len(mask) == len(scored[group.share(len(scored))]):
            mask = group.join(mask, len(scored))
        if len(mask) != len(scored):
            raise ConfigError("probabilities", len(mask), f"one row per candidate, {len(scored)}")
        self.threshold = threshold
        self.nodes = scored[mask]

    def sample(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw some of the confident nodes, without replacement.

        Args:
            count: How many; where there are fewer, all of them are given, in their order.
            generator: Decides which; none: torch's own.
        """
        if count >= len(self.nodes):
            return self.nodes
        device = self.nodes.device if generator is None else generator.device
        drawn = torch.randperm(len(self.nodes), generator=generator, device=device)[:count]
        return self.nodes[drawn.to(self.nodes.device)]

    def __len__(self) -> int:
        return len(self.nodes)

    def state_dict(self) -> dict[str, Tensor]:
        """What changes through training, as tensors for a checkpoint."""
        return {
            "nodes": self.nodes.clone(),
            "threshold": torch.tensor(self.threshold, dtype=torch.float64),
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Put back what `state_dict` gave."""
        missing = [name for name in ("nodes", "threshold") if name not in state]
        if missing:
            raise ConfigError("state", sorted(state), f"`{missing[0]}` among its names")
        nodes = state["nodes"].to(self.candidates.device)
        if len(nodes) and not bool(torch.isin(nodes, self.candidates).all()):
            raise ConfigError(
                "state",
                "nodes that are not candidates",
                "the state of a set of the same candidates",
            )
        self.restore(nodes, float(state["threshold"]))

    def restore(self, nodes: Tensor, threshold: float) -> None:
        """Put back a set that was saved in the middle of training."""
        self.nodes = nodes.to(torch.int64)
        self.threshold = threshold


def _numbers(candidates: Tensor | ArrayLike) -> Tensor:
    """Node numbers, also of a mask."""
    numbers = _as_tensor("candidates", candidates)
    if numbers.numel() == 0 and not isinstance(candidates, Tensor):
        numbers = numbers.to(torch.int64)  # an empty list has no type
    kind = numbers.dtype
    if numbers.ndim != 1 or kind.is_floating_point or kind.is_complex:
        given = f"{kind} of shape {tuple(numbers.shape)}"
        raise ConfigError("candidates", given, "node numbers, or a mask, of one dimension")
    if kind == torch.uint8:
        raise ConfigError(
            "candidates", "of torch.uint8, which may be a mask or node numbers",
            "a mask of booleans, or node numbers of int64",
            hint="`mask.bool()`, or `numbers.long()`",
        )  # fmt: skip
    return numbers.nonzero()[:, 0] if kind == torch.bool else numbers.to(torch.int64)


def _as_tensor(setting: str, given: Any) -> Tensor:
    """A tensor of what has the form of one; anything else is refused."""
    if isinstance(given, Tensor):
        return given
    try:
        return torch.from_numpy(np.array(given))  # a copy: torch wants to be able to write
    except (TypeError, ValueError):
        raise ConfigError(
            setting, f"a {type(given).__name__}", "a tensor, a numpy array or a list of numbers"
        ) from None
