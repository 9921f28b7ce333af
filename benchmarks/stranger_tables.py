"""Tables of what one gets with no options, beside peers, for README.md and docs/results.md.

Reads what `strangers.py` wrote: one file per graph with our rows, one with the rows of peers.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scipy.stats import rankdata

from cells import cell, interval, mean_cell, plain
from stranger_peers import PEERS

RESULTS = Path(__file__).parent / "results"
KINDS = ("strangers", "stranger_peers")
OURS = ("scr", "base", "best")
METHODS = (*OURS, *PEERS)
LABELS = ("20", "5", "10%", "50")
"""Training labels per class, or a share of all labels."""
LABELS_IN_ORDER = ("5", "20", "50", "10%")
HEADLINE_PEERS = ("logistic", "boosting", "sgc", "gcn", "appnp", "c&s")
"""Peers that are fast enough for every graph."""
CHOSEN_ON = (
    "cora", "cora_ml", "acm", "pubmed", "amazon_photo", "uai", "blogcatalog", "actor",
    "dblp_citation", "flickr", "crowd",
)  # fmt: skip
"""Graphs that the settings of `auto` were chosen on."""
ALIKE = 0.6
"""Edge homophily from which neighbors are called alike."""
GROUPS: dict[str, Callable[[float], bool]] = {
    f"mean, homophily of {ALIKE} or more": lambda homophily: homophily >= ALIKE,
    f"mean, homophily below {ALIKE}": lambda homophily: homophily < ALIKE,
}
COMMAND = "python benchmarks/strangers.py"
ACCURACY, BALANCED = "test_accuracy", "balanced_accuracy"

Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Measured:
    """What was measured on a graph with one number of labels."""

    graph: str
    facts: dict[str, Any]
    rows: Sequence[Row]

    @property
    def homophily(self) -> float:
        """Share of edges between nodes of the same class."""
        return float(self.facts["homophily"])

    @property
    def name(self) -> str:
        """As tables show it, with a star if no setting was chosen on it."""
        return plain(self.graph) + ("" if self.graph in CHOSEN_ON else " *")

    def values(self, method: str, measure: str = ACCURACY) -> dict[int, float]:
        """A measure of a method by split."""
        rows = (row for row in self.rows if row["method"] == method)
        return {row["split"]: row[measure] for row in rows if measure in row}

    def mean(self, method: str, measure: str = ACCURACY) -> float | None:
        """Over all splits; none where there are none."""
        values = self.values(method, measure)
        return statistics.fmean(values.values()) if values else None

    def difference(self, method: str, other: str, measure: str = ACCURACY) -> float | None:
        """The mean difference over the splits that both have."""
        mine, theirs = self.values(method, measure), self.values(other, measure)
        common = mine.keys() & theirs.keys()
        return statistics.fmean(mine[split] - theirs[split] for split in common) if common else None

    def best(self, methods: Sequence[str]) -> str | None:
        """The method with the highest mean accuracy."""
        means = {method: mean for method in methods if (mean := self.mean(method)) is not None}
        return max(means, key=lambda method: means[method]) if means else None

    def cell(self, method: str) -> str:
        """Accuracy with its spread, balanced accuracy in parentheses; empty: not run."""
        values = self.values(method)
        if values:
            return cell(list(values.values()), list(self.values(method, BALANCED).values()))
        limits = [row["over_limit"] for row in self.rows if row["method"] == method]
        return f"over {limits[0]} s" if limits else ""


def kind_of(method: str) -> str:
    """The kind of results that rows of a method belong to."""
    return KINDS[method not in OURS]


def read_file(graph: str, kind: str) -> dict[str, Any] | None:
    """A results file."""
    file = RESULTS / kind / f"{graph}.json"
    if not file.exists():
        return None
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return content


def read_rows(graph: str) -> list[Row]:
    """All rows of a graph, ours and those of peers."""
    contents = [read_file(graph, kind) for kind in KINDS]
    return [row for content in contents if content for row in content["rows"]]


def read(labels: str) -> list[Measured]:
    """What was measured with a number of labels, graphs of high homophily first."""
    names = {file.stem for kind in KINDS for file in (RESULTS / kind).glob("*.json")}
    measured = []
    for name in names:
        contents = [content for kind in KINDS if (content := read_file(name, kind))]
        facts = [found for each in contents if (found := each["settings"].get("graph"))]
        rows = [row for each in contents for row in each["rows"] if row["labels"] == labels]
        if rows and facts:
            measured.append(Measured(name, facts[0], rows))
    return sorted(measured, key=lambda each: (-each.homophily, each.graph))


def titled(labels: str) -> str:
    """A number of labels in words."""
    return f"{labels} labels per class" if labels.isdigit() else f"{labels} of all labels"


def table_lines(labels: Sequence[str] = LABELS) -> list[str]:
    """One table for each number of labels."""
    lines: list[str] = []
    for count in labels:
        measured = read(count)
        if measured:
            lines += [f"### {titled(count)}", "", *table(measured), ""]
    return lines


def columns_of(measured: Sequence[Measured]) -> list[str]:
    """`scr`, and methods that have a row."""
    present = {row["method"] for each in measured for row in each.rows}
    return [method for method in METHODS if method == "scr" or method in present]


def table(measured: Sequence[Measured]) -> list[str]:
    """One graph per line, then means over graphs and the mean rank."""
    columns = columns_of(measured)
    lines = [
        f"| graph | homophily | {' | '.join(f'`{column}`' for column in columns)} |",
        f"| --- | --- {'| --- ' * len(columns)}|",
    ]
    for each in measured:
        top = each.best(columns)
        cells = [bold(each.cell(column), column == top) for column in columns]
        lines.append(f"| {each.name} | {each.homophily:.2f} | {' | '.join(cells)} |")
    for title, belongs in GROUPS.items():
        group = [each for each in measured if belongs(each.homophily)]
        if group:
            lines.append(f"| {title} | | {' | '.join(mean_cells(group, columns))} |")
    return [*lines, f"| mean rank | | {' | '.join(rank_cells(measured, columns))} |"]


def bold(text: str, whether: bool) -> str:
    """In Markdown.

    >>> bold("81.0", True)
    '**81.0**'
    """
    return f"**{text}**" if whether and text else text


def mean_cells(group: Sequence[Measured], columns: Sequence[str]) -> list[str]:
    """Means over graphs, the best in bold; of a method that lacks some, the difference to scr."""
    means = {column: over_graphs(group, column) for column in columns}
    whole = {column: mean for column, (mean, count) in means.items() if count == len(group)}
    top = max(whole, key=lambda column: whole[column]) if whole else None
    cells = []
    for column, (mean, count) in means.items():
        gain, shared = mean_gain(group, column, "scr")
        if column in whole or (count and not shared):
            balanced, _ = over_graphs(group, column, BALANCED)
            text = bold(mean_cell(mean, None, balanced), column == top) + _graphs(count, len(group))
        else:
            text = f"{interval(gain)} to `scr`{_graphs(shared, len(group))}" if shared else ""
        cells.append(text)
    return cells


def mean_gain(group: Sequence[Measured], method: str, other: str) -> tuple[float, int]:
    """The mean difference over graphs that have rows of both, and how many these are."""
    gains = [gain for each in group if (gain := each.difference(method, other)) is not None]
    return (statistics.fmean(gains) if gains else 0.0), len(gains)


def over_graphs(
    group: Sequence[Measured], method: str, measure: str = ACCURACY
) -> tuple[float, int]:
    """The mean over graphs that have rows of a method, and how many these are."""
    means = [mean for each in group if (mean := each.mean(method, measure)) is not None]
    return (statistics.fmean(means) if means else 0.0), len(means)


def rank_cells(measured: Sequence[Measured], columns: Sequence[str]) -> list[str]:
    """The mean over graphs of a method's rank among those that have rows there; 1 is best."""
    ranks: dict[str, list[float]] = {column: [] for column in columns}
    for each in measured:
        means = {column: mean for column in columns if (mean := each.mean(column)) is not None}
        for column, rank in zip(means, rankdata([-mean for mean in means.values()]), strict=True):
            ranks[column].append(float(rank))
    return [
        (f"{statistics.fmean(found):.1f}" if found else "") + _graphs(len(found), len(measured))
        for found in ranks.values()
    ]


