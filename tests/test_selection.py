"""Which score counts as better, which weights are kept, and when that is a collapse."""

from scr.selection import KeptWeights, Score, Selection


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


def test_weights_are_kept_from_the_share_on_and_remembered_before():
    rule = Selection(after=0.5, epochs=4, nodes=1000)
    kept = KeptWeights()
    offers = [kept.offer(epoch, Score(accuracy, 1.0), rule)
              for epoch, accuracy in ((1, 0.5), (2, 0.4), (3, 0.3), (4, 0.45))]  # fmt: skip
    assert offers == ["early", None, "best", "best"]
    assert (kept.early_epoch, kept.best_epoch) == (1, 4)


def test_a_fall_within_three_standard_errors_is_no_collapse():
    # Of 100 nodes, 0.8 and 0.6 differ by 0.2; sqrt((0.16 + 0.24) / 100) is 0.0632, thrice 0.19.
    assert Score(0.6, 1.0).clearly_below(Score(0.8, 1.0), nodes=100)
    assert not Score(0.6, 1.0).clearly_below(Score(0.8, 1.0), nodes=89)  # thrice 0.0670 is 0.201
    assert not Score(0.6, 1.0).clearly_below(Score(0.8, 1.0), nodes=0)
    assert not Score(0.8, 1.0).clearly_below(Score(0.6, 1.0), nodes=100)


def test_the_last_weights_are_kept_whatever_their_score():
    rule = Selection(select="last", after=0.5, epochs=2, nodes=1000)
    kept = KeptWeights()
    kept.offer(1, Score(0.9, 1.0), rule)
    kept.offer(2, Score(0.1, 1.0), rule)
    assert not kept.collapsed(rule)
