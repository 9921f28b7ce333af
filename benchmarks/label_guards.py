"""Which guard keeps a training node's own label from leaking back to it best.

    python benchmarks/label_guards.py --data DIR

GAMLP with its label branch, without regularizer, on three graphs: no label branch, and label hops
under each guard. Writes `results/label_guards.json`. With 20 labels per class no guard beats
leaving label hops out, which the presets do, and guards differ by less than seeds do; `folds` is
the default because it removes a node's own label exactly, over any number of hops.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from accuracy import BENCHMARKS, DATA, candidates, run
from code_version import code_version
from scr.experiments import Task
from scr.runs import write_json
from scr.training import merge

GRAPHS = ("cora", "pubmed", "dblp_citation")
SEEDS = 3
VARIANTS: dict[str, dict[str, Any]] = {
    "no label hops": {"label_hops": 0},
    "none, 2 hops": {"label_hops": 2, "label_keep": "all", "label_guard": "none"},
    "exact, 2 hops": {"label_hops": 2, "label_keep": "all", "label_guard": "exact"},
    "folds, 2 hops": {"label_hops": 2, "label_keep": "all", "label_guard": "folds"},
    "far, hop 6": {"label_hops": 6, "label_guard": "far"},
    "folds, hop 6": {"label_hops": 6, "label_guard": "folds"},
}


def main() -> None:
    """Run all variants and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    root = Path(__file__).parent
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    table = Table("guard", *GRAPHS, "mean", title="GAMLP, validation / test accuracy")
    rows = []
    for label, propagation in VARIANTS.items():
        row: dict[str, Any] = {"guard": label}
        for name in GRAPHS:
            benchmark = next(one for one in BENCHMARKS if one.name == name)
            settings = dict(candidates(name, "gamlp", "none"))["heavy"]
            layer = merge(settings, {"propagation": propagation, "encoder": {"label_layers": 2}})
            tasks = [Task("gamlp", "none", seed, (layer,)) for seed in range(SEEDS)]
            runs = run(benchmark, arguments.data, tasks, arguments.jobs)
            row[name] = {
                key: statistics.mean(record[f"{key}_accuracy"] for record in runs)
                for key in ("valid", "test")
            }
        row["mean"] = {
            key: statistics.mean(row[name][key] for name in GRAPHS) for key in ("valid", "test")
        }
        rows.append(row)
        table.add_row(
            label, *(f"{row[n]['valid']:.3f} / {row[n]['test']:.3f}" for n in (*GRAPHS, "mean"))
        )
    Console().print(table)
    write_json(
        root / "results" / "label_guards.json",
        {
            "command": "python benchmarks/label_guards.py",
            "seeds": SEEDS,
            "code": code_version("label_guards"),
            "rows": rows,
        },
    )


if __name__ == "__main__":
    main()
