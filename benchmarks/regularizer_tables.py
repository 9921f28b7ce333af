"""Tables of all ways to use unlabeled nodes on one encoder, for docs/results.md."""

from __future__ import annotations

import json
from typing import Any

from cells import difference_cell, mean_cell, plain
from harness import RESULTS
from scr.report import compare_runs, pooled_difference

ENCODER = "ssgc"
NAMES = {
    "none": "base",
    "scr": "SCR",
    "scr-m": "SCR-m",
    "pi": "Π-model",
    "r-drop": "R-Drop",
    "entropy": "entropy",
    "fixmatch": "FixMatch",
    "freematch": "FreeMatch",
    "softmatch": "SoftMatch",
}


def regularizer_lines() -> list[str]:
    """Accuracy of every method at the weight that validation nodes chose, and gains over graphs."""
    results = {
        file.stem: json.loads(file.read_text(encoding="utf-8"))
        for file in sorted((RESULTS / "regularizers").glob("*.json"))
    }
    if not results:
        return []
    seeds = ", ".join(
        f"{plain(name)} {len({run['seed'] for run in result['runs']})}"
        for name, result in results.items()
    )
    return [
        "## Other ways to use unlabeled nodes",
        "",
        f"`{ENCODER}` with the settings that validation nodes chose for it alone, and each method "
        "with the weight in brackets, which they chose among 0.1, 0.3, 1 and 3 times its default. "
        "Test accuracy in percent, mean ± "
        f"deviation over seeds ({seeds}), and in parentheses balanced accuracy; gains are paired "
        "by seed, in points, with their 95% intervals over the graphs of this table. In bold: the "
        "best validation mean. SCR's settings are not those of the first table, which are searched "
        "for it as well. Printed by `python benchmarks/regularizers.py`.",
        "",
        *_table(results),
        "",
    ]


def _table(results: dict[str, dict[str, Any]]) -> list[str]:
    runs = [run for result in results.values() for run in result["runs"]]
    rows = {
        name: {row["regularizer"]: row for row in compare_runs(result["runs"])}
        for name, result in results.items()
    }
    lines = [
        "| | " + " | ".join(map(plain, results)) + " | gain of accuracy | of balanced accuracy |",
        "| --- |" + " --- |" * (len(results) + 2),
    ]
    for method, label in NAMES.items():
        cells = []
        for name, found in rows.items():
            row = found.get(method)
            if row is None:
                cells.append("")
                continue
            text = mean_cell(row["test_mean"] or 0.0, row["test_std"], row["balanced_mean"])
            if row["valid_mean"] == max(each["valid_mean"] or 0.0 for each in found.values()):
                text = f"**{text}**"
            weight = results[name]["weights"][method]["chosen"]
            cells.append(text if method == "none" else f"{text} [{weight:g}]")
        for measure in ("test_accuracy", "balanced_accuracy"):
            gain = pooled_difference(runs, ENCODER, method, measure=measure)
            cells.append("" if method == "none" else difference_cell(gain))
        if any(cells):
            lines.append(f"| {label} | {' | '.join(cells)} |")
    return lines
