"""How accuracy depends on one setting: a curve over its values, and what the curve shows.

Everything is asked of differences paired by seed: each value against the base, and both ends of a
curve against its best value. The best value is the one with the highest mean validation accuracy;
how much worse the ends are is then read off the test nodes, which had no say in the choice. An end
counts as worse only if the 95% interval of its difference lies below zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from scr.report._formatting import csv_text
from scr.report._intervals import BySeed, Means, difference_by_seed, means_of

Run = Mapping[str, Any]


class Difference(TypedDict):
    """A paired difference in 0..1; the interval is None where one seed is all there is."""

    mean: float
    low: float | None
    high: float | None
    pairs: int
    verdict: str


class SweepPoint(Means):
    """One value of a setting: means and spreads over seeds, and differences to the base."""

    value: float
    valid_difference: Difference | None
    test_difference: Difference | None


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
    """Largest minus smallest mean accuracy over the values."""


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
    known = recipe_values or {}
    return [_curve(key, values, base, known.get(key)) for key, values in groups.items()]


def summarize(runs: BySeed, base: BySeed, value: float) -> SweepPoint:
    """One value of a setting; for the base itself, the differences are left out."""
    return SweepPoint(
        value=value,
        **means_of(runs),
        valid_difference=difference(runs, base, "valid_accuracy"),
        test_difference=difference(runs, base, "test_accuracy"),
    )


def difference(runs: BySeed, others: BySeed, measure: str) -> Difference | None:
    """Mean of runs minus others over the seeds that both have; None without a common seed."""
    gap = difference_by_seed(runs, others, measure)
    if gap is None:
        return None
    return Difference(
        mean=gap.mean, low=gap.low, high=gap.high, pairs=gap.pairs, verdict=gap.verdict
    )


def _curve(
    key: tuple[str, str],
    values: Mapping[float, dict[int, Run]],
    base: BySeed,
    recipe_value: float | None,
) -> SweepCurve:
    points = [summarize(values[value], base, value) for value in sorted(values)]
    chosen_by = "valid" if all(point["valid_mean"] is not None for point in points) else "test"
    measured_on = "test" if all(point["test_mean"] is not None for point in points) else "valid"
    best = max(points, key=lambda point: mean_of(point, chosen_by) or 0.0)["value"]
    measure = f"{measured_on}_accuracy"

    def end(value: float) -> End | None:
        gap = None if value == best else difference(values[value], values[best], measure)
        return None if gap is None else End(value=value, difference=gap)

    means = [mean_of(point, measured_on) or 0.0 for point in points]
    return SweepCurve(
        setting=key[0],
        regularizer=key[1],
        recipe_value=recipe_value,
        points=points,
        chosen_by=chosen_by,
        measured_on=measured_on,
        best=best,
        lower=end(points[0]["value"]),
        upper=end(points[-1]["value"]),
        base_difference=difference(values[best], base, measure),
        span=max(means) - min(means),
    )


def mean_of(point: SweepPoint, kind: str) -> float | None:
    """Mean accuracy of a point on `test` or `valid` nodes."""
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
