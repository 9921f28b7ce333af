"""Tables of what was measured on graphs of several types, for README.md and docs/results.md."""

from __future__ import annotations

import statistics
from typing import Any

from cells import cell, difference_cell, plain
from scale_tables import read
from scr.report._comparison import PairedDifference

CAVEAT = (
    "How far to trust this: the preset for typed graphs with few labels was shaped on the first "
    "split of this graph, where validation and test accuracy were both seen (rows of length 1, the "
    "sum of subsets at the start, noise on the input); the candidates above it were chosen on "
    "validation nodes. Validation nodes have equal shares of all classes and test nodes do not, so "
    "what learns the shares gains more in test than in validation."
)


def heterogeneous_lines() -> list[str]:
    """Accuracy of every row, with the difference to the plain NARS encoder."""
    found = read("heterogeneous")
    if found is None:
        return []
    base = found["compared_with"]
    lines = [
        "## Several types of nodes",
        "",
        f"Packages of Debian and their sections: {plain(found['graph'])}, 20 labels per class, "
        f"{found['splits']} splits. Accuracy in percent, mean ± deviation, and balanced accuracy; "
        f"settings chosen on validation nodes. Differences to {base} are paired by split, with "
        f"their 95% intervals. Printed by `{found['command']}`." + _without_balanced(found["rows"]),
        "",
        f"| | validation | test | balanced | difference to {base} | of balanced | seconds |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    best = max(statistics.mean(row["valid_accuracy"]) for row in found["rows"])
    for row in found["rows"]:
        test = cell(row["test_accuracy"])
        balanced = row.get("balanced_accuracy")
        if statistics.mean(row["valid_accuracy"]) == best:
            test = f"**{test}**"
        seconds = statistics.mean(row["train_seconds"])
        lines.append(
            f"| {row['label']} | {cell(row['valid_accuracy'])} | {test} | "
            f"{cell(balanced) if balanced else ''} | {_points(row.get('difference'))} | "
            f"{_points(row.get('balanced_difference'))} | {seconds:.0f} |"
        )
    return [*lines, "", CAVEAT, ""]


def typed_speed_lines() -> list[str]:
    """Propagation over subsets of relations beside SciPy."""
    found = read("typed")
    if found is None:
        return []
    names = {
        "propagate": "`scr propagate`, on disk",
        "propagate with one thread": "the same with one thread",
        "in-memory": "`scr.propagate`, in memory",
        "scipy": "SciPy, in memory",
    }
    rows = [row for row in found["rows"] if row["step"] in names]
    lines = [
        "## Subsets of relations of a graph of the size of ogbn-mag",
        "",
        f"Synthetic, 1.9 million nodes of four types, 21 million edges, 128 features, 8 subsets, 2 "
        f"hops (`{found['command']}`). On disk the budget was "
        f"`--memory {found['settings']['memory']}`.",
        "",
        "| | seconds | memory |",
        "| --- | --- | --- |",
    ]
    for row in rows:
        memory = row["memory_bytes"] / 1e9
        lines.append(f"| {names[row['step']]} | {row['seconds']:.0f} | {memory:.2f} GB |")
    return [*lines, ""]


def _points(difference: dict[str, Any] | None) -> str:
    return difference_cell(None if difference is None else PairedDifference(**difference))


def _without_balanced(rows: list[dict[str, Any]]) -> str:
    missing = [row["label"] for row in rows if not row.get("balanced_accuracy")]
    if not missing:
        return ""
    if len(missing) == len(rows):
        return " Balanced accuracy was not recorded in these runs, which are older."
    return f" Without balanced accuracy, which older runs did not record: {'; '.join(missing)}."
