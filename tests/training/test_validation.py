"""Which score counts as better, by accuracy or by loss."""

from scr.training.validation import Score


def test_a_score_is_judged_by_accuracy_first_or_by_loss_alone():
    sure, right = Score(accuracy=0.7, loss=0.5), Score(accuracy=0.8, loss=0.9)
    assert right.beats(sure)
    assert sure.beats(right, by_loss=True)
    assert not sure.beats(sure, by_loss=True)


def test_extremes_are_kept_apart_and_ties_join_them():
    first, second = Score(accuracy=0.7, loss=0.5), Score(accuracy=0.8, loss=0.9)
    extremes = second.extremes(first.extremes(None))
    assert extremes == Score(accuracy=0.8, loss=0.5)
    assert Score(accuracy=0.8, loss=2.0).joins(extremes)
    assert Score(accuracy=0.1, loss=0.5).joins(extremes)
    assert not Score(accuracy=0.79, loss=0.51).joins(extremes)
