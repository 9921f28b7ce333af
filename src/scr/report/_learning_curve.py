"""Accuracy against labels per class, with and without a regularizer, as it was measured.

Differences are paired by seed: both methods see the same labels and are measured on the same nodes,
and so are two numbers of labels. Nothing is extrapolated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from scr.report._comparison import BASE, Means, means_of
from scr.report._formatting import csv_text, interval, mapping, percent, points
from scr.report._sensitivity import Difference, difference

Run = Mapping[str, Any]
FEW_MEASURED = 100
"""Nodes below which an accuracy is so coarse that readers should be told."""


class CurvePoint(TypedDict):
    """One number of labels per class."""

    labels_per_class: int
    train_labels: int
    """Labels that were trained on, of all classes; the mean over seeds, rounded."""
    base: Means
    regularized: Means
    difference: Difference | None
    """The regularizer against the base, on the same seeds."""


class Step(TypedDict):
    """What the step to the largest number of labels brought."""

    before: int
    after: int
    base: Difference | None
    regularized: Difference | None


def curve_points(runs: Sequence[Run]) -> list[CurvePoint]:
    """Summarize runs, each with `labels_per_class`, `train_labels`, `regularizer` and `seed`."""
    grouped: list[CurvePoint] = []
    for size in sorted({run["labels_per_class"] for run in runs}):
        base, regularized = _methods(runs, size)
        mine = [run["train_labels"] for run in runs if run["labels_per_class"] == size]
        grouped.append(
            CurvePoint(
                labels_per_class=size, train_labels=round(sum(mine) / len(mine)),
                base=means_of(base), regularized=means_of(regularized),
                difference=difference(regularized, base, "test_accuracy"),
            )
        )  # fmt: skip
    return grouped


def inactive_runs(runs: Sequence[Run]) -> int:
    """Runs in whose result the regularizer had no part."""
    terms = [mapping(run.get("consistency")) for run in runs if run["regularizer"] != BASE]
    return sum(term.get("acted") is False for term in terms)


def last_step(runs: Sequence[Run]) -> Step | None:
    """From the second largest to the largest number of labels; none where there is one."""
    sizes = sorted({run["labels_per_class"] for run in runs})
    if len(sizes) < 2:
        return None
    before, after = sizes[-2:]
    gaps = [
        difference(later, earlier, "test_accuracy")
        for later, earlier in zip(_methods(runs, after), _methods(runs, before), strict=True)
    ]
    return Step(before=before, after=after, base=gaps[0], regularized=gaps[1])


def _methods(runs: Sequence[Run], size: int) -> tuple[dict[int, Run], dict[int, Run]]:
    """Runs with so many labels per class by seed: those of the base, and the others."""
    mine = [run for run in runs if run["labels_per_class"] == size]
    return (
        {run["seed"]: run for run in mine if run["regularizer"] == BASE},
        {run["seed"]: run for run in mine if run["regularizer"] != BASE},
    )


def curve_sentences(
    curve: Sequence[CurvePoint],
    step: Step | None,
    regularizer: str,
    measured: int,
    inactive: int = 0,
) -> list[str]:
    """What the curve shows: the last point, what the last step brought, and what to doubt.

    Args:
        curve: From `curve_points`.
        step: From `last_step`.
        regularizer: What was compared with the base.
        measured: Nodes that each run was measured on.
        inactive: Runs in whose result the regularizer had no part.
    """
    last = curve[-1]
    gap = last["difference"]
    base, regularized = (percent(last[name]["test_mean"]) for name in ("base", "regularized"))
    shown = (
        f"With {_labels(last['labels_per_class'])} per class, {base}% are right without "
        f"{regularizer} and {regularized}% with it"
    )
    sentences = [f"{shown}." if gap is None else f"{shown}: {_gap(gap)}, {gap['verdict']}."]
    if step is not None:
        size = f"from {step['before']} to {_labels(step['after'])} per class"
        start = f"Going {size}"
        if step["after"] == 2 * step["before"]:
            start = f"The last doubling of the labels, {size},"
        sentences.append(
            f"{start} brought {_gap(step['regularized'])} with {regularizer}, and "
            f"{_gap(step['base'])} without it. What more labels would bring was not measured."
        )
    if inactive:
        count = sum(point["regularized"]["n"] for point in curve)
        sentences.append(
            f"In {inactive} of {count} runs {regularizer} had no part in the result, which is that "
            "of the base."
        )
    if measured < FEW_MEASURED:
        sentences.append(
            f"Accuracies are of {measured} held-out labels in each repeat, so one node is "
            f"{100 / max(measured, 1):.1f} points."
        )
    return sentences


def _labels(count: int) -> str:
    return f"{count} label{'' if count == 1 else 's'}"


def _gap(gap: Difference | None) -> str:
    if gap is None:
        return "nothing that can be compared"
    between = interval(gap["low"], gap["high"])
    text = f"{points(gap['mean'])} points"
    return f"{text} (95% interval {between})" if between else text


_COLUMNS = ("labels_per_class", "train_labels", "seeds", "base_mean", "base_std",
            "regularized_mean", "regularized_std", "difference", "low", "high")  # fmt: skip


def curve_csv(curve: Sequence[CurvePoint]) -> str:
    """All points as a table."""
    rows = []
    for point in curve:
        gap = point["difference"]
        rows.append(
            [
                point["labels_per_class"], point["train_labels"], point["base"]["n"],
                *(point[name][f"test_{kind}"] for name in ("base", "regularized")  # type: ignore[literal-required]
                  for kind in ("mean", "std")),
                *([None] * 3 if gap is None else (gap["mean"], gap["low"], gap["high"])),
            ]
        )  # fmt: skip
    return csv_text(_COLUMNS, rows)