def _graphs(count: int, of: int) -> str:
    return f", {count} of {of} graphs" if 0 < count < of else ""


CAPTION = (
    "Test accuracy in percent, mean ± deviation over splits, and in parentheses balanced accuracy, "
    "which is the mean recall of the classes. Homophily: the share of edges between nodes of the "
    "same class. Splits are drawn at random, with 30 validation nodes per class; with a share of "
    "all labels, as many again for validation."
)
STAR = "* A graph that no setting was chosen on."


def stranger_lines() -> list[str]:
    """All tables, for docs/results.md."""
    tables = table_lines()
    if not tables:
        return []
    return [
        "## With no options",
        "",
        f"{CAPTION} `scr` is `scr.NodeClassifier()` as it is, `base` the same without a "
        'consistency term, `best` with `effort="best"` and 200 seconds. Peers have their published '
        "settings on every graph (`benchmarks/stranger_peers.py` names them), and rows of unit "
        "length as features, since rows that add up to 1 leave them far behind on some graphs. "
        "They choose the epoch, or the penalty, on validation nodes; one that takes more than its "
        "processor seconds is "
        f"over the limit. In bold: the best mean; a method that lacks some graphs has its mean "
        f"difference to `scr` on the others. {STAR} Printed by `{COMMAND} --table`, measured "
        f"by `{COMMAND}`.",
        "",
        *tables,
    ]


