"""What the rows of `strangers.py` say about `NodeClassifier()`: each claim with its numbers."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from cells import interval, plain
from stranger_peers import PEERS
from stranger_tables import (
    ACCURACY,
    ALIKE,
    BALANCED,
    LABELS,
    Measured,
    mean_gain,
    over_graphs,
    read,
)

NOTHING = "    no rows yet"
SIMPLE = ("sgc", "logistic")
"""Logistic regression on two hops and on features: what nobody should lose to."""
WITHOUT_ALIKE = ("boosting", "gcn")


def verdict_lines() -> list[str]:
    """All claims."""
    by_labels = {labels: read(labels) for labels in LABELS}
    few = by_labels["20"]
    alike = [each for each in few if each.homophily > ALIKE]
    unlike = [each for each in few if each.homophily <= ALIKE]
    return [
        "a) scr below logistic regression on two hops or on features:",
        *below(by_labels, SIMPLE),
        f"b) homophily above {ALIKE}, 20 labels, scr against peers:",
        *against_best(alike, tuple(PEERS)),
        f"c) homophily up to {ALIKE}, 20 labels, scr against the better of boosting and gcn:",
        *against_best(unlike, WITHOUT_ALIKE),
        "d) scr against base:",
        *against(by_labels, "scr", "base"),
        "e) best against scr:",
        *against(by_labels, "best", "scr"),
        "f) calibration error:",
        *calibration(by_labels),
    ]


def below(by_labels: dict[str, list[Measured]], others: Sequence[str]) -> list[str]:
    """Graphs and numbers of labels on which the mean of scr is lower."""
    lines, compared = [], 0
    for labels, measured in by_labels.items():
        for each in measured:
            for other in others:
                difference = each.difference("scr", other)
                compared += difference is not None
                if difference is not None and difference < 0:
                    place = f"{plain(each.graph)}, {labels} labels"
                    lines.append(f"    {place}: {interval(difference)} to {other}")
    summary = f"    {len(lines)} of {compared} comparisons"
    return [*lines, summary] if compared else [NOTHING]


def against_best(group: Sequence[Measured], peers: Sequence[str]) -> list[str]:
    """The difference to the best peer of each graph, and in the mean to the best single peer."""
    lines, differences = [], []
    for each in group:
        peer = each.best(peers)
        difference = each.difference("scr", peer) if peer else None
        if difference is not None:
            differences.append(difference)
            lines.append(f"    {plain(each.graph)}: {interval(difference)} to {peer}")
    if not lines:
        return [NOTHING]
    lines.append(f"    mean over graphs, to the best of each: {interval(_mean(differences))}")
    gains = {peer: mean_gain(group, "scr", peer) for peer in peers}
    most = max(count for _, count in gains.values())
    whole = {peer: gain for peer, (gain, count) in gains.items() if count == most}
    single = min(whole, key=lambda peer: whole[peer])
    for peer, (gain, count) in gains.items():
        if count:
            mark = ", the best single peer" if peer == single else ""
            lines.append(f"    mean over {count} graphs, to {peer}: {interval(gain)}{mark}")
    return lines


def against(by_labels: dict[str, list[Measured]], method: str, other: str) -> list[str]:
    """Differences per graph and in the mean, of accuracy and balanced accuracy."""
    lines = []
    for labels, measured in by_labels.items():
        pairs = []
        for each in measured:
            accuracy = each.difference(method, other, ACCURACY)
            balanced = each.difference(method, other, BALANCED)
            if accuracy is not None and balanced is not None:
                pairs.append((accuracy, balanced))
                lines.append(f"    {labels} labels, {plain(each.graph)}: {_pair(pairs[-1])}")
        if pairs:
            means = tuple(_mean([pair[at] for pair in pairs]) for at in (0, 1))
            lines.append(f"    {labels} labels, mean over {len(pairs)} graphs: {_pair(means)}")
    return lines or [NOTHING]


def calibration(by_labels: dict[str, list[Measured]]) -> list[str]:
    """The mean over graphs of what was recorded with our rows."""
    lines = []
    for labels, measured in by_labels.items():
        for method in ("scr", "base", "best"):
            mean, count = over_graphs(measured, method, "calibration_error")
            if count:
                lines.append(f"    {labels} labels, {method}: {mean:.3f} over {count} graphs")
    return lines or [NOTHING]


def _mean(values: Sequence[float]) -> float:
    return statistics.fmean(values)


def _pair(pair: Sequence[float]) -> str:
    accuracy, balanced = map(interval, pair)
    return f"{accuracy} accuracy, {balanced} balanced accuracy"
