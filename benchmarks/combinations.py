"""GAMLP and SAGN, alone and with SCR, SCR-m, RLU or SLE and both, with and without C&S.

    python benchmarks/combinations.py search --data DIR   choose settings on validation nodes
    python benchmarks/combinations.py table --data DIR    run all seeds with the chosen settings

Settings of the encoder are those that `accuracy.py search` chose for the same encoder with the
same regularizer; `search` adds what is new here: how heavy consistency is, and how the stages work.
Candidates are in `settings/combinations.toml` and are the same for every graph; the choice is by
mean validation accuracy of the first seeds, and test accuracy is not looked at. Correct and Smooth
searches its own settings on the validation nodes of each run. Both steps resume as those of
`accuracy.py` do. `table` writes `results/combinations/GRAPH.json`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

import accuracy
from accuracy import BENCHMARKS, DATA, HERE, KEPT, Benchmark, run
from code_version import code_version
from scr.experiments import Task
from scr.runs import versions, write_json
from scr.training import merge

RESULTS = HERE / "results" / "combinations"
SMOOTHED = ("valid_accuracy", "test_accuracy", "balanced_accuracy")
SMOOTHING_HOPS = {"wordnet": 10}
"""Elsewhere 20: a search on 117,659 nodes and 45 classes would take longer than the training."""

console = Console()


@dataclass(frozen=True)
class Method:
    """A way to train: a regularizer, in one stage or in several."""

    regularizer: str
    stages: str | None = None

    @property
    def label(self) -> str:
        """As tables show it, such as `rlu+scr`."""
        parts = [self.stages, None if self.regularizer == "none" else self.regularizer]
        return "+".join(part for part in parts if part) or "base"


def methods(encoder: str) -> list[Method]:
    """SAGN's own self-training is SLE; GAMLP's is RLU, which the others borrow."""
    stages = "sle" if encoder == "sagn" else "rlu"
    names = ("none", "scr") if encoder == "ssgc" else ("none", "scr", "scr-m")
    plain = [Method(name) for name in names]
    return [*plain, Method("none", stages), Method("scr", stages)]


ENCODERS = ("gamlp", "sagn", "ssgc")


def graphs() -> list[Benchmark]:
    """The graphs of the table: those where neighbors tend to agree."""
    return [
        replace(benchmark, search_seeds=1) if benchmark.name == "cora" else benchmark
        for benchmark in BENCHMARKS
        if benchmark.name != "actor"
    ]


def smoothing(name: str) -> dict[str, Any]:
    """Correct and Smooth with a search for its settings."""
    hops = SMOOTHING_HOPS.get(name, 20)
    settings = {"method": "correct-and-smooth", "correct_hops": hops, "smooth_hops": hops}
    return {"postprocess": settings}


def candidates(name: str, encoder: str, method: Method) -> Iterator[tuple[str, dict[str, Any]]]:
    """The encoder's settings with each candidate of the method laid over them."""
    file = HERE / "settings" / "combinations.toml"
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    base = _chosen_before(name, encoder, method.regularizer)
    for label, option in tables[method.label].items():
        if encoder not in option.get("encoders", ENCODERS):
            continue
        layer = {key: value for key, value in option.items() if key != "encoders"}
        if method.stages is not None:
            layer = merge(layer, {"stages": {"method": method.stages}})
        yield label, merge(base, layer)


def _chosen_before(name: str, encoder: str, regularizer: str) -> dict[str, Any]:
    """What `accuracy.py search` chose."""
    file = HERE / "results" / "search" / f"{name}.json"
    for row in json.loads(file.read_text(encoding="utf-8"))["chosen"]:
        if (row["encoder"], row["regularizer"]) == (encoder, regularizer):
            return dict(accuracy.candidates(name, encoder, regularizer))[row["candidate"]]
    raise SystemExit(f"run `accuracy.py search` for {encoder} {regularizer} on {name} first")


