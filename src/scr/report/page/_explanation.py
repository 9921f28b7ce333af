"""Which hops and relations carry the predictions: plots and names for a section of a page.

Reads the content of `explanation.json`, or the part of it that a comparison has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from scr.report import plots
from scr.report._explanation import SPLITS, drops_of, explanation_sentences
from scr.report._formatting import mapping
from scr.report.page._render import plot

_TITLES = {
    "attention": "Attention per hop",
    "share": "Share of each hop",
    "fixed": "Weights of the hops",
}


def explanation_parts(explanation: Mapping[str, Any]) -> dict[str, Any]:
    """What the template `explanation.html` shows of an explanation; no plots without numbers."""
    mixing = mapping(explanation.get("mixing"))
    return {
        "record": explanation,
        # In this order, plots of about one height are beside each other.
        "plots": [
            *_hop_plots(explanation),
            *_drop_plots(
                "Accuracy lost if shuffled", drops_of(explanation, "hop", "mixture", "labels")
            ),
            *_mixing_plots(explanation),
            *_class_plots(explanation),
            *_drop_plots("Accuracy lost if a subset is shuffled", _subset_drops(explanation)),
        ],
        "sentences": explanation_sentences(explanation),
        "nodes": SPLITS.get(str(explanation.get("split")), "nodes"),
        "mixture": drops_of(explanation, "mixture"),
        # In full, since plots cut long names.
        "subsets": _subset_names(mixing) if mixing.get("relations") else [],
    }


def _hop_plots(explanation: Mapping[str, Any]) -> list[Markup]:
    attention, hops = mapping(explanation.get("attention")), explanation.get("hops") or []
    mean, spread = attention.get("mean") or [], attention.get("spread") or []
    if not mean or not len(mean) == len(spread) == len(hops):
        return []
    title = _TITLES.get(str(attention.get("kind")), "How much each hop counts")
    svg = plots.attention_bars(hops, mean, spread, title=title)
    return [plot(svg, name="hops", description=f"{title}, mean and spread over nodes")]


def _class_plots(explanation: Mapping[str, Any]) -> list[Markup]:
    attention, hops = mapping(explanation.get("attention")), explanation.get("hops") or []
    if not attention.get("classes"):
        return []
    svg = plots.class_attention(
        hops, attention["classes"], attention["class_nodes"], attention["by_class"]
    )
    return [plot(svg, name="hops-by-class", description="How much each hop counts, by class")]


def _mixing_plots(explanation: Mapping[str, Any]) -> list[Markup]:
    mixing, hops = mapping(explanation.get("mixing")), (explanation.get("hops") or [])[1:]
    if not mixing.get("by_hop") or len(mixing["by_hop"]) != len(hops):
        return []
    parts = [("subset", _subset_names(mixing), mixing["by_hop"])]
    if mixing.get("relations"):
        parts.insert(0, ("relation", mixing["relations"], mixing["relation_by_hop"]))
    return [
        plot(
            plots.shares_by_hop(hops, names, shares, title=f"Share of each {part}"),
            name=f"{part}s",
            description=f"Share of each {part} in each hop",
        )
        for part, names, shares in parts
    ]


def _drop_plots(title: str, drops: Sequence[Mapping[str, Any]]) -> list[Markup]:
    if not drops:
        return []
    svg = plots.drop_bars(drops, title=title)
    return [plot(svg, name=f"{drops[0]['what']}-drops", description=f"{title} among the nodes")]


def _subset_drops(explanation: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """With the names that the other plots use."""
    drops = drops_of(explanation, "subset")
    names = _subset_names(mapping(explanation.get("mixing")))
    if len(names) != len(drops):
        return drops
    return [{**drop, "name": name} for drop, name in zip(drops, names, strict=True)]


def _subset_names(mixing: Mapping[str, Any]) -> list[str]:
    """Each subset by its number and its relations: cut, long names of several may be the same."""
    joined = [" + ".join(map(str, names)) for names in mixing.get("subsets") or ()]
    if not mixing.get("relations"):
        return joined
    return [f"{number}: {name}" for number, name in enumerate(joined, start=1)]
