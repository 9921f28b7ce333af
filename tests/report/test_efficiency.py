"""Curves of kept weights and when they reach a mark, against curves made by hand."""

import csv
import io

import pytest

from scr.report import (
    KeptCurve,
    efficiency_csv,
    efficiency_sentences,
    kept_curve,
    mean_curve,
    reaches,
)
from scr.report._efficiency import efficiency_cells
from scr.selection import Selection


def epochs(*scores, stage=1, before=0, every=1, seconds=2.0):
    """One record per epoch; each `every`-th has (validation, test) and perhaps a loss."""
    records = []
    for place, (valid, test, *loss) in enumerate(scores):
        for step in range(every):
            epoch = before + place * every + step + 1
            records.append({"epoch": epoch, "stage": stage, "seconds": seconds})
        records[-1] |= {"valid_accuracy": valid, "test_accuracy": test}
        records[-1] |= {"valid_loss": loss[0]} if loss else {}
    return records


def test_the_curve_is_the_test_accuracy_at_the_best_validation_so_far():
    run = epochs((0.5, 0.4), (0.7, 0.6), (0.6, 0.9), (0.8, 0.5))
    curve = kept_curve(run, [Selection(epochs=4)])
    assert curve.valid.tolist() == [0.5, 0.7, 0.7, 0.8]
    assert curve.test.tolist() == [0.4, 0.6, 0.6, 0.5]  # 0.9 was never kept: validation did not ask
    assert curve.epochs.tolist() == [1, 2, 3, 4]
    assert curve.seconds.tolist() == [2, 4, 6, 8]


def test_equal_validation_accuracy_is_decided_by_the_lower_loss():
    run = epochs((0.5, 0.4, 1.0), (0.5, 0.6, 1.2), (0.5, 0.7, 0.9))
    assert kept_curve(run, [Selection(epochs=3)]).test.tolist() == [0.4, 0.4, 0.7]


def test_seconds_of_epochs_without_an_evaluation_count():
    curve = kept_curve(epochs((0.5, 0.4), (0.6, 0.5), every=5), [Selection(epochs=10)])
    assert curve.epochs.tolist() == [5, 10]
    assert curve.seconds.tolist() == [10, 20]


def test_each_stage_begins_anew():
    run = [*epochs((0.8, 0.8), (0.9, 0.7)), *epochs((0.3, 0.2), (0.85, 0.9), stage=2, before=2)]
    curve = kept_curve(run, [Selection(epochs=2)] * 2)
    assert curve.test.tolist() == [0.8, 0.7, 0.2, 0.9]
    assert curve.stage_starts == ((2, 4),)


def test_before_weights_may_be_kept_the_latest_count():
    run = epochs((0.9, 0.1), (0.5, 0.2), (0.6, 0.3), (0.5, 0.4))
    # The first half of four epochs is too early, so the best of epochs 3 and 4 is kept.
    curve = kept_curve(run, [Selection(after=0.5, epochs=4)])
    assert curve.test.tolist() == [0.1, 0.2, 0.3, 0.3]


def test_after_a_collapse_the_curve_ends_with_the_weights_from_before():
    run = epochs((0.8, 0.7), (0.9, 0.75), (0.3, 0.2), (0.2, 0.1))
    rule = Selection(after=0.5, epochs=4, nodes=100)
    assert kept_curve(run, [rule]).test.tolist() == [0.7, 0.75, 0.2, 0.75]
    assert kept_curve(run, [rule]).valid.tolist() == [0.8, 0.9, 0.3, 0.9]


def test_with_the_last_weights_the_curve_is_each_epochs_own():
    run = epochs((0.9, 0.1), (0.5, 0.2))
    assert kept_curve(run, [Selection(select="last", epochs=2)]).test.tolist() == [0.1, 0.2]


def by_hand(tests, epochs=None, seconds_per_epoch=1.0, starts=()):
    import numpy as np

    at = np.array(epochs or range(1, len(tests) + 1), dtype=float)
    values = np.array(tests)
    return KeptCurve(at, at * seconds_per_epoch, values, values, starts)


