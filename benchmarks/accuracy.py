"""Accuracy on real graphs: every encoder with and without SCR, over seeds.

    python benchmarks/accuracy.py search --data DIR     choose settings on validation nodes
    python benchmarks/accuracy.py table --data DIR      run all seeds with the chosen settings
    python benchmarks/accuracy.py defaults --data DIR   presets alone, on more graphs

`search` tries the same candidates (`settings/GRAPH.toml`) for each encoder and regularizer, base
included, on the first seeds, and picks by mean validation accuracy; test accuracy is not looked at.
`table` writes `results/accuracy/GRAPH.json`, `defaults` writes `results/defaults/GRAPH.json`.

A step that was stopped resumes. Runs in the results files are not run again as long as the code
that decides them is the same, by its version or as `confirm.py` found.
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

from code_version import code_version, is_current
from scr.experiments import Runner, Task
from scr.report import compare_runs, comparison_table
from scr.runs import versions, write_json
from scr.sources import load_graph
from scr.training import merge, specialize, variants

HERE = Path(__file__).parent
CACHE = HERE / ".cache"
DATA = HERE.parent.parent / "shared" / "data"
ENCODERS = ("mlp", "sgc", "ssgc", "sign", "sagn", "gamlp", "gamlp-jk")
DEFAULT_ENCODERS = ("ssgc", "sign", "gamlp")
REGULARIZERS = ("none", "scr", "scr-m")
KEPT = (
    "graph", "encoder", "regularizer", "seed", "valid_accuracy", "test_accuracy",
    "balanced_accuracy", "train_seconds", "key", "code", "confirmed",
)  # fmt: skip
"""What smaller results files keep of a run."""

console = Console()


@dataclass(frozen=True)
class Benchmark:
    """One graph of the table."""

    name: str
    seeds: int
    encoders: tuple[str, ...] = ENCODERS[:-1]
    splits: bool = True
    """Seed i uses shared split i; otherwise the public split."""
    search_seeds: int = 2


BENCHMARKS = (
    Benchmark("cora", 10, ENCODERS, splits=False),
    Benchmark("pubmed", 10, splits=False),
    Benchmark("amazon_photo", 10, ENCODERS),
    Benchmark("dblp_citation", 10),
    Benchmark("coauthor_cs", 5),
    Benchmark("actor", 5),
    Benchmark("wordnet", 3, search_seeds=1),
)
DEFAULT_BENCHMARKS = (
    *(replace(benchmark, seeds=5) for benchmark in BENCHMARKS),
    *(Benchmark(name, 5) for name in ("cora_ml", "acm", "blogcatalog", "flickr", "uai")),
)
"""Graphs of the table of presets: more of them, since nothing is searched."""


def load(benchmark: Benchmark, data: Path) -> Runner:
    """The graph with its splits; actor's public splits are in its own file."""
    graph = load_graph(data / f"{benchmark.name}.npz")
    file = data / "splits" / f"{benchmark.name}.npz"
    if not benchmark.splits:
        return Runner(graph)
    return Runner(graph, str(file if file.exists() else data / f"{benchmark.name}.npz"))


