"""The page of a comparison, and of the demo: what helped, by how much, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from markupsafe import Markup

from scr.report import plots
from scr.report._comparison import ComparisonRow, compare_runs
from scr.report._conclusion import cautions, differences, headline
from scr.report._examples import ExampleGroup
from scr.report._explanation import explained_model
from scr.report._formatting import mapping, number_or_none
from scr.report._regularizers import explanations
from scr.report._tables import caption
from scr.report.page._explanation import explanation_parts
from scr.report.page._render import plot, render
from scr.report.page._run import training_plots


def comparison_page(
    compare: Mapping[str, Any],
    *,
    title: str = "",
    graph_facts: Mapping[str, object] | None = None,
    histories: plots.Histories | None = None,
    examples: Sequence[ExampleGroup] | None = None,
    shown_for: str = "",
    intro: str = "",
) -> str:
    """A comparison as one HTML page.

    Args:
        compare: Content of `compare.json`: `runs`, and optionally `graph`, `rows`, `notes`,
            `explanation` and `command`.
        title: Of the page; empty: it names the graph.
        graph_facts: Names and values to show about the graph; none: those of `compare`.
        histories: Per model, the training history of each seed, for curves.
        examples: Nodes to show, from `choose_examples`.
        shown_for: Which runs the curves and examples are of, such as `sagn, seed 0`.
        intro: A sentence below the title.
    """
    runs: Sequence[Mapping[str, Any]] = compare.get("runs") or []
    rows = cast("Sequence[ComparisonRow]", compare.get("rows") or compare_runs(runs))
    graph, explanation = mapping(compare.get("graph")), mapping(compare.get("explanation"))
    model = f"{explained_model(explanation)}, the best on validation nodes"
    return render(
        "comparison.html",
        title=title or f"Comparison on {graph.get('name')}",
        subtitle=intro
        or "Encoders with and without consistency regularization, on the same seeds.",
        headline=headline(rows),
        differences=differences(rows),
        cautions=cautions(rows),
        notes=compare.get("notes") or (),
        rows=rows,
        caption=caption(rows),
        regularizers=explanations(row["regularizer"] for row in rows),
        plots=_plots(runs, rows),
        explanation=explanation_parts(explanation),
        explained=f"{model} (seed {explanation.get('seed')})",
        shown_for=shown_for,
        curves=training_plots(histories) if histories else [],
        examples=examples or (),
        graph_facts=facts_of(graph) if graph_facts is None else graph_facts,
        command=compare.get("command"),
    )


def facts_of(graph: Mapping[str, Any]) -> dict[str, object]:
    """What a page shows about the graph of an experiment."""
    shown = {name: graph.get(name) for name in ("nodes", "edges", "features", "classes")}
    splits = graph.get("splits") or "the graph's own"
    return {"graph": graph.get("name"), **shown, "splits": splits}


def _plots(runs: Sequence[Mapping[str, Any]], rows: Sequence[ComparisonRow]) -> list[Markup]:
    drawn = []
    if runs:
        on_test = any(number_or_none(run.get("test_accuracy")) is not None for run in runs)
        measure = "test_accuracy" if on_test else "valid_accuracy"
        drawn.append(
            plot(plots.accuracy_dots(runs, measure=measure), name="accuracy",
                 description="Accuracy of every run, by encoder and regularizer")
        )  # fmt: skip
    if any(row["difference"] is not None for row in rows):
        drawn.append(
            plot(plots.difference_dots(rows), name="difference",
                 description="Paired differences to the base with 95% intervals")
        )  # fmt: skip
    return drawn
