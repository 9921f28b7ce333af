"""A stranger's graph: what one gets with no options, beside what others give on the same splits.

    python benchmarks/strangers.py                     run what is missing, then print the tables
    python benchmarks/strangers.py --method peers --jobs 1
    python benchmarks/strangers.py --graph flickr --labels 20 --splits 1
    python benchmarks/strangers.py --table             print what there is, run nothing
    python benchmarks/strangers.py --verdict           what the rows say about `NodeClassifier()`

Every graph is cut into splits with 5, 20 or 50 training labels per class, or with a tenth of all
labels; 30 validation nodes per class, or another tenth. `scr` is `NodeClassifier()` as it is,
`base` the same without the consistency term; peers are in `stranger_peers.py`. Settings of `auto`
were chosen on the graphs in `stranger_tables.CHOSEN_ON`, by eye; the others were looked at by
nothing but this report.

Results are written row by row to results/strangers/GRAPH.json, those of peers, which no change of
the package alters, to results/stranger_peers/GRAPH.json; what is there is not run again.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from code_version import code_version, is_current
from harness import RESULTS, Results, console
from scr import NodeClassifier, load_graph
from scr.engines import use_one_thread
from scr.graph import Graph, per_class_split, random_split
from scr.synth import SynthConfig, write_synth_store
from stranger_peers import PEERS, run_peer
from stranger_tables import LABELS, OURS, kind_of, read_file, read_rows, table_lines
from stranger_verdict import verdict_lines

DATA = Path(__file__).parents[2] / "shared" / "data"
GRAPHS = (
    "cora", "cora_ml", "acm", "uai", "blogcatalog", "flickr", "actor", "amazon_photo",
    "dblp_citation", "coauthor_cs", "pubmed", "crowd", "wordnet",
)  # fmt: skip
"""By their number of nodes, small ones first."""
VALID_PER_CLASS = 30
SPLITS = 5
FIRST_SPLITS = 3
"""Run with all numbers of labels before the others."""
ARGUMENTS: dict[str, dict[str, Any]] = {
    "scr": {},
    "base": {"regularizer": "none"},
    "best": {"effort": "best", "time_limit": 200},
}
"""Keyword arguments of `NodeClassifier` for our rows."""
LARGE = ("crowd", "wordnet")
"""Run after all others with the same labels and splits."""
LATE = ("gcnii",)
"""Slow peers, likewise."""
LAST = "grand"
"""Run on small graphs with 20 labels and two splits, after everything else."""
SMALL = ("cora", "cora_ml", "acm", "uai")
LIMITS = {LAST: 3600}
LIMIT = 900
"""Processor seconds that a peer may take: a graph on which it needs more is not its graph."""

Run = tuple[str, str, int, str]
"""Graph, labels, split, method."""


class OverLimitError(Exception):
    """A peer took longer than it may."""


@lru_cache(maxsize=2)
def whole_graph(name: str) -> Graph:
    """A graph without a split of ours."""
    if name != "crowd":
        return load_graph(DATA / f"{name}.npz")
    # Large neighborhoods of many classes, features that say little.
    store = Path(__file__).parent / ".cache" / "strangers" / "crowd"
    if not store.exists():
        config = SynthConfig(
            nodes=100_000, edges=5_000_000, features=64, classes=20, homophily=0.35, signal=0.4,
            seed=1,
        )  # fmt: skip
        write_synth_store(config, store)
    return load_graph(store)


@lru_cache(maxsize=2)
def facts(name: str) -> dict[str, Any]:
    """What a table says about a graph; homophily: edges between equal labels among known ones."""
    graph = whole_graph(name)
    ends = graph.labels[np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))]
    others = graph.labels[graph.indices]
    known = (ends >= 0) & (others >= 0)
    return {
        "nodes": graph.num_nodes,
        "edges": len(graph.indices) // 2,
        "classes": graph.num_classes,
        "homophily": round(float((ends == others)[known].mean()), 4),
    }


def split_graph(name: str, labels: str, split: int) -> Graph:
    """A graph with one of its splits."""
    graph = whole_graph(name)
    if labels.endswith("%"):
        share = int(labels.removesuffix("%")) / 100
        nodes = random_split(graph.labels, share, share, seed=split)
    else:
        nodes = per_class_split(graph.labels, int(labels), VALID_PER_CLASS, seed=split)
    return dataclasses.replace(graph, train=nodes.train, valid=nodes.valid, test=nodes.test)


def run(name: str, labels: str, split: int, method: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Train one method on one split; returns its row and the graph's facts."""
    graph = split_graph(name, labels, split)
    wall, processor = time.perf_counter(), time.process_time()
    try:
        if method in OURS:
            predictions, row = our_predictions(graph, name, split, method)
        else:
            with processor_limit(LIMITS.get(method, LIMIT)):
                predictions, row = run_peer(method, graph, split), {}
        row = scores(graph, predictions) | row
    except OverLimitError:
        row = {"over_limit": LIMITS.get(method, LIMIT)}
    row["seconds"] = round(time.perf_counter() - wall, 2)
    row["processor_seconds"] = round(time.process_time() - processor, 2)
    return row, facts(name)


