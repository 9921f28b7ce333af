"""What the curves of a sweep show, in sentences that follow from their intervals alone."""

from __future__ import annotations

from collections.abc import Sequence

from scr.report._conclusion import chance_caution
from scr.report._formatting import interval, points
from scr.report._intervals import WORSE
from scr.report._sensitivity import Difference, SweepCurve

BOTH, SMALL, LARGE, FLAT = "both", "small", "large", "neither"
"""Which ends of a curve are worse than its best value beyond the noise."""
_NODES = {"test": "test", "valid": "validation"}


def hurting_ends(curve: SweepCurve) -> str:
    """Whether too small, too large, both or neither is clearly worse than the best value."""
    small, large = (
        end is not None and end["difference"]["verdict"] == WORSE
        for end in (curve["lower"], curve["upper"])
    )
    if small and large:
        return BOTH
    return SMALL if small else LARGE if large else FLAT


def curve_sentence(curve: SweepCurve) -> str:
    """What one curve shows: its best value, both ends against it, and the base."""
    text = f"{curve['setting']} with {curve['regularizer']}: "
    if _is_constant(curve):
        return f"{text}every value gave the same accuracies, so it had no effect here."
    picked = _NODES[curve["chosen_by"]]
    text += f"{_position_of_best(curve)}, {curve['best']:g} by {picked} accuracy"
    for name, end in (("lower", curve["lower"]), ("upper", curve["upper"])):
        if end is not None:
            gap = end["difference"]
            verdict = "" if gap["low"] is None else f", {gap['verdict']}"
            text += f"; {name} end ({end['value']:g}) {_points(gap)}{verdict}"
    shape = _shape(curve)
    if shape:
        text += f". {shape}"
    return f"{text}. {_against_base(curve)} Means span {100 * curve['span']:.2f} points."


def sweep_headline(curves: Sequence[SweepCurve]) -> str:
    """The whole sweep in one sentence."""
    if not curves:
        return "There is nothing to show: no value was run."
    if all(point["n"] < 2 for curve in curves for point in curve["points"]):
        return "One seed draws curves, but does not say what is noise: use more seeds."
    counts = {kind: sum(hurting_ends(curve) == kind for curve in curves)
              for kind in (BOTH, SMALL, LARGE, FLAT)}  # fmt: skip
    phrases = {
        BOTH: "too small and too large values both hurt",
        SMALL: "only too small values hurt",
        LARGE: "only too large values hurt",
        FLAT: "neither end is clearly worse than the best value",
    }
    parts = [f"in {count} {phrases[kind]}" for kind, count in counts.items() if count]
    noun = "curve" if len(curves) == 1 else "curves"
    return f"Of {len(curves)} {noun}, {', '.join(parts)}."


def sweep_cautions(curves: Sequence[SweepCurve], notes: Sequence[str] = ()) -> list[str]:
    """What to doubt: many comparisons, and weights that runs turned down by themselves."""
    ends = sum(curve[name] is not None for curve in curves for name in ("lower", "upper"))
    doubt = chance_caution(ends, "ends compared")
    sentences = []
    if doubt and any(hurting_ends(curve) != FLAT for curve in curves):
        sentences.append(doubt)
    lowered = sum("turned down" in note for note in notes)
    if lowered:
        sentences.append(
            f"In {lowered} {'run' if lowered == 1 else 'runs'} the consistency weight was turned "
            "down, because training labels said that pseudo labels deserve little trust; set "
            "`consistency.trust=full` to see the weights as given."
        )
    return sentences


def _is_constant(curve: SweepCurve) -> bool:
    """Whether no run changed, as where training ends before the consistency term begins."""
    results = {
        (point["valid_mean"], point["valid_std"], point["test_mean"], point["test_std"])
        for point in curve["points"]
    }
    return len(curve["points"]) > 1 and len(results) == 1


def _position_of_best(curve: SweepCurve) -> str:
    values = [point["value"] for point in curve["points"]]
    if len(values) == 1:
        return "only one value was tried"
    if curve["best"] == values[0]:
        return "the smallest value tried is best"
    if curve["best"] == values[-1]:
        return "the largest value tried is best"
    return "an inner value is best"


def _shape(curve: SweepCurve) -> str:
    """The curve's shape in words, where there are intervals to judge it by."""
    ends = [end for end in (curve["lower"], curve["upper"]) if end is not None]
    if not ends or any(end["difference"]["low"] is None for end in ends):
        return ""
    return {
        BOTH: "Too small and too large both hurt",
        SMALL: "Too small hurts" if len(ends) == 1 else "Too small hurts, too large not clearly",
        LARGE: "Too large hurts" if len(ends) == 1 else "Too large hurts, too small not clearly",
        FLAT: "The other end does not clearly hurt" if len(ends) == 1 else "Neither clearly hurts",
    }[hurting_ends(curve)]  # fmt: skip


def _against_base(curve: SweepCurve) -> str:
    gap = curve["base_difference"]
    if gap is None:
        return "No seed is shared with the base."
    verdict = gap["verdict"] if gap["low"] is not None else "on a single seed"
    nodes = _NODES[curve["measured_on"]]
    change = _points(gap, f"points of {nodes} accuracy against the base")
    return f"At {curve['best']:g}: {change}, {verdict}."


def _points(gap: Difference, unit: str = "points") -> str:
    between = interval(gap["low"], gap["high"])
    text = f"{points(gap['mean'])} {unit}"
    return f"{text} (95% interval {between})" if between else text
