"""See whether results that older code recorded still hold, without running all of them again.

    python benchmarks/confirm.py                              accuracy, presets, networks, ...
    python benchmarks/confirm.py --kind accuracy --graph cora --jobs 1

Most changes of code change no result, to the last digit. So one seed of every row that is older
than the code is run again. Where its accuracies equal the stored ones, all seeds of the row get
today's version as `confirmed`, beside the version that recorded them; other rows are named, and
must be run again. Files are written row by row: a call that was stopped resumes. Returns 1 if some
row no longer holds.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

import accuracy
import combinations
import grand
import heterogeneous
import networks
import regularizers
from accuracy import CACHE, DATA, DEFAULT_BENCHMARKS
from code_version import code_version, is_current
from scr.engines import use_one_thread
from scr.experiments import Runner, Task
from scr.training import merge
from stored_rows import StoredRow, results_files, stored_rows

CHECKED = (
    "valid_accuracy", "test_accuracy", "balanced_accuracy", "smooth_valid_accuracy",
    "smooth_test_accuracy", "smooth_balanced_accuracy",
)  # fmt: skip

Content = dict[str, Any]
Record = dict[str, Any]
console = Console(soft_wrap=True)


def _accuracy(graph: str, content: Content, record: Record) -> Task:
    pair = record["encoder"], record["regularizer"]
    settings = dict(accuracy.candidates(graph, *pair))[content["candidates"][" ".join(pair)]]
    return Task(*pair, record["seed"], (settings,))


def _defaults(_: str, content: Content, record: Record) -> Task:
    return Task(record["encoder"], record["regularizer"], record["seed"], ({},))


def _networks(graph: str, content: Content, record: Record) -> Task:
    pair = record["encoder"], record["regularizer"]
    return Task(*pair, record["seed"], (networks.candidates(graph, *pair)[record["candidate"]],))


def _combinations(graph: str, content: Content, record: Record) -> Task:
    encoder = record["encoder"]
    methods = {method.label: method for method in combinations.methods(encoder)}
    method = methods[record["method"]]
    chosen = dict(combinations.candidates(graph, encoder, method))[record["candidate"]]
    settings = merge(chosen, combinations.smoothing(graph))
    return Task(encoder, method.regularizer, record["seed"], (settings,))


def _regularizers(graph: str, content: Content, record: Record) -> Task:
    weight = content["weights"][record["regularizer"]]["chosen"]
    return regularizers.task(graph, record["regularizer"], weight, record["seed"])


def _grand(_: str, content: Content, record: Record) -> Task:
    return grand.task(record["graph"], record["seed"])


def _heterogeneous(_: str, content: Content, record: Record) -> Task:
    row = {each.label: each for each in heterogeneous.ROWS}[record["label"]]
    return heterogeneous.task(row, record["candidate"], 0)


TASKS: Mapping[str, Callable[[str, Content, Record], Task]] = {
    "accuracy": _accuracy,
    "defaults": _defaults,
    "networks": _networks,
    "combinations": _combinations,
    "regularizers": _regularizers,
    "heterogeneous": _heterogeneous,
    "grand": _grand,
}
"""How a stored record was run, by kind: a graph, the file's content and the record."""
SLOW = ("heterogeneous", "grand")
"""Only if asked for."""


def comparison_of(kind: str, graph: str, data: Path) -> Runner:
    """The graph that a record was run on."""
    if kind == "grand":
        return Runner(grand.load(graph, data))
    benchmarks = {each.name: each for each in (*DEFAULT_BENCHMARKS, heterogeneous.GRAPH)}
    return accuracy.load(benchmarks[graph], data)


