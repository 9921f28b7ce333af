"""The pages of a comparison and of a sweep, from what these left in their files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from scr.metrics import ACCURACY, metric_of
from scr.report._comparison import ComparisonRow, compare_runs, metric_of_all
from scr.report._conclusion import caption, cautions, differences, headline, second_measure
from scr.report._examples import ExampleGroup
from scr.report._explanation import explained_model
from scr.report._formatting import mapping, number_or_none
from scr.report._regularizers import explanations
from scr.report.charts import Histories
from scr.report.page._render import render


def comparison_page(
    compare: Mapping[str, Any],
    *,
    title: str = "",
    graph_facts: Mapping[str, object] | None = None,
    histories: Histories | None = None,
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
    from scr.report import plots

    runs: Sequence[Mapping[str, Any]] = compare.get("runs") or []
    rows = cast("Sequence[ComparisonRow]", compare.get("rows") or compare_runs(runs))
    graph, explanation = mapping(compare.get("graph")), mapping(compare.get("explanation"))
    metric = metric_of_all(rows)
    kind = "accuracy" if metric is ACCURACY else "metric"
    on_test = any(number_or_none(run.get(f"test_{kind}")) is not None for run in runs)
    return render(
        "comparison.html",
        plots=plots,
        title=title or f"Comparison on {graph.get('name')}",
        intro=intro or "Encoders with and without consistency regularization, on the same seeds.",
        headline=headline(rows),
        differences=differences(rows),
        cautions=cautions(rows),
        notes=compare.get("notes") or (),
        runs=runs,
        measure=f"test_{kind}" if on_test else f"valid_{kind}",
        metric=metric,
        beside=second_measure(metric)[0],
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


def sweep_page(result: Mapping[str, Any]) -> str:
    """A sweep, the content of `sweep.json`, as one HTML page."""
    from scr.report import plots

    title = f"Sensitivity of {result['encoder']} on {result['graph']['name']}"
    metric = metric_of(result["base"])
    return render("sweep.html", title=title, plots=plots, **result, metric=metric)


def learning_curve_page(result: Mapping[str, Any]) -> str:
    """A learning curve, the content of `learning_curve.json`, as one HTML page."""
    from scr.report import plots

    title = f"Learning curve of {result['encoder']} on {result['graph']['name']}"
    return render("learning_curve.html", title=title, plots=plots, **result)
