"""Tests that are run again with many seeds, as long as somebody has patience: `make stress`."""

from __future__ import annotations

import pytest
from hypothesis import settings


def seeds(count: int) -> pytest.MarkDecorator:
    """Parametrize a test by `seed`: 0 always, the others with `make stress` alone."""
    others = [pytest.param(seed, marks=pytest.mark.stress) for seed in range(1, count)]
    return pytest.mark.parametrize("seed", [0, *others])


def examples(count: int) -> settings:
    """So many random inputs for a test that needs fewer than the profile has; more for stress."""
    profiles = [settings.get_profile(name).max_examples for name in ("stress", "ci")]
    is_stress = settings.default.max_examples == profiles[0]
    return settings(max_examples=count * profiles[0] // profiles[1] if is_stress else count)
