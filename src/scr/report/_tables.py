"""The comparison table for the terminal, and the texts that it shares with the page.

Mean ± sample standard deviation over the seeds in percent, and the difference to the base in
percentage points, paired by seed, with its 95% interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scr.report._comparison import ComparisonRow
from scr.report._formatting import MISSING, interval, mean_and_spread, points, seed_counts
from scr.report._intervals import BETTER, WORSE

if TYPE_CHECKING:
    from rich.table import Table

INACTIVE = "†"
"""Marks rows with runs in whose result the regularizer had no part."""
_VERDICT_STYLES = {BETTER: "bold green", WORSE: "bold red", "base": "dim"}


def caption(rows: Sequence[ComparisonRow]) -> str:
    """What the numbers of a comparison table mean, in one sentence."""
    measures = {row["measure"] for row in rows}
    measure = "validation" if measures == {"valid_accuracy"} else "test"
    return (
        f"Percent, mean ± standard deviation over {seed_counts(list(rows))}; balanced: mean "
        f"recall of the classes on test nodes; difference: {measure} accuracy minus the base's "
        "on the same seed, in points, with its 95% interval, which the verdict follows."
    )


def inactive_note(rows: Sequence[ComparisonRow]) -> str | None:
    """Which rows are not what their name says; none where all are."""
    marked = [row for row in rows if row.get("inactive")]
    if not marked:
        return None
    said = ", ".join(
        f"{row['encoder']} {row['regularizer']} in {row['inactive']} of {row['n']} runs"
        for row in marked
    )
    return (
        f"{INACTIVE} The regularizer had no part in the result, which is that of the base: {said}; "
        "the notes of these runs say why"
    )


def marked_regularizer(row: ComparisonRow) -> str:
    """The regularizer's name, with a mark where it had no part in some run's result."""
    return f"{row['regularizer']} {INACTIVE}" if row.get("inactive") else row["regularizer"]


def comparison_table(rows: Sequence[ComparisonRow]) -> Table:
    """The table for a terminal; encoders are separated by a gap.

    Made to fit 80 columns: one column names the model, and none gives the time or the difference
    in balanced accuracy, which `conclusions` say.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(caption=caption(rows), box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("model", overflow="fold")
    for heading in ("valid", "test", "balanced", "difference"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", min_width=len("difference"))
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        graph = "" if row["graph"] is None else f"{row['graph']}: "
        means = [
            mean_and_spread(row[f"{kind}_mean"], row[f"{kind}_std"])  # type: ignore[literal-required]
            for kind in ("valid", "test", "balanced")
        ]
        difference = points(row["difference"])
        between = interval(row["difference_low"], row["difference_high"])
        if between:
            difference += f" ({between.replace(' to ', ', ')})"
        style = _VERDICT_STYLES.get(row["verdict"], "")
        table.add_row(
            Text(f"{graph}{row['encoder']} {marked_regularizer(row)}"),
            *(mean.replace("± ", "±") for mean in means),
            Text(difference, style),
            Text(MISSING if row["verdict"] == "base" else row["verdict"], style),
            end_section=following is not None and _group(following) != _group(row),
        )
    return table


def _group(row: ComparisonRow) -> tuple[str | None, str]:
    return row["graph"], row["encoder"]
