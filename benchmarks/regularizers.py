"""All ways to use unlabeled nodes side by side on one encoder, each at its best weight.

    python benchmarks/regularizers.py --data DIR

`ssgc`, with the settings that validation nodes chose for it without any regularizer
(`accuracy.py search`): only the weight of the term is chosen here, by mean validation accuracy of
the first seeds, among multiples of the weight that the method has by default. GRAND, which
propagates anew for every view and takes minutes a run, has a benchmark of its own: `_grand.py`. A
call that was stopped resumes as those of `accuracy.py` do. Writes results/regularizers/GRAPH.json.
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
from accuracy import BENCHMARKS, DATA, HERE, KEPT, Benchmark
from code_version import code_version
from scr.consistency import REGULARIZERS, defaults_of
from scr.consistency._regularizers import NO_REGULARIZER
from scr.experiments import Task
from scr.report import compare_runs
from scr.runs import versions, write_json
from scr.training import merge

KIND = "regularizers"
GRAPHS = ("cora", "amazon_photo", "dblp_citation")
ENCODER = "ssgc"
METHODS = tuple(name for name in REGULARIZERS if name != "grand")
FACTORS = (0.1, 0.3, 1.0, 3.0)
"""Of the weight that a method has by default. Ten times as much was tried on one seed of cora and
left out: the validation accuracy of half of the methods collapsed, and the only one that gained
gained one node of 500."""

console = Console()


def weights(regularizer: str) -> list[float]:
    """To choose from."""
    if regularizer == NO_REGULARIZER:
        return [0.0]
    return [round(factor * defaults_of(regularizer).get("weight", 1.0), 3) for factor in FACTORS]


def task(graph: str, regularizer: str, weight: float, seed: int) -> Task:
    """One run: the settings of the bare encoder, and a weight."""
    file = HERE / "results" / "search" / f"{graph}.json"
    chosen = next(
        row["candidate"]
        for row in json.loads(file.read_text(encoding="utf-8"))["chosen"]
        if (row["encoder"], row["regularizer"]) == (ENCODER, NO_REGULARIZER)
    )
    settings = dict(accuracy.candidates(graph, ENCODER, regularizer))[chosen]
    if regularizer != NO_REGULARIZER:
        settings = merge(settings, {"consistency": {"weight": weight}})
    return Task(ENCODER, regularizer, seed, (settings,))


def search(benchmark: Benchmark, data: Path, jobs: int) -> dict[str, dict[float, float]]:
    """Mean validation accuracy of the first seeds, by method and weight."""
    # A single weight is no choice.
    asked = [
        (name, weight) for name in METHODS if len(weights(name)) > 1 for weight in weights(name)
    ]
    seeds = range(benchmark.search_seeds)
    tasks = [task(benchmark.name, *pair, seed) for pair in asked for seed in seeds]
    found = accuracy.run(benchmark, data, tasks, jobs, KIND)
    scores: dict[str, dict[float, float]] = {}
    for number, (name, weight) in enumerate(asked):
        some = found[number * len(seeds) : (number + 1) * len(seeds)]
        mean = statistics.mean(record["valid_accuracy"] for record in some)
        scores.setdefault(name, {})[weight] = mean
    return scores


def run(benchmark: Benchmark, data: Path, jobs: int) -> None:
    """Choose weights on the first seeds, run all seeds with them, and write the table."""
    scores = search(benchmark, data, jobs)
    chosen = dict.fromkeys(METHODS, 0.0) | {
        name: max(of, key=lambda weight: of[weight]) for name, of in scores.items()
    }
    tasks = [
        task(benchmark.name, name, weight, seed)
        for name, weight in chosen.items()
        for seed in range(benchmark.seeds)
    ]
    records: list[dict[str, Any]] = [
        {name: record[name] for name in KEPT if name in record}
        for record in accuracy.run(benchmark, data, tasks, jobs, KIND)
    ]
    rows = compare_runs(records)
    folder = HERE / "results" / KIND
    folder.mkdir(parents=True, exist_ok=True)
    write_json(
        folder / f"{benchmark.name}.json",
        {
            "command": f"python benchmarks/regularizers.py --graph {benchmark.name}",
            "versions": versions(),
            "code": code_version(KIND),
            "search_seeds": benchmark.search_seeds,
            "weights": {
                name: {
                    "chosen": weight,
                    "valid_accuracy": {str(k): v for k, v in scores.get(name, {}).items()},
                }
                for name, weight in chosen.items()
            },
            "runs": records,
            "rows": rows,
        },
    )
    for row in rows:
        console.print(
            f"{benchmark.name} {row['regularizer']}: {100 * (row['test_mean'] or 0):.1f} "
            f"({row['verdict']})"
        )


def main() -> None:
    """Parse the command line and go through the graphs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--graph", action="append", choices=GRAPHS, help="may be repeated")
    parser.add_argument("--seeds", type=int, help="fewer seeds than the graph's table has")
    parser.add_argument("--search-seeds", type=int, help="other than the graph's table has")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    for benchmark in BENCHMARKS:
        if arguments.seeds is not None:
            benchmark = replace(benchmark, seeds=min(arguments.seeds, benchmark.seeds))
        if arguments.search_seeds is not None:
            benchmark = replace(benchmark, search_seeds=arguments.search_seeds)
        if benchmark.name in (arguments.graph or GRAPHS):
            run(benchmark, arguments.data, arguments.jobs)


if __name__ == "__main__":
    main()
