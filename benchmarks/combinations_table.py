"""What `combinations.py table` found, as Markdown: the table, and how often each addition helps.

Reads `results/combinations/GRAPH.json`; `readme.py` puts the lines into the documentation.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cells import mean_cell, mean_of, plain

RESULTS = Path(__file__).parent / "results" / "combinations"
NAMES = {
    "base": "base",
    "scr": "SCR",
    "scr-m": "SCR-m",
    "rlu": "RLU",
    "sle": "SLE",
    "rlu+scr": "RLU + SCR",
    "sle+scr": "SLE + SCR",
}


@dataclass(frozen=True)
class Row:
    """One row of one graph: means and spread over seeds, in percent."""

    encoder: str
    method: str
    smooth: bool
    valid: float
    test: float
    spread: float
    by_seed: dict[int, float]
    balanced: float | None = None
    """None where it was not recorded."""

    @property
    def label(self) -> str:
        """As the table shows it."""
        return NAMES[self.method] + (" + C&S" if self.smooth else "")

    @property
    def cell(self) -> str:
        """Its accuracies."""
        balanced = None if self.balanced is None else self.balanced / 100
        return mean_cell(self.test / 100, self.spread / 100, balanced)


def read(graphs: Iterable[str]) -> dict[str, list[Row]]:
    """Rows by graph."""
    found = {}
    for name in graphs:
        file = RESULTS / f"{name}.json"
        if file.exists():
            found[name] = rows(json.loads(file.read_text(encoding="utf-8"))["runs"])
    return found


def rows(runs: list[dict[str, Any]]) -> list[Row]:
    """Every encoder and method, without and with Correct and Smooth."""
    made = []
    pairs = dict.fromkeys((run["encoder"], run["method"]) for run in runs)
    for encoder, method in sorted(pairs, key=lambda pair: pair[0]):
        own = [run for run in runs if (run["encoder"], run["method"]) == (encoder, method)]
        made += [_row(encoder, method, own, smooth=smooth) for smooth in (False, True)]
    return made


def plain_rows(name: str, found: list[Row]) -> list[Row]:
    """Rows of `accuracy.py table` for pairs that are not in this table."""
    file = RESULTS.parent / "accuracy" / f"{name}.json"
    runs = json.loads(file.read_text(encoding="utf-8"))["runs"] if file.exists() else []
    known = {(row.encoder, row.method) for row in found}
    made = []
    for encoder, regularizer in dict.fromkeys((run["encoder"], run["regularizer"]) for run in runs):
        method = "base" if regularizer == "none" else regularizer
        if (encoder, method) in known:
            continue
        own = [
            run for run in runs if (run["encoder"], run["regularizer"]) == (encoder, regularizer)
        ]
        made.append(_row(encoder, method, own))
    return made


def _row(encoder: str, method: str, runs: list[dict[str, Any]], *, smooth: bool = False) -> Row:
    prefix = "smooth_" if smooth else ""
    tests = {run["seed"]: 100 * run[f"{prefix}test_accuracy"] for run in runs}
    valid = 100 * statistics.fmean(run[f"{prefix}valid_accuracy"] for run in runs)
    spread = statistics.stdev(tests.values()) if len(tests) > 1 else 0.0
    mean = statistics.fmean(tests.values())
    balanced = mean_of([run.get(f"{prefix}balanced_accuracy") for run in runs])
    balanced = None if balanced is None else 100 * balanced
    return Row(encoder, method, smooth, valid, mean, spread, tests, balanced)


def without_balanced(results: dict[str, list[Row]]) -> str:
    """A sentence about rows without balanced accuracy; empty: there are none."""
    missing = [
        plain(name) for name, found in results.items() if any(row.balanced is None for row in found)
    ]
    if not missing:
        return ""
    return f" Not every run of {', '.join(missing)} recorded balanced accuracy."


def best(found: list[Row]) -> Row:
    """The row with the best validation mean; the plainer one where two tie."""
    return max(found, key=lambda row: (row.valid, not row.smooth))


def table(results: dict[str, list[Row]]) -> list[str]:
    """Rows by graphs, the best validation mean of each graph in bold."""
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for name, found in results.items():
        for row in found:
            text = f"**{row.cell}**" if row is best(found) else row.cell
            cells.setdefault((row.encoder, row.label), {})[name] = text
    lines = [
        "| encoder | | " + " | ".join(map(plain, results)) + " |",
        "| --- | --- |" + " --- |" * len(results),
    ]
    for (encoder, label), values in cells.items():
        shown = f"`{encoder}`" if label == "base" else ""
        row_cells = " | ".join(values.get(name, "") for name in results)
        lines.append(f"| {shown} | {label} | {row_cells} |")
    return lines


def comparisons(results: dict[str, list[Row]]) -> list[str]:
    """On how many graphs each addition improves the mean, one sentence each."""
    lines = []
    for encoder in dict.fromkeys(row.encoder for found in results.values() for row in found):
        stages = "sle" if encoder == "sagn" else "rlu"
        pairs = [("base", "scr"), ("base", "scr-m"), ("base", stages), (stages, f"{stages}+scr")]
        for before, after in pairs:
            gains = _gains(results, encoder, before, after)
            if gains:
                lines.append(f"- `{encoder}`, {NAMES[after]} over {NAMES[before]}: {_said(gains)}")
        for method in dict.fromkeys(row.method for found in results.values() for row in found):
            gains = _gains(results, encoder, method, method, smooth=True)
            if gains and method in ("base", "scr", f"{stages}+scr"):
                lines.append(f"- `{encoder}`, C&S over {NAMES[method]} alone: {_said(gains)}")
    return lines


def _gains(
    results: dict[str, list[Row]], encoder: str, before: str, after: str, *, smooth: bool = False
) -> dict[str, tuple[float, float | None]]:
    """Of accuracy and of balanced accuracy by graph."""
    gains = {}
    for name, found in results.items():
        by_key = {(row.encoder, row.method, row.smooth): row for row in found}
        one, two = by_key.get((encoder, before, False)), by_key.get((encoder, after, smooth))
        if one is not None and two is not None:
            known = one.balanced is not None and two.balanced is not None
            gains[name] = (
                two.test - one.test,
                (two.balanced or 0) - (one.balanced or 0) if known else None,
            )
    return gains


def _said(gains: dict[str, tuple[float, float | None]]) -> str:
    better = sum(gain > 0 for gain, _ in gains.values())
    each = ", ".join(
        f"{plain(name)} {gain:+.1f}" + ("" if balanced is None else f" ({balanced:+.1f})")
        for name, (gain, balanced) in gains.items()
    )
    return f"better on {better} of {len(gains)} graphs ({each})"


def best_rows(results: dict[str, list[Row]]) -> list[str]:
    """The row that validation chooses for each graph, of this table and of the one before."""
    lines = ["| graph | row with the best validation mean | validation | test |",
             "| --- | --- | --- | --- |"]  # fmt: skip
    for name, found in results.items():
        row = best(found + plain_rows(name, found))
        lines.append(
            f"| {plain(name)} | `{row.encoder}` {row.label} | {row.valid:.1f} | {row.cell} |"
        )
    return lines