def our_predictions(
    graph: Graph, name: str, seed: int, method: str
) -> tuple[NDArray[Any], dict[str, Any]]:
    """Classes of all nodes, and what `NodeClassifier` chose.

    The portfolio of `best` is the one that all other graphs teach.
    """
    classifier = NodeClassifier(**ARGUMENTS[method], seed=seed)
    if method == "best":
        from portfolio import stranger_portfolio

        taught = stranger_portfolio(name)
        with mock.patch("scr.tuning._portfolio.read_portfolio", return_value=taught):
            classifier.fit(graph)
        chosen = {"valid_accuracy": classifier.summary()["valid_accuracy"]}  # of held-out folds
    else:
        classifier.fit(graph)
        chosen = {}
    recipe = classifier.recipe_
    row = chosen | {
        "calibration_error": round(classifier.metrics("test")["calibration_error"], 5),
        "encoder": recipe.encoder,
        "hops": recipe.propagation.hops,
        "scale": recipe.data.scale,
    }
    return classifier.predictor_.predict(None, None), row


@contextmanager
def processor_limit(seconds: float) -> Iterator[None]:
    """Raise `OverLimitError` after so many seconds of processor time."""

    def stop(*_: object) -> None:
        raise OverLimitError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def scores(graph: Graph, predictions: NDArray[Any]) -> dict[str, float]:
    """Accuracy and mean recall on test nodes, accuracy on validation nodes."""
    right, classes = predictions == graph.labels, graph.labels[graph.test]
    recalls = [float(right[graph.test][classes == each].mean()) for each in np.unique(classes)]
    return {
        "valid_accuracy": round(float(right[graph.valid].mean()), 5),
        "test_accuracy": round(float(right[graph.test].mean()), 5),
        "balanced_accuracy": round(statistics.fmean(recalls), 5),
    }


def queue(
    methods: Iterable[str], graphs: Iterable[str], labels: Iterable[str], splits: int
) -> list[Run]:
    """All runs that are asked for, the most telling ones first."""
    chosen, names, counts = list(methods), list(graphs), list(labels)
    runs = [
        (name, count, split, method)
        for some in (range(min(splits, FIRST_SPLITS)), range(FIRST_SPLITS, splits))
        for count in LABELS
        if count in counts
        for large in (False, True)
        for late in (False, True)
        for name in GRAPHS
        if name in names and (name in LARGE) == large
        for split in some
        for method in chosen
        if (method in LATE) == late and method != LAST
    ]
    if LAST in chosen and "20" in counts:
        small = [name for name in SMALL if name in names]
        runs += [(name, "20", split, LAST) for split in range(min(splits, 2)) for name in small]
    return runs


def missing(runs: Iterable[Run], *, older: bool) -> list[Run]:
    """Runs that have no row, or, if older ones count, none of today's code."""
    kept: dict[Run, dict[str, Any]] = {}
    for name in GRAPHS:
        for row in read_rows(name):
            kept[name, row["labels"], row["split"], row["method"]] = row
    return [
        each
        for each in runs
        if each not in kept
        or (older and not is_current(kept[each], code_version(kind_of(each[3]))))
    ]


