"""The pages of a run, of a comparison and of a sweep, from what these left in their files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from scr.errors import RunError
from scr.metrics import ACCURACY, metric_of, per_class_table
from scr.report import plots
from scr.report._class_shares import correction_sentences, share_rows
from scr.report._comparison import ComparisonRow, compare_runs, metric_of_all
from scr.report._conclusion import caption, cautions, differences, headline, second_measure
from scr.report._examples import ExampleGroup
from scr.report._explanation import explained_model
from scr.report._formatting import mapping, number_or_none
from scr.report._records import (
    PredictionSummary,
    read_history,
    read_object,
    stage_ends,
    stages_sentence,
    summarize_predictions,
)
from scr.report._regularizers import explanation, explanations
from scr.report.page._render import render


def run_page(run_dir: str | Path) -> str:
    """The report of a run directory as one HTML page.

    `run.json` must be there. Everything else may be missing or half there, because a report of a
    run that was interrupted, or made by another version, is still worth reading.
    """
    path = Path(run_dir)
    if not (path / "run.json").is_file():
        raise RunError(
            f"`{path}` has no run.json; expected a run directory",
            hint="give the run directory that `scr train` wrote",
        )
    run, metrics, smooth, explained, ensemble = (
        read_object(file) if (file := path / name).is_file() else {}
        for name in (
            "run.json",
            "metrics.json",
            "smooth/smooth.json",
            "explanation.json",
            "ensemble.json",
        )
    )
    history, table = read_history(path / "history.jsonl"), path / "predictions.parquet"
    graph, recipe = mapping(run.get("graph")), mapping(run.get("recipe"))
    has_classes = table.is_file() and not graph.get("multilabel")
    predictions = summarize_predictions(table) if has_classes else None
    encoder = run.get("encoder") or mapping(recipe.get("encoder")).get("name")
    regularizer = run.get("regularizer")
    model = " with ".join(str(part) for part in (encoder, regularizer) if part) or path.name
    averaged = sum(1 for trial in ensemble.get("trials") or () if mapping(trial).get("weight"))
    if averaged > 1:
        model = f"{averaged} settings, averaged,"
    return render(
        "run.html",
        title=f"{model} on {graph['name']}" if graph.get("name") else model,
        run=run,
        recipe=recipe,
        metrics=metrics,
        metric=metric_of(metrics),
        history=history,
        stages=stage_ends(history),
        stages_sentence=stages_sentence(recipe, history),
        smooth=smooth,
        ensemble=ensemble,
        tried_by=metric_of(ensemble),
        quality=_quality(predictions, graph.get("class_names") or ()) if predictions else None,
        predictions=predictions,
        shares=share_rows(metrics.get("class_shares"), graph.get("class_names") or ()),
        corrections=correction_sentences(metrics.get("class_shares")),
        explanation=explained,
        regularizer=explanation(str(regularizer)),
        command=run.get("command"),
    )


def _quality(
    predictions: PredictionSummary, known_names: Sequence[object]
) -> dict[str, Any] | None:
    """Calibration and classes on nodes whose labels are known; none without such nodes."""
    measured = predictions.measured_split()
    if measured is None:
        return None
    split, summary = measured
    names = predictions.class_names([str(name) for name in known_names])
    confusion = summary.confusion(names)
    return {
        "split": "test" if split == "test" else "validation",
        "names": names,
        "confusion": confusion,
        "rows": per_class_table(confusion, names),
        "curve": summary.curve,
    }


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
    metric = metric_of_all(rows)
    kind = "accuracy" if metric is ACCURACY else "metric"
    on_test = any(number_or_none(run.get(f"test_{kind}")) is not None for run in runs)
    return render(
        "comparison.html",
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
    title = f"Sensitivity of {result['encoder']} on {result['graph']['name']}"
    metric = metric_of(result["base"])
    return render("sweep.html", title=title, **result, metric=metric)
