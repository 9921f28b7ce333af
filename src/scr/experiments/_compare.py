"""Encoders times regularizers times seeds on one graph, with every finished run kept.

Runs are independent, so they may go to several processes; hops are made once per process for runs
in a row that read the same. Each finished run is appended to `runs.jsonl` at once: a comparison
that was stopped goes on where it was, and a repeated one with more seeds runs only what is new.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from scr.classifier import NodeClassifier
from scr.errors import InactiveTermWarning, PairError, SCRError, StoreError
from scr.graph import Graph
from scr.prediction.smoothing import smooth_predictions
from scr.propagation import has_hops_of_some_rows, labeled_nodes, rows_hash
from scr.report import ComparisonRow, classification_metrics, compare_runs, inactive_note
from scr.runs import run_identity, subsets_identity, versions, write_json
from scr.sources import IngestOptions, draw_split
from scr.training import (
    Prepared,
    Recipe,
    chosen_subsets,
    prepare,
    what_is_prepared,
)

RUNS, COMPARE_JSON = "runs.jsonl", "compare.json"
NUMERICS = 2
"""Raised when a change of code changes results: runs that older code has kept are then made again,
where they would otherwise be taken for new ones."""


@dataclass(frozen=True, eq=False)
class Task:
    """One run of a comparison."""

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

    def classifier(self) -> NodeClassifier:
        """What the task trains."""
        return NodeClassifier(
            self.encoder,
            self.regularizer,
            seed=self.seed,
            preset=self.preset,
            recipe=self.layers,
        )

    def key(self, graph: Graph) -> str:
        """Names the run by everything that decides its result: graph, split, settings, seed."""
        special = ["watched"] if self.watch else []
        if NUMERICS > 1:
            special.append(f"numerics {NUMERICS}")
        recipe = self.classifier().resolve(graph)
        special += subsets_identity(chosen_subsets(graph, recipe))
        return run_identity(graph, recipe, self.seed, *special)


@dataclass(frozen=True)
class Comparison:
    """The graph of a comparison, and the splits that its seeds use."""

    graph: Graph
    splits: str | None = None
    """A splits file or a rule such as `per-class:20,30`: seed i uses split i; none: all seeds use
    the graph's own split."""

    def graph_of(self, seed: int) -> Graph:
        """The graph as one seed sees it."""
        if self.splits is None:
            return self.graph
        return draw_split(self.graph, IngestOptions(splits=self.splits, split=seed))

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


def compare(
    comparison: Comparison,
    tasks: Iterable[Task],
    *,
    out: Path | None = None,
    jobs: int = 1,
    on_plan: Callable[[int], None] | None = None,
    on_run: Callable[[Mapping[str, Any]], None] | None = None,
    command: str | None = None,
) -> dict[str, Any]:
    """Run all tasks that are not done yet and summarize all.

    Tasks of an encoder and a regularizer that do not go together are left out, which a note says.

    Args:
        comparison: The graph and its splits.
        tasks: What to run.
        out: Folder for `runs.jsonl` and `compare.json`; none keeps nothing.
        jobs: Processes; each uses one thread if there are several.
        on_plan: Called once, with the number of runs that are not done yet.
        on_run: Called with every run that finishes.
        command: Recorded in the result.

    Returns:
        The content of `compare.json`: `graph`, `notes`, `runs`, `rows`, `explanation`.

    Raises:
        PairError: No task is left.
    """
    tasks, notes = without_misfits(comparison, list(tasks))
    # Which pair is best is known at the end only, and then its encoder is gone.
    first = min((task.seed for task in tasks), default=0)
    tasks = [replace(task, explain=task.seed == first) for task in tasks]
    runs = run_tasks(comparison, tasks, out=out, jobs=jobs, on_plan=on_plan, on_run=on_run)
    # All runs are on one graph, so rows need not name it.
    rows = compare_runs([{**run, "graph": None} for run in runs])
    inactive = inactive_note(rows)
    result = {
        "graph": comparison.facts(),
        "command": command,
        "versions": versions(),
        "notes": notes if inactive is None else [*notes, inactive],
        "runs": [_without_explanation(run) for run in runs],
        "rows": rows,
        "explanation": best_explanation(runs, rows),
    }
    if out is not None:
        write_json(out / COMPARE_JSON, result)
    return result


