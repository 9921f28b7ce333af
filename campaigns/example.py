"""A campaign to copy: sums that Python and numpy must agree on."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from campaigns._campaign import Campaign, Result


class Example(Campaign):
    """Sums of random integers, by numpy and by Python."""

    name = "example"
    title = "sums of integers, by numpy and by Python"
    cases = 50
    minutes = 0.1
    good = frozenset({"equal"})

    def run(self, number: int, random: np.random.Generator, folder: Path) -> Result:
        """Sum up to a thousand integers twice."""
        values = random.integers(-(2**40), 2**40, int(random.integers(1, 1000)))
        is_equal = int(values.sum()) == sum(values.tolist())
        what = f"{values.size} integers"
        return Result(outcome="equal" if is_equal else "different", kind="sum", what=what)
