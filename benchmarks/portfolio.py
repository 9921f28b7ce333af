"""Which settings belong into the portfolio of `effort="best"`, and in which order.

    python benchmarks/portfolio.py run       train what is missing of candidates and graphs
    python benchmarks/portfolio.py learn     print the order, and write it to the package
    python benchmarks/portfolio.py report    the portfolio learned without a graph, on that graph

Candidates are in settings/candidates.toml. Each is trained on the splits of `strangers.py`; rows
are written one by one to results/portfolio/GRAPH.json. Order by greedy choice: the member that
comes next is the one with which the pick by validation accuracy has the best mean test accuracy
over the graphs, each of which counts once. A graph's own rows have no part in the order that
`report` uses for it.
"""

from __future__ import annotations

import argparse
import json
import time
import tomllib
import warnings
from typing import Any

import numpy as np

from harness import HERE, RESULTS, Results, console
from scr.graph import Graph
from scr.training import (
    Prepared,
    Recipe,
    choose,
    fit,
    graph_facts,
    prepare,
    resolve,
    what_is_prepared,
)
from strangers import GRAPHS, scores, split_graph

CANDIDATES = HERE / "settings" / "candidates.toml"
FOLDER = RESULTS / "portfolio"
KEPT = HERE / ".cache" / "portfolio"
"""Where probabilities are kept, for trials of ensembles."""
LABELS = ("20", "5", "10%")
LARGE = 50_000
COUPLED = ("gcn", "gcn-base")
"""Left out on larger graphs."""


def candidates() -> dict[str, dict[str, Any]]:
    """All settings by name."""
    return tomllib.loads(CANDIDATES.read_text(encoding="utf-8"))


def recipes(graph: Graph) -> dict[str, Recipe]:
    """What each candidate is on a graph."""
    choice = choose(graph)
    alone = {"consistency": {"trust": "measured"}}
    return {
        name: resolve(graph_facts(graph, choice), layers=[alone, tables], choice=choice)
        for name, tables in candidates().items()
    }


def fill(name: str, options: argparse.Namespace) -> None:
    """Train what is missing of one graph."""
    results = Results(FOLDER / f"{name}.json", {})
    for split in range(options.splits):
        for labels in options.labels or LABELS:
            wanted = [
                each
                for each in options.candidate or candidates()
                if not results.find(labels=labels, split=split, candidate=each)
            ]
            if not wanted:
                continue
            graph = split_graph((name, labels, split))
            named = recipes(graph)
            shared: dict[str, Prepared] = {}
            for each in wanted:
                if each in COUPLED and graph.num_nodes > LARGE:
                    continue
                recipe, started = named[each], time.perf_counter()
                key = json.dumps(what_is_prepared(graph, recipe), default=str)
                if key not in shared:
                    shared = {key: prepare(graph, recipe)}
                fitted = fit(graph, recipe, seed=split, prepared=shared[key])
                seconds = round(time.perf_counter() - started, 2)
                soft = fitted.probabilities().numpy()
                valid = np.asarray(graph.valid)
                right = np.clip(soft[valid, graph.labels[valid]], 1e-9, 1)
                row = results.add(
                    {"labels": labels, "split": split, "candidate": each},
                    {
                        **scores(graph, soft.argmax(axis=1)),
                        "valid_loss": round(float(-np.log(right).mean()), 5),
                        "best_epoch": fitted.outcome.best_epoch,
                        "seconds": seconds,
                    },
                )
                KEPT.mkdir(parents=True, exist_ok=True)
                file = KEPT / f"{name}-{labels}-{split}-{each}.npz"
                np.savez(file, valid=soft[valid].astype(np.float16),
                         test=soft[np.asarray(graph.test)].astype(np.float16))  # fmt: skip
                console.print(f"{name} {labels} {split} {each} {row['test_accuracy']} {seconds} s")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("step", choices=("run", "learn", "report"))
    parser.add_argument("--graph", action="append", choices=GRAPHS, help="may be repeated")
    parser.add_argument("--labels", action="append", choices=LABELS, help="may be repeated")
    parser.add_argument("--candidate", action="append", choices=tuple(candidates()))
    parser.add_argument("--splits", type=int, default=1)
    options = parser.parse_args()
    if options.step == "run":
        warnings.simplefilter("ignore")
        for name in options.graph or GRAPHS:
            fill(name, options)


if __name__ == "__main__":
    main()
