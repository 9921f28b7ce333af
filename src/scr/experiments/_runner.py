"""Run a list of tasks on one graph: tasks in, records out, every finished run kept.

Tasks are independent, so an engine may run several at once; a worker computes hops once for tasks
in a row that read the same. Each finished run is appended to `runs.jsonl` at once: an experiment
that was stopped resumes there, and a repeated one with more seeds runs only what is new.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from scr.classifier import NodeClassifier
from scr.engines import Engine, Needs, opened
from scr.errors import InactiveTermWarning
from scr.experiments._claims import RUNS, Claims, Waiting
from scr.graph import UNKNOWN, Graph, Split
from scr.prediction.smoothing import smooth_predictions
from scr.propagation import has_hops_of_some_rows, labeled_nodes, rows_hash
from scr.report import classification_metrics, read_records
from scr.runs import run_identity, subsets_identity, versions, write_json
from scr.sources import IngestOptions, draw_split
from scr.training import (
    Prepared,
    Recipe,
    chosen_subsets,
    prepare,
    what_is_prepared,
    with_known_labels,
)

WATCHED = ("epoch", "stage", "seconds", "valid_accuracy", "valid_loss", "test_accuracy",
           "valid_metric")  # fmt: skip
"""What a curve needs of an epoch; most have no accuracies, but all take time."""
_CHOSEN = ("metric", "valid_metric", "test_metric")
"""Of a run in which another metric than accuracy counts."""
NUMERICS = 2
"""Raised when a change of code changes results: runs that older code has kept are then repeated,
where they would otherwise be taken for new ones."""


@dataclass(frozen=True, eq=False)
class Task:
    """One run of an experiment."""

    encoder: str
    regularizer: str
    seed: int
    layers: tuple[dict[str, Any], ...]
    """Recipe tables; later ones win, also over the `for` tables of earlier ones."""
    preset: str = "auto"
    watch: bool = False
    """Put every epoch into the record, with the test accuracy of evaluated ones; for curves."""
    explain: bool = False
    """Put into the record which hops and relations carry the predictions."""
    labels: Mapping[str, Any] = field(default_factory=dict)
    """What the run stands for in its experiment; added to the record that `Runner.run` returns."""
    split: Split | None = None
    """Of this run alone, which sees no other labels; none: the split of its seed."""

    def classifier(self) -> NodeClassifier:
        """What the task trains."""
        return NodeClassifier(
            self.encoder, self.regularizer, seed=self.seed, preset=self.preset, recipe=self.layers
        )

    def key(self, graph: Graph) -> str:
        """Names the run by everything that decides its result: graph, split, settings, seed."""
        recipe = self.classifier().resolve(graph)
        watched = ["watched"] if self.watch else []
        subsets = subsets_identity(chosen_subsets(graph, recipe))
        return run_identity(graph, recipe, self.seed, *watched, f"numerics {NUMERICS}", *subsets)


@dataclass(frozen=True)
class Runner:
    """Runs tasks on one graph and keeps their records."""

    graph: Graph
    splits: str | None = None
    """A splits file or a rule such as `per-class:20,30`: seed i uses split i; none: all seeds use
    the graph's own split."""
    out: Path | None = None
    """Folder for `runs.jsonl` and results; none keeps nothing."""
    jobs: int = 1
    """Processes; each uses one thread if there are several."""
    engine: Engine | str = "local"
    """Where runs take place, `local` or `ray`; an open engine has its own number of processes."""
    on_plan: Callable[[int], None] | None = None
    """Called once, with the number of runs that are not finished yet."""
    on_run: Callable[[Mapping[str, Any]], None] | None = None
    """Called with every run that finishes."""
    command: str | None = None
    """Recorded in results."""

    def graph_of(self, seed: int) -> Graph:
        """The graph as one seed sees it."""
        if self.splits is None:
            return self.graph
        return draw_split(self.graph, IngestOptions(splits=self.splits, split=seed))

    def graph_for(self, task: Task) -> Graph:
        """The graph as one task sees it."""
        if task.split is not None:
            return with_task_split(self.graph, task.split)
        return self.graph_of(task.seed)

    def recipe_of(self, task: Task) -> Recipe:
        """All settings of a task."""
        return task.classifier().resolve(self.graph_for(task))

    def facts(self) -> dict[str, Any]:
        """What a result says about its graph."""
        graph = self.graph
        return {
            "name": graph.name,
            "nodes": graph.num_targets,
            "edges": graph.num_edges,
            "features": graph.num_features,
            "classes": graph.num_classes,
            "fingerprint": graph.fingerprint(),
            "splits": self.splits and Path(self.splits).name,
        }

    def run(self, tasks: Iterable[Task]) -> list[dict[str, Any]]:
        """Run all tasks that are not in `runs.jsonl` yet; returns a record per task, in order.

        Tasks that come to the same settings and seed are run once and share their record.
        """
        tasks = list(tasks)
        seeds = {task.seed for task in tasks if task.split is None}
        graphs = {seed: self.graph_of(seed) for seed in seeds}
        keys = {
            task: task.key(graphs[task.seed] if task.split is None else self.graph_for(task))
            for task in tasks
        }
        done = {} if self.out is None else read_records(self.out / RUNS)
        missing = {keys[task]: task for task in tasks if keys[task] not in done}
        if self.on_plan is not None:
            self.on_plan(len(missing))
        claims = Claims(self.out, done)
        try:
            waiting = Waiting(missing, claims)
            for task, record in self._execute(waiting, len(missing)):
                record["key"] = keys[task]
                claims.finish(record)
                if self.on_run is not None:
                    self.on_run(record)
            for key in waiting.finished_elsewhere:
                if self.on_run is not None:
                    self.on_run(done[key])
        finally:
            claims.close()
        return [{**done[keys[task]], **task.labels} for task in tasks]

    def result(self, name: str, content: Mapping[str, Any]) -> dict[str, Any]:
        """A result, with what all results say; written beside the runs, if runs are kept."""
        known = {"graph": self.facts(), "command": self.command, "versions": versions()}
        result = {**known, **content}
        if self.out is not None:
            write_json(self.out / name, result)
        return result

    def _execute(self, tasks: Waiting, count: int) -> Iterator[tuple[Task, dict[str, Any]]]:
        if count == 0:
            return
        with opened(self.engine, jobs=self.jobs) as engine:
            yield from engine.run(
                _start, (self.graph, self.splits), tasks, needs=Needs(), most=count
            )