def without_misfits(comparison: Comparison, tasks: Sequence[Task]) -> tuple[list[Task], list[str]]:
    """Leave out pairs of an encoder and a regularizer that do not go together.

    Returns:
        The other tasks, and what was left out in a sentence per regularizer.
    """
    pairs = {(task.encoder, task.regularizer): task for task in tasks}
    misfits: dict[tuple[str, str], PairError] = {}
    for pair, task in pairs.items():
        try:
            task.classifier().resolve(comparison.graph_of(task.seed))
        except PairError as error:
            misfits[pair] = error
    if misfits and len(misfits) == len(pairs):
        raise next(iter(misfits.values()))
    kept = [task for task in tasks if (task.encoder, task.regularizer) not in misfits]
    return kept, _misfit_notes(list(misfits.values()))


def _misfit_notes(misfits: Sequence[PairError]) -> list[str]:
    named: dict[str, list[PairError]] = {}
    for error in misfits:
        named.setdefault(error.regularizer, []).append(error)
    return [
        f"Left out `{regularizer}` with {', '.join(error.encoder for error in errors)}: it "
        f"{errors[0].reason}, as in {errors[0].fitting}"
        for regularizer, errors in named.items()
    ]


def best_explanation(
    runs: Iterable[Mapping[str, Any]], rows: Iterable[ComparisonRow]
) -> dict[str, Any] | None:
    """What carries the predictions of the pair that is best on validation nodes.

    Returns:
        The tables of an `Explanation`, with the regularizer and the seed of its run; none where the
        pair has no explained run, such as one that an older version has kept.
    """
    measured = [row for row in rows if row["valid_mean"] is not None]
    if not measured:
        return None
    best = max(measured, key=lambda row: row["valid_mean"] or 0.0)
    for run in runs:
        same = (run["encoder"], run["regularizer"]) == (best["encoder"], best["regularizer"])
        if same and run.get("explanation"):
            named = {name: run[name] for name in ("regularizer", "seed")}
            return {**run["explanation"], **named}
    return None


def _without_explanation(run: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in run.items() if name != "explanation"}


def run_tasks(
    comparison: Comparison,
    tasks: Iterable[Task],
    *,
    out: Path | None = None,
    jobs: int = 1,
    on_plan: Callable[[int], None] | None = None,
    on_run: Callable[[Mapping[str, Any]], None] | None = None,
) -> list[dict[str, Any]]:
    """Run all tasks that are not in `runs.jsonl` yet; see `compare`.

    Tasks that come to the same settings and seed are run once and share their record.

    Returns:
        One record per task, in their order.
    """
    tasks = list(tasks)
    keys = _keys(comparison, tasks)
    done = {} if out is None else _read_runs(out / RUNS)
    missing = {keys[task]: task for task in tasks if keys[task] not in done}
    if on_plan is not None:
        on_plan(len(missing))
    for task, record in _execute(comparison, list(missing.values()), jobs):
        record["key"] = keys[task]
        done[record["key"]] = record
        if out is not None:
            _append(out / RUNS, record)
        if on_run is not None:
            on_run(record)
    return [done[keys[task]] for task in tasks]


def plan(
    encoders: Sequence[str],
    regularizers: Sequence[str],
    seeds: Sequence[int],
    *,
    layers: Sequence[Mapping[str, Any]] = (),
    preset: str = "auto",
) -> list[Task]:
    """All combinations, those that share hops next to each other."""
    settings = tuple(dict(layer) for layer in layers)
    return [
        Task(encoder, regularizer, seed, settings, preset)
        for encoder in encoders
        for seed in seeds
        for regularizer in regularizers
    ]


def _keys(comparison: Comparison, tasks: Iterable[Task]) -> dict[Task, str]:
    """Keys of all tasks, each split drawn once."""
    graphs: dict[int, Graph] = {}
    keys = {}
    for task in tasks:
        if task.seed not in graphs:
            graphs[task.seed] = comparison.graph_of(task.seed)
        keys[task] = task.key(graphs[task.seed])
    return keys


def _execute(
    comparison: Comparison, tasks: Sequence[Task], jobs: int
) -> Iterator[tuple[Task, dict[str, Any]]]:
    if jobs <= 1 or len(tasks) <= 1:
        worker = _Worker(comparison)
        for task in tasks:
            yield task, worker.run(task)
        return
    context = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(
        jobs, mp_context=context, initializer=_start_worker, initargs=(comparison,)
    ) as pool:
        futures = {pool.submit(_run_in_worker, task): task for task in tasks}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            # What runs now would be waited for and then thrown away.
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()
            raise


