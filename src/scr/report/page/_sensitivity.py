"""The page of a sweep: per setting its curves, what they show in words, and the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scr.report import plots
from scr.report._formatting import MISSING, interval, mean_and_spread, points
from scr.report._intervals import BETTER, WORSE
from scr.report._sensitivity import SweepCurve, SweepPoint
from scr.report._sensitivity_sentences import curve_sentence
from scr.report.page._html import (
    Markup,
    bullets,
    command_block,
    document,
    element,
    escape,
    facts,
    paragraph,
    plot,
    section,
    table,
)

_BADGES = {BETTER: "badge good", WORSE: "badge bad"}


def sweep_page(result: Mapping[str, Any]) -> str:
    """A sweep as one HTML page.

    Args:
        result: Content of `sweep.json`.
    """
    curves: Sequence[SweepCurve] = result["curves"]
    base: SweepPoint = result["base"]
    pictures = plots.sensitivity_curves(curves, base)
    parts = [
        _setting(setting, picture, [curve for curve in curves if curve["setting"] == setting])
        for setting, picture in pictures.items()
    ]
    graph = result["graph"]
    cautions = result["cautions"]
    return document(
        f"Sensitivity of {result['encoder']} on {graph['name']}",
        "One setting at a time, all else as in the recipe, on the same seeds.",
        section(
            "What it showed",
            paragraph(result["headline"], "verdict"),
            bullets(cautions) if cautions else Markup(""),
        ),
        *parts,
        section("The graph", facts(_graph_facts(graph, base))),
        footer=command_block(result.get("command")),
    )


def _setting(setting: str, picture: bytes, curves: Sequence[SweepCurve]) -> Markup:
    shown = plot(
        picture,
        name=f"sweep-{setting.replace('.', '-')}",
        description=f"Accuracy against the base over the values of {setting}",
    )
    rows = [_cells(curve, point) for curve in curves for point in curve["points"]]
    names = [curve["regularizer"] for curve in curves for _ in curve["points"]]
    classes = ["first" if i and names[i] != names[i - 1] else "" for i in range(len(names))]
    headings = ("regularizer", "value", "seeds", "validation", "test", "difference", "95% interval",
                "verdict")  # fmt: skip
    return section(
        setting,
        bullets(curve_sentence(curve) for curve in curves),
        shown,
        table(headings, rows, numeric=(1, 2, 3, 4, 5, 6), row_classes=classes),
        paragraph(
            "Percent, mean ± standard deviation over seeds; difference: accuracy minus the base's "
            "on the same seed, in points. The value that the recipe has is marked with *.",
            "note",
        ),
    )


def _cells(curve: SweepCurve, point: SweepPoint) -> list[Markup]:
    gap = point["test_difference"] if curve["measured_on"] == "test" else point["valid_difference"]
    value = f"{point['value']:g}" + "*" * (point["value"] == curve["recipe_value"])
    verdict = MISSING if gap is None else gap["verdict"]
    return [
        escape(curve["regularizer"]),
        escape(value),
        escape(point["n"]),
        escape(mean_and_spread(point["valid_mean"], point["valid_std"])),
        escape(mean_and_spread(point["test_mean"], point["test_std"])),
        escape(MISSING if gap is None else points(gap["mean"])),
        element("span", escape("" if gap is None else interval(gap["low"], gap["high"])),
                class_="spread"),
        element("span", escape(verdict), class_=_BADGES.get(verdict, "badge")),
    ]  # fmt: skip


def _graph_facts(graph: Mapping[str, Any], base: SweepPoint) -> dict[str, object]:
    shown = {name: graph[name] for name in ("nodes", "edges", "features", "classes")}
    return {
        "graph": graph["name"],
        **shown,
        "splits": graph["splits"] or "the graph's own",
        "base, validation": mean_and_spread(base["valid_mean"], base["valid_std"]),
        "base, test": mean_and_spread(base["test_mean"], base["test_std"]),
    }
