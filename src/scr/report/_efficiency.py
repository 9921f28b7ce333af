"""Accuracy over training time: how soon a method is as good as multi-stage training in the end.

The curve of a run is what stopping would have given: at each epoch, the accuracy of the weights
that would be kept if training ended there, of the current stage where there are several. Epochs and
seconds are counted through all stages; seconds are those of training and validation, without the
looks at test nodes that only the curve needs, and without the work between two stages: predicting
all unlabeled nodes and building label hops again. So seconds of RLU and SLE are rather too low.

The final accuracy of the reference (RLU) is that of its last stage, averaged over seeds. Another
method reaches it at the first epoch at which its curve, averaged over seeds, is at least as high.
Below are the numbers, then the same in words and as a table for the terminal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from scr.report._formatting import (
    MISSING,
    csv_text,
    mean_and_spread,
    number_or_none,
    percent,
    seconds,
)
from scr.selection import KeptWeights, Score, Selection

if TYPE_CHECKING:
    from rich.table import Table


Floats = NDArray[np.float64]

# Means of equal accuracies may differ in their last digit.
_TOLERANCE = 1e-9


@dataclass(frozen=True)
class KeptCurve:
    """One run: at each evaluated epoch, the accuracy of the weights that would be kept."""

    epochs: Floats
    seconds: Floats
    valid: Floats
    test: Floats
    stage_starts: tuple[tuple[float, float], ...] = ()
    """Epochs and seconds that were over when each later stage began."""


class MethodCurve(TypedDict):
    """The mean curve of a method over its seeds; accuracies in 0..1."""

    method: str
    seeds: list[int]
    epochs: list[float]
    seconds: list[float]
    valid_mean: list[float]
    valid_std: list[float]
    test_mean: list[float]
    test_std: list[float]
    stage_starts: list[tuple[float, float]]
    total_epochs: float
    total_seconds: float
    final_valid: float
    final_test: float
    final_test_std: float | None


class Reach(TypedDict):
    """When a method is as good as the reference in the end."""

    method: str
    final_test: float
    total_epochs: float
    total_seconds: float
    epoch: float | None
    """First epoch at which the mean curve is as high; None: never."""
    seconds: float | None
    stays_from: float | None
    """First epoch from which it stays that high to the end."""
    share_of_reach: float | None
    """Epochs to get there over those that the reference itself took to get there first."""
    share_of_total: float | None
    """Epochs to get there over all epochs of the reference."""


def kept_curve(epochs: Sequence[Mapping[str, Any]], stages: Sequence[Selection]) -> KeptCurve:
    """The curve of one run.

    Until weights may be kept, those of each epoch count; after the last epoch of a stage whose
    accuracy collapsed, those from before.

    Args:
        epochs: One record per epoch with `epoch`, `stage`, `seconds`; evaluated ones also have
            `valid_accuracy`, `valid_loss` and `test_accuracy`, and `valid_metric` where another
            metric counts.
        stages: How each stage chooses its weights.
    """
    points: list[list[float]] = []
    starts: list[tuple[float, float]] = []
    passed, seconds = 0, 0.0
    for stage, records in groupby(epochs, key=lambda record: int(record["stage"])):
        rule, weights, began = stages[stage - 1], KeptWeights(), passed
        scores = early = (0.0, 0.0)
        if stage > 1:
            starts.append((float(passed), seconds))
        for record in records:
            passed = int(record["epoch"])
            seconds += float(record["seconds"])
            valid, test = (
                number_or_none(record.get(f"{kind}_accuracy")) for kind in ("valid", "test")
            )
            if valid is None or test is None:
                continue
            loss = number_or_none(record.get("valid_loss")) or 0.0
            metric = number_or_none(record.get("valid_metric")) if rule.by_metric else None
            remembered = weights.offer(passed - began, Score(valid, loss, metric), rule)
            if remembered == "best" or weights.best is None or rule.select == "last":
                scores = (valid, test)
            early = (valid, test) if remembered == "early" else early
            points.append([float(passed), seconds, *scores])
        if points and weights.collapsed(rule):
            points[-1][2:] = early
    passed_epochs, passed_seconds, kept_valid, kept_test = np.array(points).reshape(-1, 4).T
    return KeptCurve(passed_epochs, passed_seconds, kept_valid, kept_test, tuple(starts))


def mean_curve(method: str, curves: Mapping[int, KeptCurve]) -> MethodCurve:
    """Average runs of one method over seeds, at every epoch at which some seed was evaluated.

    A run that stopped early keeps what it has: its accuracy and its seconds stay.
    """
    runs = list(curves.values())
    begin = max(run.epochs[0] for run in runs)
    grid = np.unique(np.concatenate([run.epochs for run in runs]))
    grid = grid[grid >= begin]
    # The last evaluated epoch that is not after each epoch of the grid.
    last = [np.searchsorted(run.epochs, grid, side="right") - 1 for run in runs]
    values = {
        name: np.stack([getattr(run, name)[at] for run, at in zip(runs, last, strict=True)])
        for name in ("seconds", "valid", "test")
    }
    several = len(runs) > 1
    spread = {
        name: values[name].std(axis=0, ddof=1) if several else np.zeros(len(grid))
        for name in ("valid", "test")
    }
    means = {name: value.mean(axis=0) for name, value in values.items()}
    return MethodCurve(
        method=method,
        seeds=list(curves),
        epochs=grid.tolist(),
        seconds=means["seconds"].tolist(),
        valid_mean=means["valid"].tolist(),
        valid_std=spread["valid"].tolist(),
        test_mean=means["test"].tolist(),
        test_std=spread["test"].tolist(),
        stage_starts=[
            (float(np.mean(epochs)), float(np.mean(seconds)))
            for same in zip(*(run.stage_starts for run in runs), strict=True)
            for epochs, seconds in [zip(*same, strict=True)]
        ],
        total_epochs=float(np.mean([run.epochs[-1] for run in runs])),
        total_seconds=float(np.mean([run.seconds[-1] for run in runs])),
        final_valid=float(means["valid"][-1]),
        final_test=float(means["test"][-1]),
        final_test_std=float(spread["test"][-1]) if several else None,
    )


def reaches(curves: Sequence[MethodCurve], reference: str) -> list[Reach]:
    """When each method's mean curve first is as high as the reference's final accuracy."""
    mark = {curve["method"]: curve for curve in curves}[reference]
    target, whole = mark["final_test"], mark["total_epochs"]
    first, _ = _positions(mark, target)
    needed = whole if first is None else mark["epochs"][first]
    results = []
    for curve in curves:
        position, stays = _positions(curve, target)
        epoch = None if position is None else curve["epochs"][position]
        reach = Reach(
            method=curve["method"], final_test=curve["final_test"],
            total_epochs=curve["total_epochs"], total_seconds=curve["total_seconds"], epoch=epoch,
            seconds=None if position is None else curve["seconds"][position],
            stays_from=None if stays is None else curve["epochs"][stays],
            share_of_reach=None if epoch is None else epoch / needed,
            share_of_total=None if epoch is None else epoch / whole,
        )  # fmt: skip
        results.append(reach)
    return results


def efficiency_csv(curves: Sequence[MethodCurve]) -> str:
    """All mean curves as a table."""
    names = ("epochs", "seconds", "valid_mean", "valid_std", "test_mean", "test_std")
    rows = [
        [curve["method"], *(f"{value:.6g}" for value in row)]
        for curve in curves
        for row in zip(*(curve[name] for name in names), strict=True)  # type: ignore[literal-required]
    ]
    return csv_text(["method", "epoch", *names[1:]], rows)


def _positions(curve: MethodCurve, target: float) -> tuple[int | None, int | None]:
    """Where a mean curve first is as high as the target, and from where it stays so."""
    high = [mean >= target - _TOLERANCE for mean in curve["test_mean"]]
    stays = len(high) - high[::-1].index(False) if False in high else 0
    return high.index(True) if True in high else None, stays if stays < len(high) else None


HEADINGS = ("method", "test at the end", "epochs", "time", "there at epoch", "there after",
            "share of epochs")  # fmt: skip
_LONGEST_CELL = len("0.00 / 0.00")


def efficiency_sentences(
    curves: Sequence[MethodCurve], reached: Sequence[Reach], reference: str
) -> list[str]:
    """What the reference ends with, and when each other method gets there."""
    mark = {curve["method"]: curve for curve in curves}[reference]
    own = next(reach for reach in reached if reach["method"] == reference)
    count = len(mark["seeds"])
    over = "one seed" if count == 1 else f"{count} seeds"
    final = mean_and_spread(mark["final_test"], mark["final_test_std"])
    first = (
        f"{reference} ends at {final}% of test nodes after {mark['total_epochs']:.0f} epochs "
        f"({seconds(mark['total_seconds'])}), mean over {over}"
    )
    if own["epoch"] is not None and own["epoch"] < mark["total_epochs"]:
        first += f"; its curve is first that high at epoch {own['epoch']:.0f}"
    others = [_about(reach, reference) for reach in reached if reach["method"] != reference]
    return [f"{first}.", *others]


def _about(reach: Reach, reference: str) -> str:
    method = reach["method"]
    if reach["epoch"] is None or reach["share_of_reach"] is None:
        return (
            f"{method} does not get there: it ends at {percent(reach['final_test'])}% after "
            f"{reach['total_epochs']:.0f} epochs ({seconds(reach['total_seconds'])})."
        )
    text = (
        f"{method} gets there at epoch {reach['epoch']:.0f} ({seconds(reach['seconds'])}): "
        f"{reach['share_of_reach']:.2f} of the epochs that {reference} takes to get there, "
        f"{reach['share_of_total']:.2f} of all its epochs"
    )
    if reach["stays_from"] is None:
        text += f"; it falls below again and ends at {percent(reach['final_test'])}%"
    elif reach["stays_from"] > reach["epoch"]:
        text += f"; it stays there from epoch {reach['stays_from']:.0f} on"
    return f"{text}."


def efficiency_cells(reach: Reach) -> tuple[str, ...]:
    """The texts of one row, in the order of `HEADINGS`."""
    of_reach, of_total = reach["share_of_reach"], reach["share_of_total"]
    return (
        reach["method"],
        percent(reach["final_test"]),
        f"{reach['total_epochs']:.0f}",
        seconds(reach["total_seconds"]),
        MISSING if reach["epoch"] is None else f"{reach['epoch']:.0f}",
        seconds(reach["seconds"]),
        MISSING if of_reach is None or of_total is None else f"{of_reach:.2f} / {of_total:.2f}",
    )


def efficiency_table(reached: Sequence[Reach], reference: str) -> Table:
    """The table for a terminal."""
    from rich import box
    from rich.table import Table

    target = next(reach["final_test"] for reach in reached if reach["method"] == reference)
    caption = (
        f"Percent of test nodes, mean over seeds. There: {percent(target)}%, where {reference} "
        f"ends. Share of epochs: of those that {reference} takes to get there first / in all."
    )
    table = Table(caption=caption, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for position, heading in enumerate(HEADINGS):
        table.add_column(
            heading,
            justify="left" if position == 0 else "right",
            min_width=_LONGEST_CELL if heading == HEADINGS[-1] else None,
        )
    for reach in reached:
        table.add_row(*efficiency_cells(reach))
    return table
