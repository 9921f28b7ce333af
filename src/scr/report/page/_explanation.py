"""Which hops and relations carry the predictions, as a section of a page.

Reads the content of `explanation.json`, or what a comparison has of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scr.report import plots
from scr.report._explanation import SPLITS, drops_of, explanation_sentences, mapping
from scr.report.page._html import Markup, bullets, element, escape, paragraph, plot, section

_KINDS = {
    "attention": "The attention of a hop is the weight that the encoder gives to it, node by node; "
    "some encoders read hop 0 also beside the attention.",
    "share": "The share of a hop is the size of what it adds to the first layer over all hops.",
    "fixed": "This encoder reads a mixture of the hops whose weights are set, not learned.",
}
_TITLES = {
    "attention": "Attention per hop",
    "share": "Share of each hop",
    "fixed": "Weights of the hops",
}


def explanation_section(explanation: Mapping[str, Any], *, of: str = "") -> Markup:
    """Pictures and sentences; nothing where nothing is known.

    Args:
        explanation: The tables of an `Explanation`.
        of: Whose it is, where the page is about several models.
    """
    # In this order, pictures of about one height are beside each other.
    drawn = [
        *_hop_plots(explanation),
        *_drop_plots(
            "Accuracy lost if shuffled", drops_of(explanation, "hop", "mixture", "labels")
        ),
        *_mixing_plots(explanation),
        *_class_plots(explanation),
        *_drop_plots("Accuracy lost if a subset is shuffled", _subset_drops(explanation)),
    ]
    if not drawn:
        return Markup("")
    return section(
        "What carries the prediction",
        bullets(explanation_sentences(explanation)),
        element("div", *drawn, class_="plots"),
        _subset_list(explanation),
        intro=_intro(explanation, of),
    )


def _intro(explanation: Mapping[str, Any], of: str) -> str:
    nodes = explanation.get("nodes")
    where = SPLITS.get(str(explanation.get("split")), "nodes")
    texts = [f"Shown for {of}." if of else ""]
    if isinstance(nodes, int):
        texts.append(f"Measured on {nodes:,} {where}.")
    texts.append("Hop 0 is a node's own features, hop k what its neighbors k steps away have.")
    texts.append(_KINDS.get(str(mapping(explanation.get("attention")).get("kind")), ""))
    if explanation.get("mixing"):
        texts.append(
            "Subsets of the relations are mixed per hop; the share of a subset is the size of its "
            "weights times how much its features vary, and those of its relations that the hop can "
            "go along share it equally."
        )
    if explanation.get("drops"):
        texts.append(
            "Weights say what the model looks at. What it needs is another question: accuracy is "
            "measured again with a part of the input shuffled among the nodes."
        )
    if drops_of(explanation, "mixture"):
        texts.append("Hops that are mixed beforehand can only be shuffled together.")
    return " ".join(text for text in texts if text)


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
    drawn = []
    if mixing.get("relations"):
        svg = plots.shares_by_hop(
            hops, mixing["relations"], mixing["relation_by_hop"], title="Share of each relation"
        )
        drawn.append(plot(svg, name="relations", description="Share of each relation in each hop"))
    svg = plots.shares_by_hop(
        hops, subset_names(mixing), mixing["by_hop"], title="Share of each subset"
    )
    drawn.append(plot(svg, name="subsets", description="Share of each subset in each hop"))
    return drawn


def _drop_plots(title: str, drops: Sequence[Mapping[str, Any]]) -> list[Markup]:
    if not drops:
        return []
    description = f"{title} among the nodes"
    name = f"{drops[0]['what']}-drops"
    return [plot(plots.drop_bars(drops, title=title), name=name, description=description)]


def _subset_drops(explanation: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """With the names that the other pictures use."""
    drops = drops_of(explanation, "subset")
    names = subset_names(mapping(explanation.get("mixing")))
    if len(names) != len(drops):
        return drops
    return [{**drop, "name": name} for drop, name in zip(drops, names, strict=True)]


def _subset_list(explanation: Mapping[str, Any]) -> Markup:
    """The relations of each subset in full, since pictures cut long names."""
    mixing = mapping(explanation.get("mixing"))
    if not mixing.get("relations"):
        return Markup("")
    names = subset_names(mixing)
    summary = element("summary", escape(f"The relations of all {len(names)} subsets"))
    return element("details", summary, *(paragraph(name, "note") for name in names))


def subset_names(mixing: Mapping[str, Any]) -> list[str]:
    """Each subset by its number and its relations: cut, long names of several may be the same."""
    joined = [" + ".join(map(str, names)) for names in mixing.get("subsets") or ()]
    if not mixing.get("relations"):
        return joined
    return [f"{place}: {name}" for place, name in enumerate(joined, start=1)]
