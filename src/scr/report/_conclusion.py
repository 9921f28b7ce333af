"""What a comparison allows one to say, in sentences and as a table for the terminal.

The sentences follow from the intervals alone, so that a report cannot flatter a method.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scr.metrics import ACCURACY, Metric, metric_of
from scr.report._comparison import (
    BASE,
    BETTER,
    UNCLEAR,
    WORSE,
    ComparisonRow,
    best_on_validation,
    metric_of_all,
)
from scr.report._formatting import MISSING, interval, mean_and_spread, points

if TYPE_CHECKING:
    from rich.table import Table


# From here on, one clear difference by chance alone is no longer unlikely (1 - 0.95^5 = 23%).
_MANY = 5


def conclusions(rows: Sequence[ComparisonRow]) -> list[str]:
    """Sentences about a comparison: every difference, then what to choose and to doubt."""
    return [*differences(rows), *cautions(rows)]


def differences(rows: Sequence[ComparisonRow]) -> list[str]:
    """One sentence per encoder and regularizer."""
    return [_about(row) for row in rows if row["difference"] is not None]


def cautions(rows: Sequence[ComparisonRow]) -> list[str]:
    """Which model to choose, gains that may be the class prior, and the luck of many tries."""
    compared = [row for row in rows if row["difference"] is not None]
    clear = any(row["verdict"] in (BETTER, WORSE) for row in compared)
    sentences = [_choice(rows), *map(_prior_warning, compared)]
    if clear:
        sentences.append(chance_caution(len(compared), "comparisons"))
    return [sentence for sentence in sentences if sentence]


def chance_caution(count: int, what: str) -> str | None:
    """Doubt a clear result among many; none where they are few."""
    if count < _MANY:
        return None
    return (
        f"These are {count} {what} at 95% each: about one in twenty would look clear by chance "
        "alone."
    )


def headline(rows: Sequence[ComparisonRow]) -> str:
    """The whole comparison in one sentence."""
    compared = [row for row in rows if row["difference"] is not None]
    if not compared:
        return "There is nothing to compare: no runs share a seed with the base."
    counts = {verdict: sum(row["verdict"] == verdict for row in compared)
              for verdict in (BETTER, UNCLEAR, WORSE)}  # fmt: skip
    if not sum(counts.values()):
        return "One seed shows a difference, but not whether it would come back: use more seeds."
    if len(compared) == 1:
        row = compared[0]
        verb = {BETTER: "helped", WORSE: "did harm", UNCLEAR: "made no clear difference"}
        return f"{row['regularizer']} {verb[row['verdict']]} with {row['encoder']}."
    if counts[BETTER] == len(compared):
        return f"All {len(compared)} regularized models are better than their base."
    verbs = {BETTER: ("is", "are"), UNCLEAR: ("shows", "show"), WORSE: ("is", "are")}
    parts = [
        f"{count} {verbs[verdict][count > 1]} {verdict}"
        for verdict, count in counts.items()
        if count
    ]
    return f"Of {len(compared)} comparisons with the base, {', '.join(parts)}."


def _name(row: ComparisonRow) -> str:
    graph = f" on {row['graph']}" if row["graph"] is not None else ""
    return f"{row['encoder']} with {row['regularizer']}{graph}"


def _about(row: ComparisonRow) -> str:
    metric = metric_of(row)
    kind = "validation" if row["measure"].startswith("valid") else "test"
    unit = f"{'points' if metric.higher_is_better else 'nats'} of {kind} {metric.title}"
    change = f"{points(row['difference'], metric)} {unit} against its base"
    between = interval(row["difference_low"], row["difference_high"], metric)
    if not between:
        return f"{_name(row)}: {change}, on a single seed, so no interval can be given."
    change += f" (95% interval {between}, {row['pairs']} seeds)"
    beside, title = second_measure(metric)
    if row[f"{beside}_difference"] is not None:  # type: ignore[literal-required]
        low, high = (row[f"{beside}_difference_{end}"] for end in ("low", "high"))  # type: ignore[literal-required]
        between = interval(low, high)
        other = "" if metric.higher_is_better else " points"
        change += f" and {points(row[f'{beside}_difference'])}{other} of {title}"  # type: ignore[literal-required]
        change += f" ({between})" if between else ""
    if row["verdict"] != UNCLEAR:
        return f"{_name(row)}: {change}; {row['verdict']}."
    includes_zero = (row["difference_low"] or 0.0) <= 0 <= (row["difference_high"] or 0.0)
    equal = "two equal differences do not tell how much seeds vary"
    doubt = "the interval includes zero" if includes_zero else equal
    return f"{_name(row)}: {change}; {doubt}, so {UNCLEAR}."


def _prior_warning(row: ComparisonRow) -> str | None:
    """Point out a gain that balanced accuracy does not confirm."""
    balanced_low = row["balanced_difference_low"]
    if row["verdict"] != BETTER or balanced_low is None or balanced_low > 0 or "metric" in row:
        return None
    return (
        f"{_name(row)}: balanced accuracy changes by {points(row['balanced_difference'])} points "
        f"({interval(balanced_low, row['balanced_difference_high'])}), which includes zero or "
        "less: part of the gain may be the class prior."
    )


def _choice(rows: Sequence[ComparisonRow]) -> str | None:
    """Name the row that validation nodes would pick, the only fair way to pick one."""
    measured = [row for row in rows if row["valid_mean"] is not None and row["graph"] is None]
    if len(measured) < 2:
        return None
    best, metric = best_on_validation(measured), metric_of_all(measured)
    regularizer = best["regularizer"]
    name = _name(best) if regularizer != BASE else f"{best['encoder']} without a regularizer"
    sentence = f"Validation {metric.title} picks {name}"
    if best["test_mean"] is None:
        return f"{sentence}."
    reached = mean_and_spread(best["test_mean"], best["test_std"], metric)
    return f"{sentence}: test {metric.title} {reached}{'%' if metric.higher_is_better else ''}."


def second_measure(metric: Metric) -> tuple[str, str]:
    """What stands beside the metric on test nodes: how its keys in rows begin, and its title."""
    return ("balanced", "balanced accuracy") if metric is ACCURACY else ("accuracy", "accuracy")


INACTIVE = "†"
"""Marks rows with runs in whose result the regularizer had no part."""
_VERDICT_STYLES = {BETTER: "bold green", WORSE: "bold red", "base": "dim"}


def caption(rows: Sequence[ComparisonRow]) -> str:
    """What the numbers of a comparison table mean, in one sentence."""
    metric, on_valid = metric_of_all(rows), [row["measure"].startswith("valid") for row in rows]
    measure = "validation" if on_valid and all(on_valid) else "test"
    counts = sorted({row["n"] for row in rows}) or [0]
    seeds = f"{counts[0]} seed" + "s" * (counts[0] != 1)
    if len(counts) > 1:
        seeds = f"{counts[0]} to {counts[-1]} seeds"
    if metric is ACCURACY:
        numbers = "Percent, mean ± standard deviation"
        columns = "balanced: mean recall of the classes on test nodes"
    else:
        what = f"{metric.heading}, " + (
            "in percent" if metric.higher_is_better else "lower is better"
        )
        numbers, columns = f"{what}, mean ± standard deviation", "accuracy: percent of test nodes"
    if rows and all(row["test_mean"] is None for row in rows):
        columns = "no test nodes, so nothing is measured on them"
    unit = "points" if metric.higher_is_better else "nats"
    return (
        f"{numbers} over {seeds}; {columns}; difference: {measure} {metric.title} minus the base's "
        f"on the same seed, in {unit}, with its 95% interval, which the verdict follows."
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
    metric = metric_of_all(rows)
    beside = second_measure(metric)[0]
    for heading in ("valid", "test", beside, "difference"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", min_width=len("difference"))
    groups = [(row["graph"], row["encoder"]) for row in rows]
    for row, group, following in zip(rows, groups, [*groups[1:], *groups[-1:]], strict=True):
        graph = "" if row["graph"] is None else f"{row['graph']}: "
        own = metric_of(row)
        means = [
            mean_and_spread(row.get(f"{kind}_mean"), row.get(f"{kind}_std"), measured)
            for kind, measured in (("valid", own), ("test", own), (beside, ACCURACY))
        ]
        difference = points(row["difference"], own)
        between = interval(row["difference_low"], row["difference_high"], own)
        if between:
            difference += f" ({between.replace(' to ', ', ')})"
        style = _VERDICT_STYLES.get(row["verdict"], "")
        table.add_row(
            Text(f"{graph}{row['encoder']} {marked_regularizer(row)}"),
            *(mean.replace("± ", "±") for mean in means),
            Text(difference, style),
            Text(MISSING if row["verdict"] == "base" else row["verdict"], style),
            end_section=group != following,
        )
    return table
