"""What carries a prediction, in sentences: from the tables of an explanation, without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scr.report._comparison import BASE
from scr.report._formatting import mapping, number_or_none

SPLITS = {"valid": "validation nodes", "train": "training nodes"}
_COUNTS = {
    "attention": "of the attention",
    "share": "of what the first layer over all hops reads",
    "fixed": "of a mixture that is fixed, not learned",
}
MOST_CLASSES = 15
"""Classes in one table; of more, those that are predicted most often."""
_LITTLE = 0.005
"""Accuracy below which a loss is not worth a word: half a point."""


def explanation_sentences(explanation: Mapping[str, Any]) -> list[str]:
    """Which hop counts most, which relation, and whose loss costs most; none without numbers."""
    relations = _relation_sentence(mapping(explanation.get("mixing")))
    drops = (_drop_sentence(explanation, what) for what in ("hop", "subset", "labels"))
    return [sentence for sentence in (_hop_sentence(explanation), relations, *drops) if sentence]


def explained_model(explanation: Mapping[str, Any]) -> str:
    """Whose predictions were explained: encoder and regularizer."""
    regularizer = explanation.get("regularizer")
    trained = "without a regularizer" if regularizer in (None, BASE) else f"with {regularizer}"
    return f"{explanation.get('encoder')} {trained}"


def drops_of(explanation: Mapping[str, Any], *kinds: str) -> list[Mapping[str, Any]]:
    """What was lost by shuffling parts of some kinds, as far as it is numbers."""
    drops = explanation.get("drops")
    return [
        drop
        for drop in (drops if isinstance(drops, Sequence) else ())
        if isinstance(drop, Mapping)
        and drop.get("what") in kinds
        and number_or_none(drop.get("mean")) is not None
        and number_or_none(drop.get("spread")) is not None
    ]


def subset_drops(explanation: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What was lost by shuffling subsets of relations, with the names that plots use."""
    drops, names = drops_of(explanation, "subset"), subset_names(explanation.get("mixing"))
    if len(names) != len(drops):
        return drops
    return [{**drop, "name": name} for drop, name in zip(drops, names, strict=True)]


def spread_ends(drop: Mapping[str, Any]) -> tuple[float, float]:
    """The ends of the spread of what was lost."""
    return drop["mean"] - drop["spread"], drop["mean"] + drop["spread"]


def columns(rows: Sequence[Sequence[float]]) -> list[list[float]]:
    """A table with its rows as columns."""
    return [list(column) for column in zip(*rows, strict=True)]


def rows_differ(rows: Sequence[Sequence[float]]) -> bool:
    """Whether the numbers of a table differ by enough to be worth showing."""
    values = [value for row in rows for value in row]
    return bool(values) and max(values) - min(values) >= _LITTLE


def frequent_classes(attention: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The attention of the classes that are predicted most often, at most `MOST_CLASSES`."""
    table = zip(attention["classes"], attention["class_nodes"], attention["by_class"], strict=True)
    frequent = sorted(table, key=lambda row: -row[1])[:MOST_CLASSES]
    return [{"name": f"{name} ({nodes:,})", "shares": shares} for name, nodes, shares in frequent]


def subset_names(mixing: object) -> list[str]:
    """Each subset by its number and its relations: cut, long names of several may be the same."""
    mixed = mapping(mixing)
    joined = [" + ".join(map(str, names)) for names in mixed.get("subsets") or ()]
    if not mixed.get("relations"):
        return joined
    return [f"{number}: {name}" for number, name in enumerate(joined, start=1)]


def _hop_sentence(explanation: Mapping[str, Any]) -> str:
    attention, hops = mapping(explanation.get("attention")), explanation.get("hops") or []
    mean = attention.get("mean") or []
    if len(mean) < 2 or len(mean) != len(hops):
        return ""
    most = max(range(len(mean)), key=lambda hop: mean[hop])
    if max(mean) - min(mean) < _LITTLE:
        return f"All {len(hops)} hops count the same."
    share = _COUNTS.get(str(attention.get("kind")), "")
    return f"{str(hops[most]).capitalize()} counts most: {100 * mean[most]:.0f}% {share}."


def _relation_sentence(mixing: Mapping[str, Any]) -> str:
    names, shares = mixing.get("relations") or [], mixing.get("relation") or []
    if len(names) < 2 or len(names) != len(shares):
        return ""
    order = sorted(range(len(names)), key=lambda position: -shares[position])
    first, last = order[0], order[-1]
    return (
        f"Of the relations, {names[first]} has the largest share ({100 * shares[first]:.0f}%) "
        f"and {names[last]} the smallest ({100 * shares[last]:.0f}%)."
    )


def _drop_sentence(explanation: Mapping[str, Any], what: str) -> str:
    drops = drops_of(explanation, what)
    if not drops:
        return ""
    worst = max(drops, key=lambda drop: drop["mean"])
    lost = 100 * worst["mean"]
    where = SPLITS.get(str(explanation.get("split")), "the nodes")
    if what == "labels" and worst["mean"] < _LITTLE:
        return "The propagated labels add less than half a point."
    if what == "labels":
        return f"Shuffling the propagated labels costs {lost:.1f} points of accuracy on {where}."
    kind = "hop" if what == "hop" else "subset of relations"
    if worst["mean"] < _LITTLE:
        return f"No {kind} is needed alone: shuffling any one of them costs less than half a point."
    name = worst["name"] if what == "hop" else f"the subset {worst['name']}"
    return f"Shuffling {name} costs most: {lost:.1f} points of accuracy on {where}."
