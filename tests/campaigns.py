"""Tests that are run again with many seeds, as long as somebody has patience: `make stress`."""

from __future__ import annotations

import pytest


def seeds(count: int) -> pytest.MarkDecorator:
    """Parametrize a test by `seed`: 0 always, the others with `make stress` alone."""
    others = [pytest.param(seed, marks=pytest.mark.stress) for seed in range(1, count)]
    return pytest.mark.parametrize("seed", [0, *others])
