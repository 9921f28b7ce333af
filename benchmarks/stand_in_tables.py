"""The table of recipes that were run on generated graphs, for docs/results.md."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from typing import Any

from cells import cell, interval
from harness import RESULTS
from scr.recipes import read_recipe, recipe_names
from scr.report import ComparisonRow, compare_runs

Row = dict[str, Any]
REGULARIZED = ("scr", "scr-m", "rlu-scr")


def stand_in_lines() -> list[str]:
    """Every recipe beside its baseline on the same generated graph, and what its term did."""
    file = RESULTS / "stand_ins.json"
    if not file.exists():
        return []
    found = json.loads(file.read_text(encoding="utf-8"))
    rows = {row["name"]: row for row in found["rows"]}
    run = [name for name in rows if name in recipe_names()]
    lines = [
        "## Every recipe on a generated graph",
        "",
        f"OGB's graphs cannot be had everywhere, so {len(run)} of the "
        f"{len(recipe_names())} recipes were run whole on a generated graph with the classes, "
        "columns, shares of labels, types and directions of its data set, scaled "
        "down by one rule ([how](guides/reproduce-the-paper.md#on-a-generated-graph)). **The "
        "accuracies say nothing about the published ones**, which are beside them to tell rows "
        "apart. The table says whether a recipe runs, whether its term acts, and whether it helps "
        f"there. Test accuracy in percent, mean ± deviation over {found['settings']['seeds']} "
        "seeds, in parentheses balanced accuracy; differences are paired by seed, in points, with "
        "their 95% intervals. How hard the graphs are was set by baselines alone; the rule that "
        "scales settings was settled with some rows of SCR in view. Printed by "
        "`python benchmarks/stand_ins.py`.",
        "",
    ]
    for dataset in dict.fromkeys(row["dataset"] for row in rows.values()):
        some = [row for row in rows.values() if row["dataset"] == dataset]
        lines += [f"### {dataset}", "", *_table(some, rows), "", _reading(some, rows), ""]
    return [*lines, *_means(rows), *_larger()]


def _means(rows: dict[str, Row]) -> list[str]:
    """The mean difference over the rows of each of the paper's tables, printed settings alone."""
    by_table: dict[str, list[float]] = {}
    for row in rows.values():
        compared = _compared(row, rows)
        if row["name"] not in recipe_names() or row["method"] not in REGULARIZED:
            continue
        recipe = read_recipe(row["name"])
        if not recipe.as_code and compared is not None and compared["difference"] is not None:
            by_table.setdefault(recipe.published.table, []).append(compared["difference"])
    parts = [
        f"Table {table}: {interval(statistics.fmean(differences))} over {len(differences)} rows"
        for table, differences in sorted(by_table.items())
    ]
    return [f"Mean difference over rows with SCR or SCR-m as printed: {'; '.join(parts)}.", ""]


def _larger() -> list[str]:
    """What more labels change for a row that loses."""
    file = RESULTS / "stand_ins_larger.json"
    if not file.exists():
        return []
    found = json.loads(file.read_text(encoding="utf-8"))
    rows = {row["name"]: row for row in found["rows"]}
    lines = []
    for row in rows.values():
        base = rows.get(row["baseline"] or "")
        if base is None or not any("confident" in run for run in row["runs"]):
            continue
        accuracy, before = (
            100 * statistics.fmean(run["test_accuracy"] for run in each["runs"])
            for each in (row, base)
        )
        lines += [
            "**Why SAGN loses on GIANT's 768 columns.** The stand-in has 768 training nodes, 16 "
            "per class, where ogbn-products has 196,615. SAGN fits them all, and is then sure of "
            "nearly every node (the share of confident nodes in the table) while one prediction "
            "in four is wrong; the term makes it keep what it has. With four times as many nodes "
            f"and labels (`{found['command'].removeprefix('python ')}`) `{row['name']}` has "
            f"{accuracy:.1f} and {before:.1f} without its term: a difference of "
            f"{accuracy - before:+.1f} points over {len(row['runs'])} seed(s).",
            "",
        ]
    return lines


def _table(some: Sequence[Row], rows: dict[str, Row]) -> list[str]:
    lines = [
        "| recipe | published | on the stand-in | its baseline | difference | balanced | "
        "confident share: first, median, last | epochs acting | teacher − student |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in some:
        base, compared = rows.get(row["baseline"] or ""), _compared(row, rows)
        own = base is not None and base["name"].startswith(f"{row['name']} ")
        cells = [
            f"`{row['name']}`" if " " not in row["name"] else row["name"],
            f"{row['published']:.2f}",
            _accuracy(row),
            "" if base is None else _accuracy(base) + (" (term off)" if own else ""),
            *_differences(compared),
            *_activity(row),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _reading(some: Sequence[Row], rows: dict[str, Row]) -> str:
    """How many rows gain, lose or are within noise, and which terms had no part."""
    verdicts: dict[str, list[str]] = {"higher": [], "lower": [], "within noise": []}
    idle = []
    for row in some:
        compared = _compared(row, rows)
        if compared is None or compared["difference"] is None:
            continue
        low, high = compared["difference_low"], compared["difference_high"]
        sure = low is not None and high is not None and (low > 0 or high < 0)
        side = "higher" if compared["difference"] > 0 else "lower"
        verdicts[side if sure else "within noise"].append(row["name"])
        if compared["inactive"]:
            idle.append(f"`{row['name']}` in {compared['inactive']} of {compared['n']} runs")
    said = "Of the rows with a baseline, " + ", ".join(
        f"{len(names)} {'are' if len(names) != 1 else 'is'} {verdict}"
        for verdict, names in verdicts.items()
    )
    if verdicts["lower"]:
        said += f"; lower: {', '.join(f'`{name}`' for name in verdicts['lower'])}"
    if idle:
        said += f". The term had no part in the weights that were kept: {', '.join(idle)}"
    return f"{said}."


def _compared(row: Row, rows: dict[str, Row]) -> ComparisonRow | None:
    """A row with its baseline as pair, by seed."""
    base = rows.get(row["baseline"] or "")
    if base is None:
        return None
    runs = [
        {**run, "graph": None, "encoder": row["name"], "regularizer": name}
        for name, of in (("none", base), ("term", row))
        for run in of["runs"]
    ]
    return compare_runs(runs)[-1]


def _accuracy(row: Row) -> str:
    names = ("test_accuracy", "balanced_accuracy")
    return cell(*([run[name] for run in row["runs"]] for name in names))


def _differences(compared: ComparisonRow | None) -> list[str]:
    if compared is None:
        return ["", ""]
    return [
        interval(compared[name], compared[f"{name}_low"], compared[f"{name}_high"])  # type: ignore[literal-required]
        for name in ("difference", "balanced_difference")
    ]


def _activity(row: Row) -> list[str]:
    """Means over seeds; empty where there is no term, or no teacher."""
    terms = [run["consistency"] for run in row["runs"] if "consistency" in run]
    shares = [run["confident"] for run in row["runs"] if "confident" in run]
    teachers = [
        term["teacher_valid_accuracy"] - term["student_valid_accuracy"]
        for term in terms
        if term.get("teacher_valid_accuracy") is not None
    ]
    acting = [term["acting_epochs"] / term["epochs"] for term in terms if term["epochs"]]
    return [
        ", ".join(
            f"{100 * statistics.fmean(share[place] for share in shares):.0f}%"
            for place in ("first", "median", "last")
        )
        if shares
        else "",
        f"{100 * statistics.fmean(acting):.0f}%" if acting else "",
        interval(statistics.fmean(teachers)) if teachers else "",
    ]