def candidates(name: str, encoder: str, regularizer: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Settings to choose from: the common tables with each candidate laid over them."""
    tables = tomllib.loads((HERE / "settings" / f"{name}.toml").read_text(encoding="utf-8"))
    options = tables.pop("candidate", {"preset": {}})
    names = variants(encoder, regularizer)
    common = specialize(tables, *names)
    for label, option in options.items():
        if encoder in option.get("encoders", (encoder,)):
            chosen = {key: value for key, value in option.items() if key != "encoders"}
            yield label, merge(common, specialize(chosen, *names))


def task(encoder: str, regularizer: str, seed: int, settings: dict[str, Any]) -> Task:
    """One run with these settings."""
    return Task(encoder, regularizer, seed, (settings,))


def run(
    benchmark: Benchmark, data: Path, tasks: list[Task], jobs: int, kind: str = "accuracy"
) -> list[dict[str, Any]]:
    """Run what this version of the code has not run yet; results come in the order of the tasks.

    Args:
        benchmark: The graph.
        data: Its folder.
        tasks: What to run.
        jobs: Processes.
        kind: Of the results: names the code that decides them, and the file with known runs.
    """
    version, comparison = code_version(kind), load(benchmark, data)
    known = known_runs(kind, benchmark.name, version)
    graphs = {seed: comparison.graph_of(seed) for seed in {task.seed for task in tasks}}
    keys = [task.key(graphs[task.seed]) for task in tasks]
    missing = [task for task, key in zip(tasks, keys, strict=True) if key not in known]
    done = 0

    def tell(record: Any) -> None:
        nonlocal done
        done += 1
        console.print(
            f"{benchmark.name} {record['encoder']} {record['regularizer']} seed {record['seed']}: "
            f"valid {record['valid_accuracy']:.3f}, {record['train_seconds']:.1f} s ({done})"
        )

    # A folder for each version: what older code has kept is not taken for new.
    out = CACHE / benchmark.name / version
    for record in replace(comparison, out=out, jobs=jobs, on_run=tell).run(missing):
        known[record["key"]] = {**record, "code": version}
    return [known[key] for key in keys]


def known_runs(kind: str, graph: str, version: str) -> dict[str, dict[str, Any]]:
    """Runs of a results file that hold for this version of the code, by their keys."""
    file = HERE / "results" / kind / f"{graph}.json"
    runs = json.loads(file.read_text(encoding="utf-8"))["runs"] if file.exists() else []
    return {
        run["key"]: run
        for run in runs
        # Older versions recorded less.
        if is_current(run, version) and "key" in run and run.get("balanced_accuracy") is not None
    }


def search(benchmark: Benchmark, data: Path, jobs: int) -> None:
    """Pick settings for each encoder and regularizer by mean validation accuracy."""
    seeds = range(benchmark.search_seeds)
    tasks, labels = [], []
    for encoder in benchmark.encoders:
        for label, _ in candidates(benchmark.name, encoder, "none"):
            for regularizer in REGULARIZERS:
                settings = dict(candidates(benchmark.name, encoder, regularizer))[label]
                for seed in seeds:
                    tasks.append(task(encoder, regularizer, seed, settings))
                    labels.append(label)
    scores: dict[tuple[str, str], dict[str, list[float]]] = {}
    for label, record in zip(labels, run(benchmark, data, tasks, jobs), strict=True):
        pair = (record["encoder"], record["regularizer"])
        scores.setdefault(pair, {}).setdefault(label, []).append(record["valid_accuracy"])
    chosen = [
        {
            "encoder": encoder,
            "regularizer": regularizer,
            "candidate": max(found, key=lambda label: statistics.mean(found[label])),
            "valid_accuracy": {label: statistics.mean(values) for label, values in found.items()},
        }
        for (encoder, regularizer), found in scores.items()
    ]
    folder = HERE / "results" / "search"
    folder.mkdir(parents=True, exist_ok=True)
    write_json(
        folder / f"{benchmark.name}.json",
        {"seeds": len(seeds), "code": code_version("accuracy"), "chosen": chosen},
    )


def table(benchmark: Benchmark, data: Path, jobs: int) -> None:
    """All seeds with the chosen settings."""
    file = HERE / "results" / "search" / f"{benchmark.name}.json"
    chosen = {
        (row["encoder"], row["regularizer"]): row["candidate"]
        for row in json.loads(file.read_text(encoding="utf-8"))["chosen"]
    }
    settings = {
        pair: dict(candidates(benchmark.name, *pair))[label] for pair, label in chosen.items()
    }
    tasks = [
        task(encoder, regularizer, seed, settings[encoder, regularizer])
        for encoder in benchmark.encoders
        for seed in range(benchmark.seeds)
        for regularizer in REGULARIZERS
    ]
    write(benchmark, data, tasks, jobs, "accuracy", chosen)


def defaults(benchmark: Benchmark, data: Path, jobs: int) -> None:
    """The main encoders with the preset alone."""
    tasks = [
        task(encoder, regularizer, seed, {})
        for encoder in DEFAULT_ENCODERS
        for seed in range(benchmark.seeds)
        for regularizer in REGULARIZERS
    ]
    write(benchmark, data, tasks, jobs, "defaults", {})


def write(
    benchmark: Benchmark,
    data: Path,
    tasks: list[Task],
    jobs: int,
    kind: str,
    chosen: dict[tuple[str, str], str],
) -> None:
    """Run, summarize and keep."""
    runs = run(benchmark, data, tasks, jobs, kind)
    rows = compare_runs([{**record, "graph": None} for record in runs])
    step = "table" if kind == "accuracy" else kind
    folder = HERE / "results" / kind
    folder.mkdir(parents=True, exist_ok=True)
    write_json(
        folder / f"{benchmark.name}.json",
        {
            "graph": load(benchmark, data).facts(),
            "command": f"python benchmarks/accuracy.py {step} --graph {benchmark.name}",
            "versions": versions(),
            "code": code_version(kind),
            "runs": runs,
            "rows": rows,
            "candidates": {" ".join(pair): label for pair, label in chosen.items()},
        },
    )
    console.print(comparison_table(rows))


def main() -> None:
    """Parse the command line and go through the graphs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("step", choices=["search", "table", "defaults"])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--graph", action="append", help="only this graph; may be repeated")
    parser.add_argument("--seeds", type=int, help="fewer seeds than the graph's table has")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    step = {"search": search, "table": table, "defaults": defaults}[arguments.step]
    for benchmark in DEFAULT_BENCHMARKS if arguments.step == "defaults" else BENCHMARKS:
        if arguments.seeds is not None:
            benchmark = replace(benchmark, seeds=min(arguments.seeds, benchmark.seeds))
        if arguments.graph is None or benchmark.name in arguments.graph:
            step(benchmark, arguments.data, arguments.jobs)


if __name__ == "__main__":
    main()