class _Worker:
    """Runs tasks one after another and keeps the hops of the last settings."""

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison
        self.hops: tuple[str, Prepared] | None = None

    def run(self, task: Task) -> dict[str, Any]:
        graph = self.comparison.graph_of(task.seed)
        classifier = task.classifier()
        recipe = classifier.resolve(graph)
        epochs: list[dict[str, Any]] = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InactiveTermWarning)  # rows are marked instead
            classifier.fit(
                graph,
                prepared=self._prepared(graph, recipe),
                watch_test=task.watch,
                on_epoch=(lambda epoch: epochs.append(asdict(epoch))) if task.watch else None,
            )
        summary = classifier.summary()
        test = summary.get("test", {})
        record = {
            "graph": graph.name,
            "encoder": task.encoder,
            "regularizer": task.regularizer,
            "seed": task.seed,
            "valid_accuracy": summary["valid_accuracy"],
            "test_accuracy": summary["test_accuracy"],
            "train_seconds": round(summary["train_seconds"], 3),
            **{name: value for name, value in test.items() if name != "accuracy"},
            "epochs": summary["epochs"],
            "best_epoch": summary["best_epoch"],
            "propagate_seconds": round(summary["propagate_seconds"], 3),
            "preset": recipe.preset,
            "notes": classifier.notes_,
            **({"consistency": summary["consistency"]} if "consistency" in summary else {}),
            **_confident_nodes(classifier.history_, recipe),
            **({"curve": [_watched(epoch) for epoch in epochs]} if task.watch else {}),
        }
        if task.explain:
            record["explanation"] = classifier.explain().tables()
        if recipe.postprocess.method != "none":
            smoothed = smooth_predictions(
                graph,
                # All of them: where hops were kept for some nodes only, one sentence says so.
                classifier.predict_proba(np.arange(graph.num_targets)),
                recipe.postprocess,
                seed=task.seed,
            )
            test_labels = graph.labels[graph.test]
            measured = classification_metrics(test_labels, smoothed.probabilities[graph.test])
            record["smooth"] = {
                "valid_accuracy": smoothed.valid_accuracy,
                "test_accuracy": smoothed.test_accuracy,
                "balanced_accuracy": measured["balanced_accuracy"],
                "settings": asdict(smoothed.config),
            }
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


def _confident_nodes(history: Iterable[Mapping[str, Any]], recipe: Recipe) -> dict[str, list[int]]:
    """Nodes that took part in the term in evaluated epochs after the warm-up, if there is one."""
    if recipe.consistency is None:
        return {}
    warmup = recipe.consistency.warmup
    return {
        "confident_nodes": [
            epoch["confident_nodes"] for epoch in history if epoch["epoch"] > warmup
        ]
    }


_WATCHED = ("epoch", "stage", "seconds", "valid_accuracy", "valid_loss", "test_accuracy")


def _watched(epoch: Mapping[str, Any]) -> dict[str, Any]:
    """What a curve needs of one epoch; most have no accuracies, but all take time."""
    return {name: epoch[name] for name in _WATCHED if epoch[name] is not None}


_worker: _Worker | None = None


def _start_worker(comparison: Comparison) -> None:
    """Set up one process: a thread each, since small runs gain nothing from more."""
    global _worker
    use_one_thread()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _worker = _Worker(comparison)


def use_one_thread() -> None:
    """Compute with one thread from now on, as a process of several does."""
    import numba
    import torch
    from threadpoolctl import threadpool_limits

    # A Ctrl-C reaches all processes of a terminal; the one that shows it ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    numba.set_num_threads(1)
    threadpool_limits(1)


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for work forever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run_in_worker(task: Task) -> dict[str, Any]:
    if _worker is None:
        raise SCRError("A worker of the comparison was not set up")
    return _worker.run(task)


def _read_runs(path: Path) -> dict[str, dict[str, Any]]:
    """Finished runs by key; a torn last line of a killed process is dropped."""
    runs: dict[str, dict[str, Any]] = {}
    if not path.exists():
        return runs
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        runs[record["key"]] = record
    return runs


def _append(path: Path, record: Mapping[str, Any]) -> None:
    """Write a finished run to a line of its own, also after a torn line of a killed process."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as file:
            torn = False
            if file.tell() > 0:
                file.seek(-1, os.SEEK_END)
                torn = file.read(1) != b"\n"
            line = json.dumps(record) + "\n"
            file.write((f"\n{line}" if torn else line).encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise StoreError(f"`{path}` could not be written: {error.strerror}") from None
