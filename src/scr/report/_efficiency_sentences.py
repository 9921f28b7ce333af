"""Training efficiency in words and as a table: who gets where RLU ends, and how soon."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scr.report._efficiency import MethodCurve, Reach
from scr.report._formatting import MISSING, mean_and_spread, percent, seconds

if TYPE_CHECKING:
    from rich.table import Table

HEADINGS = ("method", "test at the end", "epochs", "time", "there at epoch", "there after",
            "share of epochs")  # fmt: skip
_LONGEST_CELL = len("0.00 / 0.00")


def efficiency_sentences(
    curves: Sequence[MethodCurve], reached: Sequence[Reach], reference: str
) -> list[str]:
    """What the reference ends with, and when each other method gets there."""
    by_name = {curve["method"]: curve for curve in curves}
    mark = by_name[reference]
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
