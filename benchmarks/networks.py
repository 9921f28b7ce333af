"""The paper's table "with different GNNs" on real graphs: base, SCR and the gain.

    python benchmarks/networks.py search --data DIR   choose settings on validation nodes
    python benchmarks/networks.py table --data DIR    run all seeds with the chosen settings

For GraphSAGE, ClusterGCN and GraphSAINT, which read the graph in every step. Candidates are in
`settings/networks.toml`, the same for base and SCR, and are chosen by mean validation accuracy of
the first seeds. Rows of MLP, SIGN, SAGN and GAMLP are those of `accuracy.py`. Both steps resume as
those of `accuracy.py` do. `table` writes `results/networks/GRAPH.json`.
"""

from __future__ import annotations

import argparse
import json
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

import accuracy
from accuracy import BENCHMARKS, DATA, HERE, KEPT, Benchmark, run
from code_version import code_version
from scr.experiments import Task
from scr.runs import versions, write_json
from scr.training import merge

RESULTS = HERE / "results" / "networks"
ENCODERS = ("graphsage", "cluster-gcn", "graph-saint")
REGULARIZERS = ("none", "scr")

SHORTER = {"wordnet": {"training": {"epochs": 80, "select_after": 0.6}}}
"""As for its other rows: with 200 epochs, this graph alone would take hours."""

console = Console()


def candidates(graph: str, encoder: str, regularizer: str) -> dict[str, dict[str, Any]]:
    """Settings to choose from, by name."""
    found = accuracy.candidates("networks", encoder, regularizer)
    return {label: merge(SHORTER.get(graph, {}), settings) for label, settings in found}


def search(benchmark: Benchmark, data: Path, jobs: int) -> None:
    """Pick a candidate for each pair by validation accuracy of the first seeds."""
    tasks, labels = [], []
    for encoder in ENCODERS:
        for regularizer in REGULARIZERS:
            for label, settings in candidates(benchmark.name, encoder, regularizer).items():
                for seed in range(benchmark.search_seeds):
                    tasks.append(Task(encoder, regularizer, seed, (settings,)))
                    labels.append((encoder, regularizer, label))
    runs: dict[tuple[str, str], dict[str, list[float]]] = {}
    for (encoder, regularizer, label), record in zip(
        labels, run(benchmark, data, tasks, jobs, "networks"), strict=True
    ):
        found = runs.setdefault((encoder, regularizer), {})
        found.setdefault(label, []).append(record["valid_accuracy"])
    scores = {
        pair: {label: statistics.mean(values) for label, values in found.items()}
        for pair, found in runs.items()
    }
    chosen = [
        {
            "encoder": encoder,
            "regularizer": regularizer,
            "candidate": max(found, key=lambda label: found[label]),
            "valid_accuracy": found,
        }
        for (encoder, regularizer), found in scores.items()
    ]
    command = (
        f"python benchmarks/networks.py search --graph {benchmark.name} "
        f"--search-seeds {benchmark.search_seeds}"
    )
    RESULTS.mkdir(parents=True, exist_ok=True)
    write_json(
        RESULTS / f"{benchmark.name}-search.json",
        {
            "command": command,
            "seeds": benchmark.search_seeds,
            "code": code_version("networks"),
            "chosen": chosen,
        },
    )


def table(benchmark: Benchmark, data: Path, jobs: int) -> None:
    """All seeds with the chosen settings."""
    file = RESULTS / f"{benchmark.name}-search.json"
    picked = json.loads(file.read_text(encoding="utf-8"))["chosen"]
    tasks, labels = [], []
    for row in picked:
        encoder, regularizer, label = row["encoder"], row["regularizer"], row["candidate"]
        settings = candidates(benchmark.name, encoder, regularizer)[label]
        for seed in range(benchmark.seeds):
            tasks.append(Task(encoder, regularizer, seed, (settings,)))
            labels.append(label)
    runs: list[dict[str, Any]] = [
        {**{name: record[name] for name in KEPT if name in record}, "candidate": label}
        for label, record in zip(labels, run(benchmark, data, tasks, jobs, "networks"), strict=True)
    ]
    command = f"python benchmarks/networks.py table --graph {benchmark.name}"
    write_json(
        RESULTS / f"{benchmark.name}.json",
        {
            "command": command,
            "versions": versions(),
            "code": code_version("networks"),
            "runs": runs,
        },
    )
    for encoder in ENCODERS:
        for regularizer in REGULARIZERS:
            found = [
                each["test_accuracy"]
                for each in runs
                if (each["encoder"], each["regularizer"]) == (encoder, regularizer)
            ]
            mean = 100 * statistics.mean(found)
            console.print(f"{benchmark.name} {encoder} {regularizer}: {mean:.1f}")


def main() -> None:
    """Parse the command line and go through the graphs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("step", choices=["search", "table"])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--graph", action="append", help="only this graph; may be repeated")
    parser.add_argument("--seeds", type=int, help="fewer seeds than the graph's table has")
    parser.add_argument("--search-seeds", type=int, help="other than the graph's table has")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    step = {"search": search, "table": table}[arguments.step]
    for benchmark in BENCHMARKS:
        if benchmark.name == "actor":
            continue
        if arguments.seeds is not None:
            benchmark = replace(benchmark, seeds=min(arguments.seeds, benchmark.seeds))
        if arguments.search_seeds is not None:
            benchmark = replace(benchmark, search_seeds=arguments.search_seeds)
        if arguments.graph is None or benchmark.name in arguments.graph:
            step(benchmark, arguments.data, arguments.jobs)


if __name__ == "__main__":
    main()
