"""Which members are averaged."""

import numpy as np
import pytest

from scr.metrics import METRICS
from scr.tuning._weights import MOST_MEMBERS, chosen_members, score

LABELS = np.tile([0, 1], 100)


def predictions(right: int, *, shift: int = 0, sure: float = 0.9) -> np.ndarray:
    """Probabilities of two classes that are right on so many of 200 nodes, from `shift` on."""
    is_right = np.roll(np.arange(len(LABELS)) < right, shift)
    of_label = np.where(is_right, sure, 1 - sure)
    return np.where(LABELS[:, None] == [0, 1], of_label[:, None], 1 - of_label[:, None])


def test_a_member_that_is_clearly_worse_stays_out():
    # 40 of 200 nodes fewer: 4 standard errors of the difference of 0.2 (sqrt(0.16 / 200) = 0.028).
    assert chosen_members(LABELS, [predictions(180), predictions(140)]) == [0]


def test_members_that_are_about_as_good_are_averaged():
    several = [predictions(180), predictions(178, shift=7), predictions(176, shift=13)]
    assert chosen_members(LABELS, several) == [0, 1, 2]


def test_at_most_so_many_are_averaged():
    assert len(chosen_members(LABELS, [predictions(180)] * 9)) == MOST_MEMBERS


def test_one_that_outvotes_the_others_wrongly_stays_out():
    # About as often right as the best, but elsewhere, and so sure that the average follows it.
    best = predictions(170, sure=0.51)
    loud = predictions(166, shift=100, sure=0.999)
    assert chosen_members(LABELS, [best, loud]) == [0]


def test_what_counts_is_the_metric():
    sure, vague = predictions(170, sure=0.8), predictions(172, sure=0.501)
    assert score(METRICS["accuracy"], LABELS, vague) > score(METRICS["accuracy"], LABELS, sure)
    assert score(METRICS["log-loss"], LABELS, vague) < score(METRICS["log-loss"], LABELS, sure)
    assert chosen_members(LABELS, [vague, sure]) == [0, 1]
    # -0.69 a node against -0.43: clearly worse by log-loss.
    assert chosen_members(LABELS, [sure, vague], METRICS["log-loss"]) == [0]


def test_scores_are_those_of_the_metric():
    assert score(METRICS["accuracy"], LABELS, predictions(150)) == pytest.approx(0.75)
    expected = -(0.75 * np.log(0.9) + 0.25 * np.log(0.1))
    assert score(METRICS["log-loss"], LABELS, predictions(150)) == pytest.approx(-expected)
