from __future__ import annotations

import pytest

from scr.propagation._walks import Way
from scr.propagation.disk._steps import block_steps

ALONG, AGAINST = Way("out", range(1, 4)), Way("in", range(4, 7))


def described(missing, stored=()):
    """Steps as text: what is loaded or computed, `p` for a part, `s` for a state."""
    steps = block_steps([ALONG, AGAINST], missing, stored)
    return [
        f"{'load' if step.way is None else step.way.direction} {step.place}"
        f"{' p' if step.is_part else ''}{' s' if step.is_state else ''}"
        for step in steps
    ]


def test_a_new_block_loads_the_features_once_for_each_walk():
    assert described(range(7)) == [
        "load 0 p", "out 1 p s", "out 2 p s", "out 3 p", "load 0", "in 4 p s", "in 5 p s", "in 6 p",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("missing", "stored", "expected"),
    [
        ((), (), []),
        ((0,), (), ["load 0 p"]),
        ((3,), (), ["load 0", "out 1 s", "out 2 s", "out 3 p"]),
        ((3,), (1, 2), ["load 2", "out 3 p"]),
        ((2,), (3,), ["load 0", "out 1 s", "out 2 p"]),
        ((5, 6), (1, 2, 4), ["load 4", "in 5 p s", "in 6 p"]),
        ((0, 4), (), ["load 0 p", "in 4 p"]),
    ],
)
def test_a_walk_begins_after_the_last_stored_hop_and_ends_with_the_last_missing(
    missing, stored, expected
):
    assert described(missing, stored) == expected