def fill(runs: list[Run], jobs: int) -> int:
    """Run and write row by row; returns how many failed."""
    kept, failed, waiting = Kept(), 0, dict[Future[Any], Run]()
    with ProcessPoolExecutor(jobs, initializer=use_one_thread) as pool:
        for each in (*runs, *[None] * jobs):
            if each is not None and not kept.over_limit(each):
                waiting[pool.submit(run, *each)] = each
            if each is not None and len(waiting) < jobs:
                continue
            for done in wait(waiting, return_when=FIRST_COMPLETED).done:
                failed += not kept.settle(waiting.pop(done), done)
    return failed


class Kept:
    """The results files that rows are added to."""

    def __init__(self) -> None:
        self._files: dict[tuple[str, str], Results] = {}

    def settle(self, of: Run, done: Future[Any]) -> bool:
        """Write what a run found, and say it; whether it found something."""
        error = done.exception()
        if error is not None:
            console.print(f"{titled(of)}: {error!r}", markup=False, soft_wrap=True)
            return False
        self.add(of, *done.result())
        return True

    def add(self, of: Run, row: dict[str, Any], about: dict[str, Any]) -> None:
        """Write a row of a graph."""
        name, labels, split, method = of
        place = kind_of(method), name
        if place not in self._files:
            settings = {"valid_per_class": VALID_PER_CLASS, "graph": about}
            path = RESULTS / place[0] / f"{name}.json"
            self._files[place] = Results(path, settings, kind=place[0])
        self._files[place].add({"labels": labels, "split": split, "method": method}, row)
        console.print(f"{titled(of)}: {said(row)}", markup=False, soft_wrap=True)

    def over_limit(self, of: Run) -> bool:
        """Note a run as over the limit where another split with these labels was."""
        name, labels, _, method = of
        content = read_file(name, kind_of(method))
        for row in content["rows"] if content else ():
            same = (row["labels"], row["method"]) == (labels, method)
            if same and row.get("over_limit") == LIMITS.get(method, LIMIT):
                known = {"over_limit": row["over_limit"], "as_split": row["split"]}
                self.add(of, known, content["settings"]["graph"])
                return True
        return False


def titled(of: Run) -> str:
    """A run in a few words."""
    name, labels, split, method = of
    return f"{name}, {labels} labels, split {split}, {method}"


def said(row: dict[str, Any]) -> str:
    """A row in a few words."""
    if "over_limit" in row:
        return f"over the limit of {row['over_limit']} s"
    return f"{100 * row['test_accuracy']:.1f}% in {row['processor_seconds']:.1f} s"


def supported(method: str) -> bool:
    """Whether `NodeClassifier` takes the arguments of a method of ours."""
    return set(ARGUMENTS[method]) <= set(inspect.signature(NodeClassifier).parameters)


def methods_of(names: list[str] | None) -> list[str]:
    """The methods of the command line; `peers` and `ours` stand for several."""
    groups: dict[str, Callable[[], list[str]]] = {
        "ours": lambda: [each for each in OURS if supported(each)],
        "peers": lambda: list(PEERS),
    }
    chosen: list[str] = []
    for name in names or list(groups):
        chosen += groups[name]() if name in groups else [name]
    unknown = [name for name in chosen if name in OURS and not supported(name)]
    if unknown:
        raise SystemExit(f"NodeClassifier does not take {list(ARGUMENTS[unknown[0]])} yet")
    return list(dict.fromkeys(chosen))


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--graph", action="append", choices=GRAPHS, help="may be repeated")
    parser.add_argument("--labels", action="append", choices=LABELS, help="may be repeated")
    parser.add_argument("--method", action="append", choices=("ours", "peers", *OURS, *PEERS))
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--older", action="store_true", help="run rows of older code again")
    parser.add_argument("--table", action="store_true", help="print what there is, run nothing")
    parser.add_argument("--verdict", action="store_true", help="print the claims, run nothing")
    options = parser.parse_args()
    failed = 0
    if not (options.table or options.verdict):
        methods = methods_of(options.method)
        asked = queue(methods, options.graph or GRAPHS, options.labels or LABELS, options.splits)
        failed = fill(missing(asked, older=options.older), options.jobs)
    lines = verdict_lines() if options.verdict else table_lines()
    console.print("\n".join(lines), soft_wrap=True, markup=False, highlight=False)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