def confirm(kind: str, file: Path, graphs: list[str] | None, data: Path, jobs: int) -> list[str]:
    """Confirm the rows of one file that are older than the code.

    Returns:
        Sentences about rows that no longer hold.
    """
    content = json.loads(file.read_text(encoding="utf-8"))
    by_graph: dict[str, list[StoredRow]] = {}
    for row in stored_rows(kind, file, content):
        graph = {"grand": row.name, "heterogeneous": content.get("graph")}.get(kind, file.stem)
        if not row.current and (graphs is None or graph in graphs):
            by_graph.setdefault(str(graph), []).append(row)
    wrong = []
    for graph, rows in by_graph.items():
        comparison = comparison_of(kind, graph, data)
        wrong += Confirmation(kind, graph, content, comparison).run(rows, jobs)
    return wrong


class Confirmation:
    """Runs one seed of some rows of one graph again."""

    def __init__(self, kind: str, graph: str, content: Content, comparison: Runner) -> None:
        self.kind = kind
        self.graph = graph
        self.content = content
        self.comparison = comparison
        self.version = code_version(kind)
        self.wrong: list[str] = []
        self._waiting: dict[str, list[tuple[StoredRow, Record]]] = {}

    def run(self, rows: list[StoredRow], jobs: int) -> list[str]:
        """Run, and write each row that holds; returns sentences about the others."""
        tasks = []
        for row in rows:
            record = next(each for each in row.records if not is_current(each, self.version))
            try:
                task = self._task(record)
            except KeyError as error:
                self._say(row, f"its settings {error} are no longer there")
                continue
            self._waiting.setdefault(self._key(task), []).append((row, record))
            tasks.append(task)
        out = CACHE / self.graph / self.version
        runner = replace(self.comparison, out=out, jobs=jobs, on_run=self._settle)
        for record in runner.run(tasks):
            self._settle(record)  # what was run before is not told of
        return self.wrong

    def _settle(self, found: Mapping[str, Any]) -> None:
        for row, stored in self._waiting.pop(found["key"], []):
            differing = differences(stored, found)
            if differing:
                self._say(row, differing)
                continue
            for record in row.records:
                if not is_current(record, self.version):
                    record["confirmed"] = self.version
                    if self.kind not in SLOW:
                        record["key"] = self._key(self._task(record))
            write(row.file, self.content)
            console.print(f"{_place(row)}: holds")

    def _task(self, record: Record) -> Task:
        return TASKS[self.kind](self.graph, self.content, record)

    def _key(self, task: Task) -> str:
        return task.key(self.comparison.graph_of(task.seed))

    def _say(self, row: StoredRow, why: str) -> None:
        self.wrong.append(f"{_place(row)}: run it again, {why}")
        console.print(self.wrong[-1])


def differences(stored: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """What differs between a stored record and the same run today; empty: nothing."""
    smooth = found.get("smooth", {})
    now = {**found, **{f"smooth_{name}": value for name, value in smooth.items()}}
    texts = []
    for name in CHECKED:
        value = stored.get(name)
        before = value[0] if isinstance(value, list) else value
        if before is not None and before != now.get(name):
            texts.append(f"{name} was {before} and is {now.get(name)}")
    return ", ".join(texts)


def write(file: Path, content: Content) -> None:
    """Write a results file as it was laid out."""
    indent = 2 if file.read_text(encoding="utf-8").startswith("{\n  ") else 1
    partial = file.with_name(f".{file.name}.partial")
    partial.write_text(json.dumps(content, indent=indent) + "\n", encoding="utf-8")
    partial.replace(file)


def _place(row: StoredRow) -> str:
    return f"{row.kind}/{row.file.name} {row.name}"


def main() -> None:
    """Parse the command line and go through the files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kind", action="append", choices=tuple(TASKS), help="may be repeated")
    parser.add_argument("--graph", action="append", help="only this graph; may be repeated")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    use_one_thread()  # as the workers that ran the tables
    wrong = []
    for kind, file in results_files():
        if kind in (arguments.kind or TASKS.keys() - set(SLOW)):
            wrong += confirm(kind, file, arguments.graph, arguments.data, arguments.jobs)
    console.print(f"{len(wrong)} rows must be run again" if wrong else "All rows hold")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