def headline_lines() -> list[str]:
    """The short table of the README: means over graphs, beside peers."""
    rows = [
        _headline_row(labels, group)
        for labels in LABELS_IN_ORDER
        for belongs in GROUPS.values()
        if (group := _compared(labels, belongs))
    ]
    if not rows:
        return []
    return [
        "`scr.NodeClassifier()` with no options beside the peer that is best in the mean (of "
        "logistic regression on features and on two hops, gradient boosting, GCN, APPNP, and "
        "Correct and Smooth) and beside the best peer of each graph, which one knows only after "
        "running all of them. Mean test accuracy in percent, balanced accuracy in parentheses. "
        f"`{COMMAND}`; every graph, peer and split: "
        "[docs/results.md](docs/results.md#with-no-options).",
        "",
        "| training labels | graphs | no options | best single peer | best peer of each graph | "
        "ahead of it on |",
        "| --- | --- | --- | --- | --- | --- |",
        *rows,
    ]


def _compared(labels: str, belongs: Callable[[float], bool]) -> list[Measured]:
    """Graphs of a group, with the splits on which every peer of the README was run."""
    found = []
    for each in read(labels):
        splits = set.intersection(*({*each.values(one)} for one in ("scr", *HEADLINE_PEERS)))
        if splits and belongs(each.homophily):
            found.append(replace(each, rows=[row for row in each.rows if row["split"] in splits]))
    return found


def _headline_row(labels: str, group: Sequence[Measured]) -> str:
    means = {peer: over_graphs(group, peer)[0] for peer in HEADLINE_PEERS}
    peer = max(means, key=lambda each: means[each])
    best = [(each, each.best(HEADLINE_PEERS) or "") for each in group]
    kind = "alike" if group[0].homophily >= ALIKE else "not alike"
    oracle = mean_cell(
        statistics.fmean(each.mean(of) or 0.0 for each, of in best),
        None,
        statistics.fmean(each.mean(of, BALANCED) or 0.0 for each, of in best),
    )
    ahead = sum((each.difference("scr", of) or 0.0) > 0 for each, of in best)
    return (
        f"| {titled(labels)} | {len(group)}, neighbors {kind} | {_mean_cell(group, 'scr')} | "
        f"{_mean_cell(group, peer)} `{peer}` | {oracle} | {ahead} of {len(group)} |"
    )


def _mean_cell(group: Sequence[Measured], method: str) -> str:
    mean, count = over_graphs(group, method)
    if not count:
        return ""
    return mean_cell(mean, None, over_graphs(group, method, BALANCED)[0]) + _graphs(
        count, len(group)
    )
