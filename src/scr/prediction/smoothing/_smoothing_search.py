"""Choose the settings of Correct & Smooth by nodes whose labels are not spread.

The search takes a grid of each step alone; then the best correction of each norm goes through the
whole grid of the second step. "Nothing at all" is a candidate too. Of settings with equal accuracy
the plainer one wins: fewer hops, so nothing before any step and one step before both, then the
earlier one in the grid.

Reads `Steps` and the numbers of the nodes that judge; who they are, `smoothing.py` decides.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scr.prediction.smoothing._correct_and_smooth import Matrix
from scr.prediction.smoothing._smoothing_steps import Steps, steps_taken
from scr.training import Norm, PostprocessConfig

ALPHAS = (0.2, 0.5, 0.8, 0.9, 0.95)
NORMS: tuple[Norm, ...] = ("sym", "row", "col")
SCALES = (0.5, 1.0, 2.0, 5.0)
"""Fixed scales tried beside `auto`; the errors are spread once for all of them."""


class _Trial(NamedTuple):
    config: PostprocessConfig
    right: int
    """How many judges are predicted right."""

    @property
    def hops(self) -> int:
        if self.config.method == "none":
            return 0
        correct_hops = self.config.correct_hops if self.config.steps != "smooth" else 0
        return correct_hops + (self.config.smooth_hops if self.config.steps != "correct" else 0)


def search_settings(
    steps: Steps,
    config: PostprocessConfig,
    *,
    spread: NDArray[np.int64],
    judges: NDArray[np.int64],
) -> tuple[PostprocessConfig, list[dict[str, Any]]]:
    """Settings with the most judges right, and all that was tried.

    Args:
        steps: The graph and its predictions.
        config: Settings that are not searched, such as the number of hops.
        spread: Nodes whose labels are spread.
        judges: Nodes whose labels only tell right from wrong; none of them is in `spread`.
    """
    truth, before = steps.labels[judges], steps.probabilities

    def judge(tried: PostprocessConfig, rows: Matrix) -> _Trial:
        return _Trial(tried, int(np.count_nonzero(rows.argmax(axis=1) == truth)))

    trials = [judge(dataclasses.replace(config, method="none"), before[judges])]
    trials += [
        judge(tried, steps.smoothed(before, tried, spread)[judges])
        for tried in _smoothings(dataclasses.replace(config, steps="smooth"))
    ]
    for norm in NORMS:
        corrections = []
        for alpha in ALPHAS:
            tried = dataclasses.replace(
                config, steps="correct", correct_norm=norm, correct_alpha=alpha, scale="auto"
            )
            corrections.append(judge(tried, steps.corrected(tried, spread)[judges]))
            errors = steps.held_errors(tried, spread)[judges]
            for scale in SCALES:
                scaled = dataclasses.replace(tried, scale=scale)
                corrections.append(judge(scaled, before[judges] + np.float32(scale) * errors))
        trials += corrections
        best = min(corrections, key=_rank).config
        corrected = steps.corrected(best, spread)
        trials += [
            judge(tried, steps.smoothed(corrected, tried, spread)[judges])
            for tried in _smoothings(dataclasses.replace(best, steps="both"))
        ]
    records = [
        {**steps_taken(trial.config), "valid_accuracy": trial.right / len(judges)}
        for trial in trials
    ]
    return min(trials, key=_rank).config, records


def _smoothings(config: PostprocessConfig) -> Iterator[PostprocessConfig]:
    for norm, alpha in product(NORMS, ALPHAS):
        yield dataclasses.replace(config, smooth_norm=norm, smooth_alpha=alpha)


def _rank(trial: _Trial) -> tuple[int, int]:
    """Most judges right first, then fewest hops; `min` keeps the first of equals."""
    return -trial.right, trial.hops