def with_task_split(graph: Graph, split: Split) -> Graph:
    """The graph with another split, and with the labels of its nodes alone."""
    labels = np.full_like(graph.labels, UNKNOWN)
    for nodes in split:
        labels[nodes] = graph.labels[nodes]
    return replace(graph, labels=labels, **split._asdict())


class _Worker:
    """Runs tasks one after another and keeps the hops of the last settings."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.hops: tuple[str, Prepared] | None = None

    def run(self, task: Task) -> dict[str, Any]:
        graph = self.runner.graph_for(task)
        classifier = task.classifier()
        recipe = classifier.resolve(graph)
        epochs: list[dict[str, Any]] = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InactiveTermWarning)  # rows are marked instead
            classifier.fit(
                graph, prepared=self._prepared(graph, recipe), watch_test=task.watch,
                on_epoch=(lambda epoch: epochs.append(asdict(epoch))) if task.watch else None,
            )  # fmt: skip
        summary = classifier.summary()
        test = summary.get("test", {})
        record = {
            "graph": graph.name,
            "encoder": task.encoder,
            "regularizer": task.regularizer,
            "seed": task.seed,
            **{name: summary[name] for name in _CHOSEN if name in summary},
            "valid_accuracy": summary["valid_accuracy"],
            "test_accuracy": summary["test_accuracy"],
            "train_seconds": round(summary["train_seconds"], 3),
            **{name: value for name, value in test.items() if name != "accuracy"},
            "epochs": summary["epochs"],
            "best_epoch": summary["best_epoch"],
            "propagate_seconds": round(summary["propagate_seconds"], 3),
            "preset": recipe.preset,
            "notes": classifier.notes_,
        }
        if "consistency" in summary:
            record["consistency"] = summary["consistency"]
        if recipe.consistency is not None:
            # Of evaluated epochs after the warm-up.
            record["confident_nodes"] = [
                epoch["confident_nodes"]
                for epoch in classifier.history_
                if epoch["epoch"] > recipe.consistency.warmup
            ]
        if task.watch:
            record["curve"] = [
                {name: epoch[name] for name in WATCHED if epoch[name] is not None}
                for epoch in epochs
            ]
        if task.explain and not graph.is_multilabel:
            record["explanation"] = classifier.explain().tables()
        if recipe.postprocess.method != "none":
            record["smooth"] = _smoothed(graph, classifier, recipe, task.seed)
        return record

    def _prepared(self, graph: Graph, recipe: Recipe) -> Prepared:
        needed = what_is_prepared(graph, recipe)
        if has_hops_of_some_rows(graph):
            needed.append(rows_hash(labeled_nodes(graph)))  # another split may find other hops
        key = json.dumps(needed, sort_keys=True)
        if self.hops is None or self.hops[0] != key:
            self.hops = None  # the old hops go before the new ones come
            self.hops = key, prepare(graph, recipe)
        return self.hops[1]


def _smoothed(
    graph: Graph, classifier: NodeClassifier, recipe: Recipe, seed: int
) -> dict[str, Any]:
    """Accuracies after Correct and Smooth, and its settings."""
    # All nodes: where hops were kept for some nodes only, one sentence says so.
    probabilities = classifier.predictor_.probabilities(np.arange(graph.num_targets), None)
    known = with_known_labels(graph, recipe)
    smoothed = smooth_predictions(known, probabilities, recipe.postprocess, seed=seed)
    test = classification_metrics(graph.labels[graph.test], smoothed.probabilities[graph.test])
    return {
        "valid_accuracy": smoothed.valid_accuracy,
        "test_accuracy": smoothed.test_accuracy,
        "balanced_accuracy": test["balanced_accuracy"],
        "settings": asdict(smoothed.config),
    }


def _start(shared: tuple[Graph, str | None]) -> Callable[[Task], dict[str, Any]]:
    """Set up a worker of an engine."""
    graph, splits = shared
    return _Worker(Runner(graph, splits)).run
