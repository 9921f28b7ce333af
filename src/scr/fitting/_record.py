"""What `scr.fit` decided and measured, as `fit.json` keeps it and as people read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr import prediction, runs, training
from scr.errors import StoreError
from scr.fitting._inputs import FitInput
from scr.fitting._splits import SplitPlan
from scr.graph import known_labels
from scr.metrics import ACCURACY, Metric, MetricsInParts, metric_of, share_interval, target_metrics
from scr.storage import check_fields

FIT = "fit.json"
SCHEMA = 1
_LOOKS = "; of "
"""Where a reason begins to list what else was looked at."""
ENSEMBLE_FIELDS: dict[str, Any] = {
    "held_out_labels": int, "gain": dict[str, float] | None, "trials": list[dict[str, Any]],
    "folds": int,
}  # fmt: skip
FIT_FIELDS: dict[str, Any] = {
    "tables": list[str], "notes": list[str], "columns": list[str], "labels": int,
    "most_frequent_class": float | None, "split.kind": str, "split.train": int,
    "split.valid": int, "split.test": int, "held_out.accuracy": float, "held_out.nodes": int,
    "held_out.interval?": list[float], "held_out.calibration_error?": float | None,
    "gain": dict[str, float] | None,
}  # fmt: skip
MOST_COLUMNS = 30
"""That are listed; of more, what was found in the tables says how many are of each kind."""
CLEAR = 1.96
"""Standard errors from which a difference is more than noise, in nineteen cases of twenty."""


def input_record(read: FitInput, plan: SplitPlan) -> dict[str, Any]:
    """What was read, and how labels were split."""
    graph = plan.graph
    labels = np.asarray(graph.labels)
    known = np.union1d(graph.train, graph.valid).astype(np.int64)
    share = None
    if not graph.is_multilabel:
        share = float(np.bincount(labels[known][labels[known] >= 0]).max() / len(known))
    return {
        "schema": SCHEMA,
        "tables": list(read.tables),
        "notes": list(read.notes),
        "columns": [] if read.preparation is None else list(read.preparation.describe()),
        "labels": int(known_labels(labels).sum()),
        "most_frequent_class": share,
        "split": {
            "kind": plan.kind,
            "train": len(graph.train),
            "valid": len(graph.valid),
            "test": len(graph.test),
        },
    }


def held_out_once(fitted: training.Fitted, plan: SplitPlan) -> dict[str, Any]:
    """Measures on held-out labels before the refit, and what the term gained on them."""
    graph, soft = plan.graph, fitted.held_out
    assert soft is not None
    labels = np.asarray(graph.labels[training.nodes_with_labels(graph, "valid")])
    if fitted.multilabel:
        measures = target_metrics(labels, soft.numpy())
        held_out = {"nodes": len(labels), **measures}
    else:
        calibration = prediction.TrainedModel.of(fitted, graph).calibration
        held_out = _measured(labels, calibration.apply(soft.numpy()))
    return {"held_out": held_out, "gain": None if fitted.gain is None else asdict(fitted.gain)}


def read_record(out: Path) -> dict[str, Any]:
    """`fit.json` of a finished run."""
    file = out / FIT
    record = runs.read_json(file, FIT_FIELDS)
    if len(record["held_out"].get("interval", (0, 1))) != 2:
        raise StoreError(f"`{file}` has no two numbers as `held_out.interval`; it is damaged")
    if record["gain"] is not None:
        names = (each.name for each in fields(training.TermGain))
        check_fields(file, record["gain"], dict.fromkeys(names, float))
    return record


def held_out_in_folds(out: Path) -> dict[str, Any]:
    """The same of a run of several models, each of which was scored on labels it had not seen."""
    content = runs.read_json(out / prediction.ENSEMBLE, ENSEMBLE_FIELDS)
    summary = runs.read_metrics(out)
    check_fields(out / runs.METRICS, summary, {"valid.accuracy": float})
    measures = {"nodes": content["held_out_labels"], **summary["valid"]}
    return {"held_out": {**measures, **_interval(measures)}, "gain": content["gain"],
            "tried": len(content["trials"])}  # fmt: skip


def _measured(labels: NDArray[Any], soft: NDArray[np.float32]) -> dict[str, Any]:
    parts = MetricsInParts(ranked=True)
    parts.add(labels, soft)
    measures = {"nodes": len(labels), **parts.measures()}
    return {**measures, **_interval(measures)}


def _interval(measures: Mapping[str, Any]) -> dict[str, Any]:
    """In which the accuracy on as many other nodes is, in nineteen cases of twenty (Wilson)."""
    right = round(measures["accuracy"] * measures["nodes"])
    return {"interval": list(share_interval(right, measures["nodes"]))}


def record_lines(
    record: Mapping[str, Any], run: Mapping[str, Any], summary: Mapping[str, Any]
) -> list[tuple[str, str]]:
    """What was decided and measured: a word and a sentence each.

    Args:
        record: The content of `fit.json`.
        run: The content of `run.json`.
        summary: The content of `metrics.json`.
    """
    graph, split = run["graph"], record["split"]
    lines = []
    size = f"{graph['nodes']:,} nodes, {graph['edges']:,} stored edges"
    lines.append(("Graph", f"{' and '.join(record['tables']) or graph['name']}: {size}"))
    listed = {f"Column {line}" for line in record["columns"]}
    lines += [("Found", note) for note in record["notes"] if note not in listed]
    if 0 < len(record["columns"]) <= MOST_COLUMNS:
        lines.append(("Columns", "; ".join(record["columns"])))
    if not record["tables"]:
        lines.append(("Labels", f"{record['labels']:,} known, {graph['classes']} classes"))
    lines.append(("Split", _split_sentence(split)))
    reason = run["preset"]["reason"].partition(_LOOKS)[0]
    lines.append(("Encoder", f"{run['encoder']} with {run['regularizer']}; {reason}"))
    if "held_out" in record:
        lines.append(("Held out", _held_out_sentence(record, metric_of(summary))))
    if summary["test_accuracy"] is not None:
        right = f"{summary['test_accuracy']:.1%} of {split['test']:,} test nodes are right"
        lines.append(("Test", f"{right}; their labels chose nothing"))
    lines.append(("SCR", _gain_sentence(record, run)))
    error = record.get("held_out", {}).get("calibration_error")
    if error is not None:
        change = f"tempered by {run['temperature']:.3g}"
        if run["temperature"] == 1:
            change = "as the model gives it"
        off = f"on held-out labels off by {100 * error:.1f} points on average"
        lines.append(("Confidence", f"{change}; {off}"))
    return lines


def _split_sentence(split: Mapping[str, Any]) -> str:
    known, tests = split["train"] + split["valid"], ""
    if split["test"]:
        tests = f"; {split['test']:,} test nodes choose nothing"
    if split["kind"] == "folds":
        return (
            f"{known:,} labels, so each is held out once, fold by fold, and trains otherwise{tests}"
        )
    whose = "by the graph's own split, " if split["kind"] == "own" else ""
    return (
        f"{whose}{split['train']:,} labels train and {split['valid']:,} choose settings, then all "
        f"{known:,} train{tests}"
    )


def _held_out_sentence(record: Mapping[str, Any], metric: Metric) -> str:
    held_out = record["held_out"]
    sentence = f"{held_out['accuracy']:.1%} of {held_out['nodes']:,} are right"
    if "interval" in held_out:
        low, high = held_out["interval"]
        sentence += f" (95% interval {low:.1%} to {high:.1%}"
        sentence += "; they also chose settings, so expect a little less)"
    if record["most_frequent_class"] is not None:
        sentence += f"; the most frequent class has {record['most_frequent_class']:.1%}"
    if metric is not ACCURACY and held_out.get(metric.key) is not None:
        sentence = f"{metric.title} {metric.shown(held_out[metric.key])}; {sentence}"
    return sentence


def _gain_sentence(record: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    """What the term on unlabeled nodes gains, and whether that is more than noise."""
    gain = record.get("gain")
    if run["regularizer"] == "none" and gain is None:
        return "not used"
    if gain is None:
        return "not compared with training without it"
    points = 100 * (gain["with_term"] - gain["without_term"])
    is_clear = abs(points) > CLEAR * 100 * gain["error"]
    noise = "more than noise" if is_clear else f"within noise, ± {CLEAR * 100 * gain['error']:.1f}"
    if gain["error"] == 0 and points == 0:
        noise = "the same nodes are right"
    both = f"{gain['with_term']:.1%} with it, {gain['without_term']:.1%} without"
    return f"{points:+.1f} points on held-out labels ({both}; {noise})"
