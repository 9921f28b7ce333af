"""The page of one run: how good, what was run, how training went, and where it is unsure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.report import plots
from scr.report._formatting import MISSING, memory, number_or_none, percent, plain, seconds
from scr.report._metrics import ReliabilityCurve, per_class_table
from scr.report._predictions import Node, PredictionSummary
from scr.report._records import RunRecord, read_run
from scr.report._regularizers import explanation
from scr.report._stages import stage_ends, stages_sentence
from scr.report.page._explanation import explanation_section
from scr.report.page._html import (
    Markup,
    bullets,
    command_block,
    document,
    element,
    escape,
    facts,
    headline_numbers,
    join,
    paragraph,
    plot,
    section,
    table,
)
from scr.report.page._smoothing import smoothing_section

_CURVE_TEXTS = {
    "loss": "Supervised and consistency loss per epoch",
    "accuracy": "Validation and test accuracy per epoch",
    "confident_nodes": "Number of nodes in the confident set per epoch",
    "confident_accuracy": "Accuracy of the confident set on validation nodes, and the threshold",
}


_FEW_CLASSES = 12


def run_page(run_dir: str | Path) -> str:
    """The report of a run directory as one HTML page."""
    record = read_run(run_dir)
    graph = _mapping(record.run.get("graph"))
    recipe = _mapping(record.run.get("recipe"))
    encoder = record.run.get("encoder") or _mapping(recipe.get("encoder")).get("name")
    regularizer = record.run.get("regularizer")
    name = " with ".join(str(part) for part in (encoder, regularizer) if part) or record.path.name
    place = f" on {graph['name']}" if graph.get("name") else ""
    subtitle = _subtitle(record)
    return document(
        f"{name}{place}",
        subtitle,
        _headlines(record.metrics),
        _notes(record.run),
        section(
            "How training went",
            training_plots({name: [record.history]}, record.metrics),
            _term(record.metrics),
            intro=stages_sentence(recipe, record.history),
        ),
        smoothing_section(record.smooth),
        *_quality(record.predictions, graph.get("class_names")),
        explanation_section(record.explanation),
        section("The graph", facts(_graph_facts(graph))),
        section(
            "What was run",
            _preset(record.run),
            _regularizer(regularizer),
            settings(recipe),
        ),
        footer=_footer(record.run),
    )


def training_plots(histories: plots.Histories, metrics: Mapping[str, Any] | None = None) -> Markup:
    """The curves of one or more models, side by side where there is room."""
    best = (metrics or {}).get("best_epoch")
    curves = plots.training_curves(histories, best_epoch=best if isinstance(best, int) else None)
    drawn = [
        plot(svg, name=f"curve-{name}", description=_CURVE_TEXTS[name])
        for name, svg in curves.items()
    ]
    return element("div", *drawn, class_="plots") if drawn else Markup("")


def settings(recipe: Mapping[str, Any]) -> Markup:
    """All settings of a recipe, a card per section."""
    sections = {name: value for name, value in recipe.items() if isinstance(value, Mapping)}
    loose = {name: value for name, value in recipe.items() if name not in sections}
    cards = [
        element("div", element("h3", escape(name)), facts(values, "settings"), class_="group")
        for name, values in {"general": loose, **sections}.items()
        if values
    ]
    return element("div", *cards, class_="groups") if cards else Markup("")


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


def _headlines(metrics: Mapping[str, Any]) -> Markup:
    test, valid = _mapping(metrics.get("test")), _mapping(metrics.get("valid"))
    measured, where = (test, "test nodes") if test else (valid, "validation nodes")
    log_loss = number_or_none(measured.get("log_loss"))
    numbers = [
        ("Test accuracy", percent(metrics.get("test_accuracy")), "percent of test nodes"),
        ("Validation accuracy", percent(metrics.get("valid_accuracy")), "percent; picks the epoch"),
        ("Balanced accuracy", percent(measured.get("balanced_accuracy")), f"mean recall, {where}"),
        ("Macro F1", percent(measured.get("macro_f1")), f"percent, {where}"),
        ("Calibration error", percent(measured.get("calibration_error")), f"points, {where}"),
        ("Log loss", MISSING if log_loss is None else f"{log_loss:.3f}", f"nats, {where}"),
        ("Training", seconds(metrics.get("train_seconds")),
         f"and {seconds(metrics.get('propagate_seconds'))} propagating"),
        ("Peak memory", memory(metrics.get("peak_memory_bytes")), "of the whole process"),
    ]  # fmt: skip
    return headline_numbers(number for number in numbers if number[1] != MISSING)


def _notes(run: Mapping[str, Any]) -> Markup:
    notes = [str(note) for note in run.get("notes") or []]
    return element("div", bullets(notes), class_="notes") if notes else Markup("")


def _term(metrics: Mapping[str, Any]) -> Markup:
    """What the term on unlabeled nodes did, counted in the epochs."""
    term = _mapping(metrics.get("consistency"))
    if not term:
        return Markup("")
    if not term.get("acted"):
        parts = ["The regularizer had no part in this result, which is that of the base"]
    else:
        parts = [
            f"The term on unlabeled nodes acted in {plain(term.get('acting_epochs'))} of "
            f"{plain(term.get('epochs'))} epochs after the warm-up, with "
            f"{percent(term.get('confident_share'))}% of the unlabeled nodes on average and "
            f"{percent(term.get('confident_share_last'))}% in the last epoch"
        ]
    if term.get("teacher_valid_accuracy") is not None:
        parts.append(
            f"at the end the teacher is right on {percent(term['teacher_valid_accuracy'])}% of the "
            f"validation nodes, the student on {percent(term.get('student_valid_accuracy'))}%"
        )
    return paragraph("; ".join(parts) + ".", "note")


def _preset(run: Mapping[str, Any]) -> Markup:
    preset = _mapping(run.get("preset"))
    if not preset.get("name"):
        return Markup("")
    reason = f": {preset['reason']}" if preset.get("reason") else ""
    return paragraph(f"Preset {preset['name']}{reason}", "intro")


def _regularizer(name: Any) -> Markup:
    line = explanation(str(name))
    return paragraph(f"Regularizer {name}: {line}", "intro") if line else Markup("")


def _graph_facts(graph: Mapping[str, Any]) -> dict[str, Any]:
    shown = ("nodes", "edges", "features", "classes", "train", "valid", "test")
    names = {"train": "training nodes", "valid": "validation nodes", "test": "test nodes"}
    return {names.get(key, key): graph[key] for key in shown if graph.get(key) is not None}


def _quality(
    predictions: PredictionSummary | None, known_names: Sequence[str] | None
) -> Iterator[Markup]:
    """Calibration and classes where labels are known, and the nodes worth a look."""
    if predictions is None:
        return
    measured = predictions.measured_split()
    if measured is not None:
        split, summary = measured
        nodes = "test" if split == "test" else "validation"
        names = predictions.class_names([str(name) for name in known_names or ()])
        confusion = summary.confusion(names)
        rows = per_class_table(confusion, names)
        yield section(
            "How far to trust it",
            _quality_plots(summary.curve(), rows, confusion, names),
            intro=f"Measured on the {nodes} nodes. A dot below the dashed line is a group of nodes "
            "whose confidence promises more than it keeps.",
        )
    tables = [
        _node_table(
            "Least confident",
            "Without a known label, and where the model hesitates most: good candidates for the "
            "next labels.",
            predictions.least_sure,
        ),
        _node_table(
            "Most confident mistakes",
            "The label may be wrong, or the class hard to tell apart.",
            predictions.surest_mistakes,
        ),
        _node_table("Most confident", "Where the model hesitates least.", predictions.surest),
    ]
    if any(tables):
        yield section(
            "Nodes worth a look",
            element("div", *tables, class_="plots"),
            intro=f"Out of {predictions.total:,} predicted nodes, training nodes left out.",
        )


def _quality_plots(
    curve: ReliabilityCurve,
    rows: Sequence[Mapping[str, Any]],
    confusion: NDArray[np.int64],
    names: Sequence[str],
) -> Markup:
    """Calibration and recall side by side; with few classes, so are confusions and the table."""
    few = len(names) <= _FEW_CLASSES
    small = element(
        "div",
        plot(
            plots.reliability_diagram(curve), name="reliability",
            description="Accuracy against confidence",
        ),
        plot(plots.class_recalls(rows), name="recalls", description="Recall of each class"),
        class_="plots",
    )  # fmt: skip
    heatmap = plot(
        plots.confusion_heatmap(confusion, names), name="confusion",
        description="Share of each label predicted as each class",
    )  # fmt: skip
    classes = _class_table(rows)
    if few:
        return join([small, element("div", heatmap, classes, class_="plots")])
    summary = element("summary", escape(f"All {len(names)} classes as a table"))
    return join([small, heatmap, element("details", summary, classes)])


def _class_table(rows: Sequence[Mapping[str, Any]]) -> Markup:
    cells = [
        [
            element("span", escape(row["class"]), class_="name-cell"),
            escape(plain(row["nodes"])),
            escape(plain(row["predicted"])),
            *(escape(percent(row[measure])) for measure in ("recall", "precision", "f1")),
        ]
        for row in rows
    ]
    headings = ("class", "nodes", "predicted", "recall", "precision", "F1")
    return table(headings, cells, numeric=range(1, 6))


def _node_table(title: str, note: str, nodes: Sequence[Node]) -> Markup:
    if not nodes:
        return Markup("")
    rows = [
        [
            element("span", escape(node.id), class_="name-cell"),
            escape(node.prediction),
            escape(percent(node.confidence)),
            escape(node.label if node.label is not None else MISSING),
            escape(node.split or MISSING),
        ]
        for node in nodes
    ]
    made = table(("node", "prediction", "confidence %", "label", "split"), rows, numeric=(2,))
    intro = [paragraph(note, "note")] if note else []
    return element("div", element("h3", escape(title)), *intro, made)


def _footer(run: Mapping[str, Any]) -> Markup:
    versions = ", ".join(f"{name} {value}" for name, value in _mapping(run.get("versions")).items())
    fingerprint = _mapping(run.get("graph")).get("fingerprint")
    lines = [versions, f"data fingerprint {fingerprint}" if fingerprint else ""]
    return join([command_block(run.get("command")), *(paragraph(line) for line in lines if line)])


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
