"""How the metric depends on one setting: a curve over its values, and what the curve shows.

Everything is asked of differences paired by seed: each value against the base, and both ends of a
curve against its best value. The best value is the one with the best mean on validation nodes;
how much worse the ends are is then read off the test nodes, which had no say in the choice. An end
counts as worse only if the 95% interval of its difference lies on the worse side of zero. The
sentences follow from these intervals alone. The metric is accuracy, unless another one counts in
all runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Literal, NotRequired, TypedDict

from scr.metrics import ACCURACY, Metric, metric_of
from scr.report._comparison import (
    WORSE,
    BySeed,
    Means,
    difference_by_seed,
    means_of,
    metric_of_all,
)
from scr.report._conclusion import chance_caution
from scr.report._formatting import csv_text, interval, points

Run = Mapping[str, Any]


Difference = dict[str, Any]
"""The fields of a `PairedDifference` and its `verdict`; no interval where there is one seed."""


class SweepPoint(Means):
    """One value of a setting: means and spreads over seeds, and differences to the base."""

    value: float
    valid_difference: Difference | None
    test_difference: Difference | None
    metric: NotRequired[str]
    """What the means are of, where another metric than accuracy counts."""


class End(TypedDict):
    """One end of a curve, against the best value on the same seeds."""

    value: float
    difference: Difference


class SweepCurve(TypedDict):
    """One setting with one regularizer."""

    setting: str
    regularizer: str
    recipe_value: float | None
    """What the recipe has where nothing is swept."""
    points: list[SweepPoint]
    """By rising value."""
    chosen_by: str
    """`valid` or, without validation nodes, `test`: which accuracy names the best value."""
    measured_on: str
    """`test` or, without test nodes, `valid`: which accuracy the differences are of."""
    best: float
    lower: End | None
    """The smallest value; None if it is the best one, or shares no seed with it."""
    upper: End | None
    base_difference: Difference | None
    """The best value against the base."""
    span: float
    """Largest minus smallest mean over the values."""
    metric: NotRequired[str]
    """What counts, where it is not accuracy."""


def sweep_curves(
    runs: Sequence[Run],
    base_runs: Sequence[Run],
    *,
    recipe_values: Mapping[tuple[str, str], float | None] | None = None,
) -> list[SweepCurve]:
    """Summarize a sweep, one curve per setting and regularizer, in order of first appearance.

    Args:
        runs: Each with `setting`, `value`, `regularizer`, `seed` and accuracies.
        base_runs: Runs without a regularizer.
        recipe_values: Per setting and regularizer, the value that the recipe has.
    """
    base = {run["seed"]: run for run in base_runs}
    groups: dict[tuple[str, str], dict[float, dict[int, Run]]] = {}
    for run in runs:
        values = groups.setdefault((run["setting"], run["regularizer"]), {})
        values.setdefault(run["value"], {})[run["seed"]] = run
    known, metric = recipe_values or {}, metric_of_all([*runs, *base_runs])
    return [_curve(key, values, base, known.get(key), metric) for key, values in groups.items()]


def summarize(runs: BySeed, base: BySeed, value: float, metric: Metric | None = None) -> SweepPoint:
    """One value of a setting; for the base itself, the differences are left out.

    The metric is the one that counts in these runs, unless it is named.
    """
    metric = metric or metric_of_all([*runs.values(), *base.values()])
    kind = _kind(metric)
    means = means_of(runs, kind)
    point = SweepPoint(
        value=value,
        n=means["n"],
        seeds=means["seeds"],
        valid_mean=means["valid_mean"],
        valid_std=means["valid_std"],
        test_mean=means["test_mean"],
        test_std=means["test_std"],
        valid_difference=difference(runs, base, f"valid_{kind}", metric),
        test_difference=difference(runs, base, f"test_{kind}", metric),
    )
    if metric is not ACCURACY:
        point["metric"] = metric.name
    return point


def _kind(metric: Metric) -> Literal["accuracy", "metric"]:
    """How records call the values of the metric that counts."""
    return "accuracy" if metric is ACCURACY else "metric"


def difference(
    runs: BySeed, others: BySeed, measure: str, metric: Metric = ACCURACY
) -> Difference | None:
    """Mean of runs minus others over the seeds that both have; None without a common seed."""
    gap = difference_by_seed(runs, others, measure)
    if gap is None:
        return None
    gap = replace(gap, higher_is_better=metric.higher_is_better)
    return {**asdict(gap), "verdict": gap.verdict}


def _curve(
    key: tuple[str, str],
    values: Mapping[float, dict[int, Run]],
    base: BySeed,
    recipe_value: float | None,
    metric: Metric,
) -> SweepCurve:
    points = [summarize(values[value], base, value, metric) for value in sorted(values)]
    chosen_by = "valid" if all(point["valid_mean"] is not None for point in points) else "test"
    measured_on = "test" if all(point["test_mean"] is not None for point in points) else "valid"
    best = max(points, key=lambda point: metric.sign * (mean_of(point, chosen_by) or 0.0))["value"]
    measure = f"{measured_on}_{_kind(metric)}"

    def end(value: float) -> End | None:
        gap = None if value == best else difference(values[value], values[best], measure, metric)
        return None if gap is None else End(value=value, difference=gap)

    means = [mean_of(point, measured_on) or 0.0 for point in points]
    curve = SweepCurve(
        setting=key[0], regularizer=key[1], recipe_value=recipe_value, points=points,
        chosen_by=chosen_by, measured_on=measured_on, best=best, lower=end(points[0]["value"]),
        upper=end(points[-1]["value"]), span=max(means) - min(means),
        base_difference=difference(values[best], base, measure, metric),
    )  # fmt: skip
    if metric is not ACCURACY:
        curve["metric"] = metric.name
    return curve


def mean_of(point: SweepPoint, kind: str) -> float | None:
    """Mean of a point on `test` or `valid` nodes."""
    return point["test_mean"] if kind == "test" else point["valid_mean"]


def difference_of(point: SweepPoint, kind: str) -> Difference | None:
    """Difference of a point to the base on `test` or `valid` nodes."""
    return point["test_difference"] if kind == "test" else point["valid_difference"]


_COLUMNS = ("setting", "regularizer", "value", "seeds", "valid_mean", "valid_std", "test_mean",
            "test_std", "valid_difference", "valid_low", "valid_high",
            "test_difference", "test_low", "test_high")  # fmt: skip


def sweep_csv(curves: Sequence[SweepCurve], base: SweepPoint | None = None) -> str:
    """All points as a table; the base is a row without setting and value."""
    rows = [] if base is None else [["", "none", "", *_cells(base)]]
    for curve in curves:
        names = (curve["setting"], curve["regularizer"])
        rows += [[*names, f"{point['value']:g}", *_cells(point)] for point in curve["points"]]
    return csv_text(_COLUMNS, rows)


def _cells(point: SweepPoint) -> list[object]:
    cells: list[object] = [point["n"]]
    cells += [point["valid_mean"], point["valid_std"], point["test_mean"], point["test_std"]]
    for gap in (point["valid_difference"], point["test_difference"]):
        cells += [None] * 3 if gap is None else [gap["mean"], gap["low"], gap["high"]]
    return cells


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
        return f"{text}every value gave the same results, so it had no effect here."
    picked, metric = _NODES[curve["chosen_by"]], metric_of(curve)
    text += f"{_position_of_best(curve)}, {curve['best']:g} by {picked} {metric.title}"
    for name, end in (("lower", curve["lower"]), ("upper", curve["upper"])):
        if end is not None:
            gap = end["difference"]
            verdict = "" if gap["low"] is None else f", {gap['verdict']}"
            text += f"; {name} end ({end['value']:g}) {_change(gap, metric)}{verdict}"
    shape = _shape(curve)
    if shape:
        text += f". {shape}"
    span = points(curve["span"], metric).removeprefix("+")
    return f"{text}. {_against_base(curve)} Means span {span} {_unit(metric)}."


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
    nodes, metric = _NODES[curve["measured_on"]], metric_of(curve)
    change = _change(gap, metric, f" of {nodes} {metric.title} against the base")
    return f"At {curve['best']:g}: {change}, {verdict}."


def _unit(metric: Metric) -> str:
    return "points" if metric.higher_is_better else "nats"


def _change(gap: Difference, metric: Metric, of: str = "") -> str:
    between = interval(gap["low"], gap["high"], metric)
    text = f"{points(gap['mean'], metric)} {_unit(metric)}{of}"
    return f"{text} (95% interval {between})" if between else text