def test_a_mean_curve_holds_the_result_of_a_run_that_stopped_early():
    curve = mean_curve("scr", {0: by_hand([0.2, 0.4]), 1: by_hand([0.4, 0.6, 0.8, 0.9])})
    assert curve["epochs"] == [1, 2, 3, 4]
    assert curve["test_mean"] == pytest.approx([0.3, 0.5, 0.6, 0.65])
    assert curve["seconds"] == pytest.approx([1, 2, 2.5, 3])
    assert curve["total_epochs"] == 3
    assert curve["test_std"][0] == pytest.approx(0.02**0.5)  # of 0.2 and 0.4


def test_a_mean_curve_begins_where_all_runs_have_been_evaluated():
    curve = mean_curve("scr", {0: by_hand([0.2, 0.4], [1, 3]), 1: by_hand([0.4, 0.6], [2, 4])})
    assert curve["epochs"] == [2, 3, 4]
    assert curve["test_mean"] == pytest.approx([0.3, 0.4, 0.5])


@pytest.fixture
def figure():
    """RLU ends at 0.8 after 8 epochs, which it first reaches at epoch 7."""
    rlu = [0.5, 0.6, 0.65, 0.7, 0.4, 0.7, 0.8, 0.8]
    runs = {
        "fast": by_hand([0.6, 0.81, 0.79, 0.85], seconds_per_epoch=3.0),
        "slow": by_hand([0.1, 0.2, 0.3]),
        "rlu": by_hand(rlu, starts=((4, 4),)),
    }
    return [mean_curve(name, {0: run}) for name, run in runs.items()]


def test_reaching_is_the_first_epoch_of_the_mean_curve_at_the_mark(figure):
    fast, slow, rlu = reaches(figure, "rlu")
    assert (fast["epoch"], fast["seconds"], fast["stays_from"]) == (2, 6, 4)
    assert fast["share_of_reach"] == pytest.approx(2 / 7)
    assert fast["share_of_total"] == pytest.approx(2 / 8)
    assert (slow["epoch"], slow["share_of_reach"]) == (None, None)
    assert (rlu["epoch"], rlu["share_of_reach"]) == (7, 1)


def test_sentences_say_who_gets_there_when_and_who_does_not(figure):
    sentences = efficiency_sentences(figure, reaches(figure, "rlu"), "rlu")
    assert sentences == [
        "rlu ends at 80.0% of test nodes after 8 epochs (8.0 s), mean over one seed; its curve is "
        "first that high at epoch 7.",
        "fast gets there at epoch 2 (6.0 s): 0.29 of the epochs that rlu takes to get there, 0.25 "
        "of all its epochs; it stays there from epoch 4 on.",
        "slow does not get there: it ends at 30.0% after 3 epochs (3.0 s).",
    ]


def test_table_rows_have_a_dash_where_a_method_never_gets_there(figure):
    cells = [efficiency_cells(reach) for reach in reaches(figure, "rlu")]
    assert cells[0] == ("fast", "85.0", "4", "12.0 s", "2", "6.0 s", "0.29 / 0.25")
    assert cells[1][4:] == ("–", "–", "–")


def test_the_csv_has_every_point_of_every_curve(figure):
    rows = list(csv.DictReader(io.StringIO(efficiency_csv(figure))))
    assert len(rows) == 4 + 3 + 8
    assert rows[1] == {
        "method": "fast", "epoch": "2", "seconds": "6", "valid_mean": "0.81", "valid_std": "0",
        "test_mean": "0.81", "test_std": "0",
    }  # fmt: skip


def test_the_picture_names_methods_stages_and_the_mark(figure):
    from xml.etree import ElementTree

    from scr.report.plots import efficiency_curves

    svg = efficiency_curves(figure, reaches(figure, "rlu"), "rlu")
    shown = " ".join(ElementTree.fromstring(svg).itertext())
    for text in ("fast", "slow", "stage 2", "where rlu ends: 80.0%", "Validation nodes"):
        assert text in shown
