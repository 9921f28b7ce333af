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
import statistics
import time
import tomllib
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
from scr.tuning._weights import chosen_members
from strangers import GRAPHS, scores, split_graph

CANDIDATES = HERE / "settings" / "candidates.toml"
FOLDER = RESULTS / "portfolio"
KEPT = HERE / ".cache" / "portfolio"
"""Where probabilities are kept, for trials of ensembles."""
LABELS = ("20", "5", "10%")
PORTFOLIO = HERE.parent / "src" / "scr" / "tuning" / "portfolio.toml"
CONSIDERED = 6
"""Candidates, the best by validation accuracy, that the average is chosen from."""
LARGE = 50_000
COMPLETE = 15
"""Candidates that a case needs to count."""
COUPLED = ("gcn", "gcn-base")
"""Left out on larger graphs."""
Row = Mapping[str, Any]
Case = tuple[str, str, int]
"""Graph, labels and split."""


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
    results = Results(FOLDER / f"{name}.json", {}, kind="portfolio")
    for split in range(options.splits):
        for labels in options.labels or LABELS:
            wanted = [
                each
                for each in options.candidate or candidates()
                if not results.find(labels=labels, split=split, candidate=each)
            ]
            if not wanted:
                continue
            graph = split_graph(name, labels, split)
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
                file = kept_file((name, labels, split), each)
                np.savez(file, valid=soft[valid].astype(np.float16),
                         test=soft[np.asarray(graph.test)].astype(np.float16))  # fmt: skip
                console.print(f"{name} {labels} {split} {each} {row['test_accuracy']} {seconds} s")


def kept_file(case: Case, name: str) -> Path:
    """Where the probabilities of a candidate are kept."""
    return KEPT / f"{'-'.join(map(str, case))}-{name}.npz"


def rows_by_case() -> dict[Case, dict[str, Row]]:
    """All rows: of each case, one for each candidate."""
    cases: dict[Case, dict[str, Row]] = {}
    for name in GRAPHS:
        path = FOLDER / f"{name}.json"
        for row in json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else ():
            case = name, row["labels"], row["split"]
            cases.setdefault(case, {})[row["candidate"]] = row
    return {case: rows for case, rows in cases.items() if len(rows) >= COMPLETE}


def handicaps(cases: Mapping[Case, Mapping[str, Row]]) -> dict[str, float]:
    """By how much validation nodes overrate each candidate against `auto`: the median over cases.

    Validation nodes are often drawn class by class, and do not see what a method gains where
    classes are of different size.
    """
    found: dict[str, list[float]] = {}
    for rows in cases.values():
        for name, row in rows.items():
            seen = row["valid_accuracy"] - rows["auto"]["valid_accuracy"]
            real = row["test_accuracy"] - rows["auto"]["test_accuracy"]
            found.setdefault(name, []).append(seen - real)
    return {name: round(max(statistics.median(each), 0.0), 3) for name, each in found.items()}


def learned_order(cases: Mapping[Case, Mapping[str, Row]], length: int = 12) -> list[str]:
    """Candidates in the order of what each adds to those before it; every graph counts once.

    Judged is the average of the best few by validation accuracy, as the package makes it.
    """
    handicap, order = handicaps(cases), ["auto"]
    names = [name for name in candidates() if name != "auto"]

    def mean_accuracy(chosen: list[str]) -> float:
        by_graph: dict[str, list[float]] = {}
        for case, rows in cases.items():
            by_graph.setdefault(case[0], []).append(averaged(case, rows, chosen, handicap))
        return statistics.fmean(statistics.fmean(each) for each in by_graph.values())

    while len(order) < length:
        rest = [name for name in names if name not in order]
        order.append(max(rest, key=lambda name: mean_accuracy([*order, name])))
    return order


def ranked(
    rows: Mapping[str, Row], names: Sequence[str], handicap: Mapping[str, float]
) -> list[str]:
    """Some candidates, the best by validation accuracy less its handicap first."""
    there = [name for name in names if name in rows]
    return sorted(there, key=lambda name: handicap.get(name, 0.0) - rows[name]["valid_accuracy"])


