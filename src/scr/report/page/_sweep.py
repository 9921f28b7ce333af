"""The page of a sweep: per setting its curves, what they show in words, and the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scr.report import plots
from scr.report._formatting import mean_and_spread
from scr.report._sensitivity import SweepCurve, difference_of
from scr.report._sensitivity_sentences import curve_sentence
from scr.report.page._comparison import facts_of
from scr.report.page._render import plot, render


def sweep_page(result: Mapping[str, Any]) -> str:
    """A sweep as one HTML page.

    Args:
        result: Content of `sweep.json`.
    """
    graph, base, curves = result["graph"], result["base"], result["curves"]
    return render(
        "sweep.html",
        title=f"Sensitivity of {result['encoder']} on {graph['name']}",
        subtitle="One setting at a time, all else as in the recipe, on the same seeds.",
        headline=result["headline"],
        cautions=result["cautions"],
        settings=[
            _setting(name, svg, [curve for curve in curves if curve["setting"] == name])
            for name, svg in plots.sensitivity_curves(curves, base).items()
        ],
        graph_facts={
            **facts_of(graph),
            "base, validation": mean_and_spread(base["valid_mean"], base["valid_std"]),
            "base, test": mean_and_spread(base["test_mean"], base["test_std"]),
        },
        command=result.get("command"),
    )


def _setting(name: str, svg: bytes, curves: Sequence[SweepCurve]) -> dict[str, Any]:
    drawing = plot(
        svg,
        name=f"sweep-{name.replace('.', '-')}",
        description=f"Accuracy against the base over the values of {name}",
    )
    points = []
    for curve in curves:
        points += [
            (curve, point, difference_of(point, curve["measured_on"])) for point in curve["points"]
        ]
    sentences = [curve_sentence(curve) for curve in curves]
    return {"name": name, "plot": drawing, "sentences": sentences, "points": points}
