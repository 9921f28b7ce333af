"""The page of a comparison, and of the demo: what helped, by how much, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from scr.report import plots
from scr.report._comparison import ComparisonRow, compare_runs
from scr.report._conclusion import cautions, differences, headline
from scr.report._examples import ExampleGroup
from scr.report._explanation import explained_model
from scr.report._formatting import mapping, number_or_none
from scr.report._regularizers import explanations
from scr.report._tables import caption
from scr.report.page._render import render


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
    on_test = any(number_or_none(run.get("test_accuracy")) is not None for run in runs)
    return render(
        "comparison.html",
        title=title or f"Comparison on {graph.get('name')}",
        intro=intro or "Encoders with and without consistency regularization, on the same seeds.",
        headline=headline(rows),
        differences=differences(rows),
        cautions=cautions(rows),
        notes=compare.get("notes") or (),
        runs=runs,
        measure="test_accuracy" if on_test else "valid_accuracy",
        rows=rows,
        caption=caption(rows),
        regularizers=explanations(row["regularizer"] for row in rows),
        explanation=explanation,
        explained=explained_model(explanation),
        shown_for=shown_for,
        histories=histories or {},
        examples=examples or (),
        graph=graph,
        graph_facts=graph_facts,
        command=compare.get("command"),
    )