@cache
def kept(case: Case, name: str) -> Mapping[str, NDArray[np.float16]]:
    """Probabilities of a candidate for validation and test nodes."""
    with np.load(kept_file(case, name)) as file:
        return dict(file)


def averaged(
    case: Case, rows: Mapping[str, Row], names: Sequence[str], handicap: Mapping[str, float]
) -> float:
    """Test accuracy of the average that the package makes of some candidates.

    Where probabilities are not kept on this machine, that of the best by validation accuracy.
    """
    best = tuple(ranked(rows, names, handicap))
    if not all(kept_file(case, name).exists() for name in best[:CONSIDERED]):
        return float(rows[best[0]]["test_accuracy"])
    return accuracy_of(case, best[:CONSIDERED])


@cache
def accuracy_of(case: Case, best: tuple[str, ...]) -> float:
    """Of the candidates that are chosen of some, the best first."""
    valid, test = labels_of(case)
    chosen = chosen_members(valid, [kept(case, name)["valid"] for name in best])
    total = sum(kept(case, best[each])["test"].astype(np.float32) for each in chosen)
    return float((np.asarray(total).argmax(axis=1) == test).mean())


@cache
def labels_of(case: Case) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Classes of the validation and test nodes of a case."""
    graph = split_graph(*case)
    return graph.labels[graph.valid], graph.labels[graph.test]


def without(cases: Mapping[Case, Mapping[str, Row]], graph: str) -> dict[Case, Mapping[str, Row]]:
    """The cases of all other graphs."""
    return {case: rows for case, rows in cases.items() if case[0] != graph}


def learned_portfolio(cases: Mapping[Case, Mapping[str, Row]]) -> dict[str, dict[str, Any]]:
    """Tables of the members in their order, each with its handicap."""
    handicap, tables = handicaps(cases), candidates()
    return {name: {"handicap": handicap[name], **tables[name]} for name in learned_order(cases)}


def stranger_portfolio(graph: str) -> dict[str, dict[str, Any]]:
    """What all graphs but one teach."""
    return learned_portfolio(without(rows_by_case(), graph))


def learn() -> None:
    """Write the portfolio that all graphs together teach."""
    cases = rows_by_case()
    graphs = sorted({case[0] for case in cases})
    lines = [
        "# Learned by `python benchmarks/portfolio.py learn`; do not edit. From these graphs:",
        f"# {', '.join(graphs)}.",
        '# Each is laid over what `encoder="auto"` chooses. A handicap is by how much held-out',
        "# labels overrate a member against the first.",
    ]
    for name, table in learned_portfolio(cases).items():
        lines += ["", f"[{name}]", *(f"{key} = {_toml(value)}" for key, value in table.items())]
    PORTFOLIO.write_text("\n".join(lines) + "\n", encoding="utf-8")
    console.print(PORTFOLIO.read_text(encoding="utf-8"), markup=False)


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + " }"
    return json.dumps(value)


def report() -> None:
    """What the portfolio of the other graphs picks, and its averages, on each graph."""
    cases, means = rows_by_case(), list[dict[str, float]]()
    for case, rows in cases.items():
        others = without(cases, case[0])
        order, handicap = learned_order(others), handicaps(others)
        found = {"auto": rows["auto"]["test_accuracy"]}
        for length in (4, 8, 12):
            best = ranked(rows, order[:length], handicap)
            found[f"pick of {length}"] = rows[best[0]]["test_accuracy"]
            found[f"average of {length}"] = averaged(case, rows, order[:length], handicap)
        found["best"] = max(row["test_accuracy"] for row in rows.values())
        means.append(found)
        shown = ", ".join(f"{name} {100 * value:.1f}" for name, value in found.items())
        console.print(f"{' '.join(map(str, case))}: {shown}; {' '.join(order[:6])}", soft_wrap=True)
    for name in means[0]:
        mean = statistics.fmean(found[name] for found in means)
        console.print(f"mean of {name}: {100 * mean:.2f} ({len(means)} cases)")


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
    elif options.step == "learn":
        learn()
    else:
        report()


if __name__ == "__main__":
    main()
