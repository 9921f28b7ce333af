"""The page of one run: how good, what was run, how training went, and where it is unsure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from scr.report import plots
from scr.report._formatting import mapping, number_or_none, plain
from scr.report._metrics import per_class_table
from scr.report._predictions import PredictionSummary
from scr.report._records import RunRecord, read_run
from scr.report._regularizers import explanation
from scr.report._stages import stage_ends, stages_sentence
from scr.report.page._explanation import explanation_parts
from scr.report.page._render import plot, render

_CURVE_TEXTS = {
    "loss": "Supervised and consistency loss per epoch",
    "accuracy": "Validation and test accuracy per epoch",
    "confident_nodes": "Number of nodes in the confident set per epoch",
    "confident_accuracy": "Accuracy of the confident set on validation nodes, and the threshold",
}


def run_page(run_dir: str | Path) -> str:
    """The report of a run directory as one HTML page."""
    record = read_run(run_dir)
    run, metrics = record.run, record.metrics
    graph, recipe = mapping(run.get("graph")), mapping(run.get("recipe"))
    encoder = run.get("encoder") or mapping(recipe.get("encoder")).get("name")
    regularizer = run.get("regularizer")
    model = " with ".join(str(part) for part in (encoder, regularizer) if part) or record.path.name
    chosen = mapping(record.smooth.get("chosen"))
    return render(
        "run.html",
        title=f"{model} on {graph['name']}" if graph.get("name") else model,
        subtitle=_subtitle(record),
        run=run,
        metrics=metrics,
        stages=stages_sentence(recipe, record.history),
        curves=training_plots({model: [record.history]}, metrics.get("best_epoch")),
        smooth=record.smooth,
        smoothed=_smoothed(record.smooth),
        chosen={name.replace("_", " "): value for name, value in chosen.items()},
        quality=_quality(record.predictions, graph.get("class_names") or ()),
        predictions=record.predictions,
        explanation=explanation_parts(record.explanation),
        graph_facts=_graph_facts(graph),
        regularizer=explanation(str(regularizer)),
        settings=_settings(recipe),
        command=run.get("command"),
    )


def training_plots(histories: plots.Histories, best_epoch: object = None) -> list[Markup]:
    """The curves of one or more models."""
    best = best_epoch if isinstance(best_epoch, int) else None
    return [
        plot(svg, name=f"curve-{name}", description=_CURVE_TEXTS[name])
        for name, svg in plots.training_curves(histories, best_epoch=best).items()
    ]


def _settings(recipe: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """All settings of a recipe by section; those outside of sections come first."""
    sections = {name: value for name, value in recipe.items() if isinstance(value, Mapping)}
    general = {name: value for name, value in recipe.items() if name not in sections}
    return {name: values for name, values in {"general": general, **sections}.items() if values}


def _subtitle(record: RunRecord) -> str:
    parts = []
    if record.run.get("seed") is not None:
        parts.append(f"seed {record.run['seed']}")
    epochs, best = record.metrics.get("epochs"), record.metrics.get("best_epoch")
    if epochs is not None:
        stages = len(stage_ends(record.history))
        parts.append(f"{plain(epochs)} epochs" + (f" in {stages} stages" if stages > 1 else ""))
    if best is not None:
        parts.append(f"weights kept from epoch {plain(best)}")
    if not record.metrics:
        parts.append("not finished: no metrics yet")
    return ", ".join(parts)


def _smoothed(smooth: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Nodes, with accuracies before and after Correct & Smooth; none where it was not run."""
    valid, test = mapping(smooth.get("valid")), mapping(smooth.get("test"))
    count = number_or_none(valid.get("nodes"))
    nodes = "validation nodes" if count is None else f"{count:,.0f} validation nodes"
    if count is not None and mapping(smooth.get("settings")).get("labels") != "train":
        nodes += ", the half whose labels were held back"
    scores = [(nodes, valid), ("test nodes", test)]
    return [pair for pair in scores if number_or_none(pair[1].get("after")) is not None]


def _graph_facts(graph: Mapping[str, Any]) -> dict[str, Any]:
    shown = ("nodes", "edges", "features", "classes", "train", "valid", "test")
    names = {"train": "training nodes", "valid": "validation nodes", "test": "test nodes"}
    return {names.get(key, key): graph[key] for key in shown if graph.get(key) is not None}


def _quality(
    predictions: PredictionSummary | None, known_names: Sequence[object]
) -> dict[str, Any] | None:
    """Calibration and classes on nodes whose labels are known; none without such nodes."""
    measured = predictions.measured_split() if predictions else None
    if predictions is None or measured is None:
        return None
    split, summary = measured
    names = predictions.class_names([str(name) for name in known_names])
    confusion = summary.confusion(names)
    rows = per_class_table(confusion, names)
    return {
        "split": "test" if split == "test" else "validation",
        "rows": rows,
        "reliability": plot(
            plots.reliability_diagram(summary.curve()),
            name="reliability",
            description="Accuracy against confidence",
        ),
        "recalls": plot(
            plots.class_recalls(rows), name="recalls", description="Recall of each class"
        ),
        "confusion": plot(
            plots.confusion_heatmap(confusion, names),
            name="confusion",
            description="Share of each label predicted as each class",
        ),
    }
