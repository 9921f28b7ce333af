"""Tables of what was measured on graphs of several types, for README.md and docs/results.md."""

from __future__ import annotations

import statistics
from typing import Any

from scale_tables import read

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
        f"Packages of Debian and their sections: {found['graph'].replace('_', ' ')}, 20 labels per "
        f"class, {found['splits']} splits. Accuracy in percent, mean ± deviation; settings chosen "
        f"on validation nodes. The difference to {base} is paired by split, with its 95% interval. "
        f"Printed by `{found['command']}`.",
        "",
        f"| | validation | test | difference to {base} | seconds |",
        "| --- | --- | --- | --- | --- |",
    ]
    best = max(statistics.mean(row["valid_accuracy"]) for row in found["rows"])
    for row in found["rows"]:
        test = _spread(row["test_accuracy"])
        if statistics.mean(row["valid_accuracy"]) == best:
            test = f"**{test}**"
        seconds = statistics.mean(row["train_seconds"])
        lines.append(
            f"| {row['label']} | {_spread(row['valid_accuracy'])} | {test} | "
            f"{_interval(row.get('difference'))} | {seconds:.0f} |"
        )
    return [*lines, "", CAVEAT, ""]


def heterogeneous_sentence() -> list[str]:
    """The same in one line, for the README."""
    found = read("heterogeneous")
    if found is None:
        return []
    rows = {row["label"]: row for row in found["rows"]}
    names = ["SIGN, homogenized", "R-GCN", "NARS_GAMLP", "NARS_GAMLP + SCR-m", "NARS_GAMLP + SCR"]
    shown = ", ".join(
        f"{name} {_spread(rows[name]['test_accuracy'])}" for name in names if name in rows
    )
    return [
        "",
        f"On a graph of several types (debian hetero, {found['splits']} splits, "
        f"`{found['command'].partition(';')[0].removesuffix(' search')} table`): {shown}.",
    ]


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


def _spread(values: list[float]) -> str:
    mean = 100 * statistics.mean(values)
    if len(values) < 2:
        return f"{mean:.1f}"
    return f"{mean:.1f} ± {100 * statistics.stdev(values):.1f}"


def _interval(difference: dict[str, Any] | None) -> str:
    if difference is None:
        return ""
    low, high = difference["low"], difference["high"]
    return f"{100 * difference['mean']:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"