def search(benchmark: Benchmark, data: Path, jobs: int, encoders: list[str]) -> None:
    """Pick a candidate for each encoder and method by mean validation accuracy."""
    tasks, labels = [], []
    for encoder in encoders:
        for method in methods(encoder):
            options = list(candidates(benchmark.name, encoder, method))
            if len(options) == 1:
                continue
            for label, settings in options:
                for seed in range(benchmark.search_seeds):
                    tasks.append(Task(encoder, method.regularizer, seed, (settings,)))
                    labels.append((encoder, method.label, label))
    scores: dict[tuple[str, str], dict[str, list[float]]] = {}
    for (encoder, method, label), record in zip(
        labels, run(benchmark, data, tasks, jobs, "combinations"), strict=True
    ):
        found = scores.setdefault((encoder, method), {})
        found.setdefault(label, []).append(record["valid_accuracy"])
    chosen = [
        {
            "encoder": encoder,
            "method": method,
            "candidate": max(found, key=lambda label: statistics.mean(found[label])),
            "valid_accuracy": {label: statistics.mean(values) for label, values in found.items()},
        }
        for (encoder, method), found in scores.items()
    ]
    RESULTS.mkdir(parents=True, exist_ok=True)
    file = RESULTS / f"{benchmark.name}-search.json"
    kept = [row for row in _read(file).get("chosen", []) if row["encoder"] not in encoders]
    command = f"python benchmarks/combinations.py search --graph {benchmark.name}"
    write_json(
        file,
        {
            "command": command,
            "seeds": benchmark.search_seeds,
            "code": code_version("combinations"),
            "chosen": kept + chosen,
        },
    )


def table(benchmark: Benchmark, data: Path, jobs: int, encoders: list[str]) -> None:
    """All seeds with the chosen settings, each with and without Correct and Smooth."""
    picked = {
        (row["encoder"], row["method"]): row["candidate"]
        for row in _read(RESULTS / f"{benchmark.name}-search.json").get("chosen", [])
    }
    tasks, labels = [], []
    for encoder in encoders:
        for seed in range(benchmark.seeds):
            for method in methods(encoder):
                options = dict(candidates(benchmark.name, encoder, method))
                label = picked.get((encoder, method.label), next(iter(options)))
                settings = merge(options[label], smoothing(benchmark.name))
                tasks.append(Task(encoder, method.regularizer, seed, (settings,)))
                labels.append((encoder, method.label, label))
    runs = [
        {**kept_of(record), "method": method, "candidate": label}
        for (_, method, label), record in zip(
            labels, run(benchmark, data, tasks, jobs, "combinations"), strict=True
        )
    ]
    file = RESULTS / f"{benchmark.name}.json"
    kept = [row for row in _read(file).get("runs", []) if row["encoder"] not in encoders]
    command = f"python benchmarks/combinations.py table --graph {benchmark.name}"
    write_json(
        file,
        {
            "command": command,
            "versions": versions(),
            "code": code_version("combinations"),
            "runs": kept + runs,
        },
    )


def kept_of(record: dict[str, Any]) -> dict[str, Any]:
    """What the results file keeps of a run, Correct and Smooth beside the rest."""
    smooth = record.get("smooth", {})
    record = record | {f"smooth_{name}": smooth[name] for name in SMOOTHED if name in smooth}
    names = (*KEPT, *(f"smooth_{name}" for name in SMOOTHED), "epochs", "notes")
    return {name: record[name] for name in names if name in record}


def _read(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if file.exists():
        found = json.loads(file.read_text(encoding="utf-8"))
    return found


def main() -> None:
    """Parse the command line and go through the graphs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("step", choices=["search", "table"])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--graph", action="append", help="only this graph; may be repeated")
    parser.add_argument("--encoder", action="append", help="only this encoder; may be repeated")
    parser.add_argument("--seeds", type=int, help="fewer seeds than the graph's table has")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    step = {"search": search, "table": table}[arguments.step]
    for benchmark in graphs():
        if arguments.seeds is not None:
            benchmark = replace(benchmark, seeds=min(arguments.seeds, benchmark.seeds))
        if arguments.graph is None or benchmark.name in arguments.graph:
            step(benchmark, arguments.data, arguments.jobs, arguments.encoder or list(ENCODERS))


if __name__ == "__main__":
    main()
