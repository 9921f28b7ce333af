"""Typed graphs: plain, homogenized and NARS encoders on `debian_hetero`, with and without SCR.

    python benchmarks/heterogeneous.py search --data DIR   choose settings on validation nodes
    python benchmarks/heterogeneous.py table --data DIR    run all splits with the chosen settings

`search` tries the candidates of `settings/debian_hetero.toml` on the first splits for every row,
and picks by mean validation accuracy; test accuracy is not looked at. Rows in stages take the
settings of their regularizer. Every finished run is kept, and both steps go on where they were.
`table` writes `results/heterogeneous.json`.
"""

from __future__ import annotations

import argparse
import json
import statistics
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from accuracy import DATA, HERE, Benchmark, candidates, run
from code_version import code_version
from scr.experiments import Task
from scr.report import paired_difference
from scr.runs import versions, write_json
from scr.training import merge

SPLITS = 5
SEARCH_SPLITS = 2
GRAPH = Benchmark("debian_hetero", SPLITS, search_seeds=SEARCH_SPLITS)
SEARCH = HERE / "results" / "search" / "debian_hetero.json"
RESULT = HERE / "results" / "heterogeneous.json"

console = Console()


@dataclass(frozen=True)
class Row:
    """One way to train."""

    label: str
    encoder: str
    regularizer: str = "none"
    extra: dict[str, Any] = field(default_factory=dict)
    """Laid over the chosen settings; such a row has no search of its own."""


RLU = {"stages": {"method": "rlu", "count": 2, "threshold": 0.0, "temperature": 0.5}}
ROWS = (
    Row("MLP", "mlp"),
    Row("SIGN, homogenized", "sign"),
    Row("R-GCN", "rgcn"),
    Row("NARS_SIGN", "nars-sign"),
    Row("NARS_SAGN", "nars-sagn"),
    Row("NARS_GAMLP", "nars-gamlp"),
    Row("NARS_GAMLP + SCR", "nars-gamlp", "scr"),
    Row("NARS_GAMLP + SCR-m", "nars-gamlp", "scr-m"),
    Row("NARS_GAMLP + RLU + SCR", "nars-gamlp", "scr", RLU),
    Row("NARS_SIGN + SCR", "nars-sign", "scr"),
    Row("SIGN + SCR, homogenized", "sign", "scr"),
    Row(
        "NARS_GAMLP, single relations", "nars-gamlp", "none", {"propagation": {"subsets": "single"}}
    ),
)
BASE = "NARS_GAMLP"
MEASURES = {"difference": "test_accuracy", "balanced_difference": "balanced_accuracy"}


def search(data: Path, jobs: int, rows: list[Row]) -> None:
    """Pick a candidate for each encoder and regularizer by mean validation accuracy."""
    known = _read(SEARCH).get("chosen", [])
    for row in rows:
        if row.extra:
            continue
        options = list(candidates(GRAPH.name, row.encoder, row.regularizer))
        tasks = [
            Task(row.encoder, row.regularizer, seed, (settings,))
            for _, settings in options
            for seed in range(SEARCH_SPLITS)
        ]
        records = run(GRAPH, data, tasks, jobs, "heterogeneous")
        scores = {
            label: statistics.mean(
                record["valid_accuracy"]
                for record in records[number * SEARCH_SPLITS : (number + 1) * SEARCH_SPLITS]
            )
            for number, (label, _) in enumerate(options)
        }
        known = [
            each
            for each in known
            if (each["encoder"], each["regularizer"]) != (row.encoder, row.regularizer)
        ]
        known.append(
            {
                "encoder": row.encoder,
                "regularizer": row.regularizer,
                "candidate": max(scores, key=lambda label: scores[label]),
                "valid_accuracy": scores,
            }
        )
        write_json(
            SEARCH,
            {
                "command": "python benchmarks/heterogeneous.py search",
                "seeds": SEARCH_SPLITS,
                "code": code_version("heterogeneous"),
                "chosen": known,
            },
        )


def table(data: Path, jobs: int, rows: list[Row]) -> None:
    """All splits with the chosen settings; the file is written after every row."""
    picked = {
        (each["encoder"], each["regularizer"]): each["candidate"]
        for each in _read(SEARCH).get("chosen", [])
    }
    for row in rows:
        label = picked.get((row.encoder, row.regularizer), "preset")
        tasks = [task(row, label, seed) for seed in range(SPLITS)]
        records = run(GRAPH, data, tasks, jobs, "heterogeneous")
        _write(row, label, records)


def task(row: Row, candidate: str, seed: int) -> Task:
    """One run of a row."""
    chosen = dict(candidates(GRAPH.name, row.encoder, row.regularizer))[candidate]
    return Task(row.encoder, row.regularizer, seed, (merge(chosen, row.extra),))


def _write(row: Row, candidate: str, records: list[dict[str, Any]]) -> None:
    found = _read(RESULT)
    wanted = [each.label for each in ROWS]
    kept = [each for each in found.get("rows", []) if each["label"] != row.label]
    kept.append(
        {
            "label": row.label,
            "encoder": row.encoder,
            "regularizer": row.regularizer,
            "settings": row.extra,
            "candidate": candidate,
            "valid_accuracy": [record["valid_accuracy"] for record in records],
            "test_accuracy": [record["test_accuracy"] for record in records],
            "balanced_accuracy": [record["balanced_accuracy"] for record in records],
            "train_seconds": [record["train_seconds"] for record in records],
            "code": code_version("heterogeneous"),
        }
    )
    kept = sorted(
        (each for each in kept if each["label"] in wanted),
        key=lambda each: wanted.index(each["label"]),
    )
    base = next((each for each in kept if each["label"] == BASE), None)
    for each in kept:
        if base is None or each["label"] == BASE:
            each.pop("difference", None)
            each.pop("balanced_difference", None)
            continue
        for name, measure in MEASURES.items():
            if measure in each and measure in base:
                pairs = list(zip(each[measure], base[measure], strict=False))
                each[name] = asdict(paired_difference(*zip(*pairs, strict=True)))
    write_json(
        RESULT,
        {
            "command": "python benchmarks/heterogeneous.py search; "
            "python benchmarks/heterogeneous.py table",
            "graph": GRAPH.name,
            "splits": SPLITS,
            "compared_with": BASE,
            "versions": versions(),
            "code": code_version("heterogeneous"),
            "rows": kept,
        },
    )
    console.print(f"{row.label}: {100 * statistics.mean(kept_test(kept, row.label)):.1f}")


def kept_test(rows: list[dict[str, Any]], label: str) -> list[float]:
    """Test accuracies of one row."""
    return next(each["test_accuracy"] for each in rows if each["label"] == label)


def _read(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if file.exists():
        found = json.loads(file.read_text(encoding="utf-8"))
    return found


def main() -> None:
    """Parse the command line and go through the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("step", choices=["search", "table"])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--row", action="append", help="only this row; may be repeated")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    rows = [row for row in ROWS if arguments.row is None or row.label in arguments.row]
    {"search": search, "table": table}[arguments.step](arguments.data, arguments.jobs, rows)


if __name__ == "__main__":
    main()
