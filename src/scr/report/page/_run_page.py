"""The page of a run, from what it left in its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scr.errors import RunError
from scr.metrics import metric_of, per_class_table, share_interval
from scr.report._class_shares import correction_sentences, share_rows
from scr.report._formatting import mapping, number_or_none
from scr.report._predictions import (
    BANDS,
    LISTED_NODES,
    NodeGroup,
    PredictionSummary,
    summarize_predictions,
)
from scr.report._records import (
    PAGE_FIELDS,
    read_history,
    read_object,
    shown_from,
    stage_ends,
    stages_sentence,
)
from scr.report._regularizers import explanation
from scr.report.page._render import render

_RECORDS = {
    "run": "run.json",
    "metrics": "metrics.json",
    "smooth": "smooth/smooth.json",
    "explanation": "explanation.json",
    "ensemble": "ensemble.json",
    "breakdown": "breakdown.json",
    "suggestions": "suggestions.json",
}
_SPLITS = {"test": "test nodes", "valid": "validation nodes"}
_Z = 1.959964
"""Standard errors of a 95% interval."""
_FEW_CLASSES = 12
"""Classes of which a table says which are confused; more need a picture."""


def run_page(run_dir: str | Path) -> str:
    """The report of a run directory as one HTML page.

    `run.json` must be there. Everything else may be missing or half there, because a report of a
    run that was interrupted, or made by another version, is still worth reading.
    """
    path = Path(run_dir)
    if not (path / "run.json").is_file():
        raise RunError(
            f"`{path}` has no run.json; expected a run directory",
            hint="give the run directory that `scr fit` or `scr train` wrote",
        )
    records = {
        name: read_object(file, PAGE_FIELDS.get(name)) if (file := path / place).is_file() else {}
        for name, place in _RECORDS.items()
    }
    with shown_from(path):
        return _page(path, records)


def _page(path: Path, records: Mapping[str, Mapping[str, Any]]) -> str:
    run, metrics, ensemble = (records[name] for name in ("run", "metrics", "ensemble"))
    history, table = read_history(path / "history.jsonl"), path / "predictions.parquet"
    graph, recipe = mapping(run.get("graph")), mapping(run.get("recipe"))
    names = [str(name) for name in graph.get("class_names") or ()]
    predictions = summarize_predictions(table) if table.is_file() else None
    # The models of an ensemble have been trained on all validation nodes among them.
    splits = ("test",) if ensemble else ("test", "valid")
    regularizer = run.get("regularizer")
    values = {
        **records,
        "title": _title(path, run, ensemble),
        "recipe": recipe,
        "metric": metric_of(metrics),
        "history": history,
        "stages": stage_ends(history),
        "stages_sentence": stages_sentence(recipe, history),
        "tried_by": metric_of(ensemble),
        "gain": _gain(mapping(metrics.get("consistency")), ensemble),
        "nodes": _listed(predictions, names, splits) if predictions else None,
        "quality": _quality(predictions, names, splits) if predictions else None,
        "targets": _targets(mapping(records["breakdown"])),
        "accuracies": _accuracies(mapping(records["breakdown"])),
        "measured_on": _SPLITS.get(str(records["breakdown"].get("split")), ""),
        "predictions": predictions,
        "mistakes": [
            node
            for node in (predictions.surest_mistakes if predictions else ())
            if not ensemble or node.split in splits
        ],
        "shares": share_rows(metrics.get("class_shares"), names),
        "corrections": correction_sentences(metrics.get("class_shares")),
        "regularizer": explanation(str(regularizer)),
        "command": run.get("command"),
    }
    return render("run.html", **values)


def _title(path: Path, run: Mapping[str, Any], ensemble: Mapping[str, Any]) -> str:
    graph, recipe = mapping(run.get("graph")), mapping(run.get("recipe"))
    encoder = run.get("encoder") or mapping(recipe.get("encoder")).get("name")
    model = " with ".join(str(part) for part in (encoder, run.get("regularizer")) if part)
    averaged = sum(1 for trial in ensemble.get("trials") or () if mapping(trial).get("weight"))
    if averaged > 1:
        model = f"{averaged} settings, averaged,"
    model = model or path.name
    return f"{model} on {graph['name']}" if graph.get("name") else model


def _gain(term: Mapping[str, Any], ensemble: Mapping[str, Any]) -> dict[str, float] | None:
    """What the regularizer gained on validation nodes, with a 95% interval."""
    gain, error = (number_or_none(term.get(name)) for name in ("gain", "gain_error"))
    alone = number_or_none(term.get("baseline_valid_accuracy"))
    if gain is None or error is None or alone is None or ensemble:
        return None
    low, high = gain - _Z * error, gain + _Z * error
    return {"alone": alone, "with": alone + gain, "gain": gain, "low": low, "high": high}


def _listed(
    predictions: PredictionSummary, known_names: Sequence[str], splits: Sequence[str]
) -> dict[str, Any] | None:
    """The nodes that people came for: those without a label, or else those that test."""
    measured = predictions.measured_split(splits)
    group, kind = predictions.unlabeled, "unlabeled nodes"
    if not group.total:
        shown = predictions.measured_split()
        if shown is None:
            return None
        group, kind = shown[1].nodes, _SPLITS[shown[0]]
    names = predictions.class_names(known_names)
    return {
        "kind": kind,
        "group": group,
        "is_unlabeled": group is predictions.unlabeled,
        "rows": group.least_sure.nodes,
        "is_cut": group.total > LISTED_NODES,
        "classes": _class_rows(group, names),
        "bands": _band_rows(group, measured),
        "measured": _SPLITS[measured[0]] if measured and not predictions.multilabel else "",
        "multilabel": predictions.multilabel,
    }


def _class_rows(group: NodeGroup, names: Sequence[str]) -> list[dict[str, Any]]:
    rows = []
    for name in names:
        count = group.by_class[name]
        mean = group.summed_confidence[name] / count if count else None
        rows.append({"class": name, "nodes": count, "share": count / group.total, "mean": mean})
    return rows


def _band_rows(group: NodeGroup, measured: Any) -> list[dict[str, Any]]:
    """Nodes by confidence, the surest first, beside how many measured nodes were right there."""
    rows = []
    for place in reversed(range(len(BANDS) - 1)):
        low, high = (round(100 * edge) for edge in BANDS[place : place + 2])
        count = int(group.bands[place])
        row: dict[str, Any] = {
            "name": f"{low} to {high}" if low else f"below {high}",
            "nodes": count,
            "share": count / group.total,
        }
        if measured is not None:
            row["measured"] = int(measured[1].nodes.bands[place])
            row |= _share("accuracy", int(measured[1].right[place]), row["measured"])
        if count or row.get("measured"):
            rows.append(row)
    return rows


def _share(name: str, right: int, total: int) -> dict[str, Any]:
    """A share with its 95% interval; none of no nodes."""
    if not total:
        return {name: None, f"{name}_between": None}
    return {name: right / total, f"{name}_between": share_interval(right, total)}


def _quality(
    predictions: PredictionSummary, known_names: Sequence[str], splits: Sequence[str]
) -> dict[str, Any] | None:
    """Calibration and classes on nodes whose labels are known; none without such nodes."""
    measured = predictions.measured_split(splits)
    if measured is None or predictions.multilabel:
        return None
    split, summary = measured
    names = predictions.class_names(known_names)
    confusion = summary.confusion(names)
    return {
        "split": split,
        "on": _SPLITS[split],
        "names": names,
        "confusion": confusion,
        "is_small": len(names) <= _FEW_CLASSES,
        "rows": per_class_table(confusion, names),
        "curve": summary.curve,
        "nodes": summary.nodes.total,
    }


def _accuracies(breakdown: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Accuracy by degree and by distance; each is left out where it tells nothing apart."""
    tables: dict[str, list[dict[str, Any]]] = {}
    for key in ("degree", "distance"):
        rows = []
        for each in breakdown.get(key) or ():
            counts = [number_or_none(mapping(each).get(name)) for name in ("nodes", "right")]
            if None in counts:
                continue
            nodes, right = (int(count or 0) for count in counts)
            unlabeled = int(number_or_none(each.get("unlabeled")) or 0)
            row = {"name": _group_name(each), "nodes": nodes, "unlabeled": unlabeled}
            rows.append(row | _share("accuracy", right, nodes))
        if sum(1 for row in rows if row["nodes"] or row["unlabeled"]) > 1:
            tables[key] = rows
    return tables


def _group_name(group: Mapping[str, Any]) -> str:
    if "distance" in group:
        steps = group["distance"]
        return "farther, or not connected" if steps is None else f"{steps}"
    low, high = group.get("from"), group.get("to")
    return f"{low}" if low == high else f"{low} to {high}"


def _targets(breakdown: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Precision, recall and F1 of each yes-or-no target."""
    rows = []
    for each in breakdown.get("targets") or ():
        names = ("known", "positive", "predicted", "right")
        numbers = [number_or_none(mapping(each).get(name)) for name in names]
        if None in numbers:
            continue
        known, positive, predicted, right = (int(number or 0) for number in numbers)
        rows.append(
            {
                "class": str(each.get("target")), "known": known, "nodes": positive,
                "predicted": predicted,
                "recall": right / positive if positive else None,
                "precision": right / predicted if predicted else None,
                "f1": 2 * right / (positive + predicted) if positive + predicted else None,
            }
        )  # fmt: skip
    return rows if any(row["known"] for row in rows) else []
