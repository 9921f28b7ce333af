"""Tables of every encoder with and without SCR, tuned and untuned, for README.md and the docs.

Reads what `accuracy.py` and `_grand.py` wrote. Balanced accuracy, the mean recall of the classes,
stands beside accuracy in every table: a method that learns the classes' shares gains accuracy
alone.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cells import difference_cell, interval, mean_cell, plain
from scr.report import ComparisonRow, compare_runs, pooled_difference
from scr.report._comparison import (
    LEVEL,
    PairedDifference,
    pairs_by_seed,
    stratified_interval,
)

RESULTS = Path(__file__).parent / "results"
GRAPHS = ("cora", "pubmed", "amazon_photo", "dblp_citation", "coauthor_cs", "wordnet")
LOW_HOMOPHILY = "actor"
OTHERS = ("cora_ml", "acm", "blogcatalog", "flickr", "uai")
"""Graphs that only presets are run on."""
NAMES = {"none": "base", "scr": "SCR", "scr-m": "SCR-m", "grand": "GRAND"}
MEASURES = ("test_accuracy", "balanced_accuracy")

Results = dict[str, dict[str, Any]]
Run = dict[str, Any]


def read(kind: str) -> Results:
    """Results by graph, in the order of the table."""
    found = {}
    for name in (*GRAPHS, LOW_HOMOPHILY, *OTHERS):
        file = RESULTS / kind / f"{name}.json"
        if file.exists():
            found[name] = json.loads(file.read_text(encoding="utf-8"))
    return found


def tuned_lines() -> list[str]:
    """All encoders with settings chosen on validation nodes, and GRAND with those of its paper."""
    results = read("accuracy")
    grand = grand_runs()
    seeds = ", ".join(f"{name} {_seeds(result['runs'])}" for name, result in results.items())
    of_grand = ", ".join(f"{name} {_seeds(runs)}" for name, runs in grand.items())
    return [
        "Test accuracy in percent, mean ± deviation over seeds, and in parentheses the mean of "
        "balanced accuracy, which is the mean recall of the classes. Seeds: "
        f"{seeds}. Public split or shared splits; settings are chosen on validation nodes from the "
        "same candidates for base and SCR (`python benchmarks/accuracy.py search`). In bold: the "
        "best validation mean, both rows where two tie. Printed by "
        "`python benchmarks/accuracy.py table`."
        + (
            f" GRAND has the settings of its paper (`python benchmarks/grand.py`; seeds: "
            f"{of_grand})."
            if grand
            else ""
        ),
        "",
        *accuracy_table(results, grand),
        "",
        "Paired difference to the base with the same seeds, in points, with its 95% interval:",
        "",
        *gain_table(results),
        "",
        *pairs_sentence(results),
        *switched_off(results),
    ]


def grand_runs() -> dict[str, list[Run]]:
    """Runs of GRAND by graph, as rows of the encoder that it is used with."""
    file = RESULTS / "grand.json"
    rows = json.loads(file.read_text(encoding="utf-8"))["rows"] if file.exists() else []
    found: dict[str, list[Run]] = {}
    for row in rows:
        run = {**row, "encoder": "ssgc", "regularizer": "grand"}
        found.setdefault(row["graph"], []).append(run)
    return found


def accuracy_table(results: Results, more: dict[str, list[Run]]) -> list[str]:
    """Encoders and regularizers by graphs; the best validation means of a graph in bold."""
    cells: dict[tuple[str, str], dict[str, str]] = {}
    order: list[str] = []
    for name, result in results.items():
        rows = compare_runs([*result["runs"], *more.get(name, [])])
        best = max(row["valid_mean"] or 0 for row in rows)
        for row in rows:
            text = _cell(row)
            text = f"**{text}**" if row["valid_mean"] == best else text
            cells.setdefault((row["encoder"], row["regularizer"]), {})[name] = text
            order += [] if row["encoder"] in order else [row["encoder"]]
    lines = [
        "| encoder | | " + " | ".join(map(plain, results)) + " |",
        "| --- | --- |" + " --- |" * len(results),
    ]
    for (encoder, regularizer), by_graph in sorted(
        cells.items(), key=lambda item: (order.index(item[0][0]), list(NAMES).index(item[0][1]))
    ):
        label = f"`{encoder}`" if regularizer == "none" else ""
        values = " | ".join(by_graph.get(name, "") for name in results)
        lines.append(f"| {label} | {NAMES[regularizer]} | {values} |")
    return lines


def gain_table(results: Results) -> list[str]:
    """Paired differences to the base, pooled over the homophilous graphs, and on the other one."""
    runs = _runs(results, GRAPHS)
    low = {
        (row["encoder"], row["regularizer"]): row
        for row in compare_runs(_runs(results, [LOW_HOMOPHILY]))
    }
    on_low = [f" accuracy on {LOW_HOMOPHILY} |", f" balanced on {LOW_HOMOPHILY} |"] if low else []
    lines = [
        "| encoder | | graphs | accuracy | balanced accuracy |" + "".join(on_low),
        "| --- | --- | --- | --- | --- |" + " --- |" * len(on_low),
    ]
    for encoder, regularizer in _pairs_of_names(runs):
        gains = [pooled_difference(runs, encoder, regularizer, measure=name) for name in MEASURES]
        count = len(_gains_by_graph(runs, encoder, regularizer, MEASURES[0]))
        cells = [str(count), *map(difference_cell, gains)]
        row = low.get((encoder, regularizer))
        if row is not None:
            cells += [
                interval(row["difference"], row["difference_low"], row["difference_high"]),
                interval(
                    row["balanced_difference"],
                    row["balanced_difference_low"],
                    row["balanced_difference_high"],
                ),
            ]
        cells += [""] * (3 + len(on_low) - len(cells))
        lines.append(f"| `{encoder}` | {NAMES[regularizer]} | {' | '.join(cells)} |")
    return lines


def pairs_sentence(results: Results) -> list[str]:
    """Both gains over all pairs of an encoder and a graph, and why they differ."""
    runs = _runs(results, GRAPHS)
    said = []
    for regularizer in ("scr", "scr-m"):
        gains = [gain_over_pairs(runs, regularizer, measure) for measure in MEASURES]
        if gains[0] is not None:
            said.append(
                f"{NAMES[regularizer]} gains {difference_cell(gains[0])} points of accuracy and "
                f"{difference_cell(gains[1])} of balanced accuracy"
            )
    if not said:
        return []
    count = sum(
        len(_gains_by_graph(runs, encoder, "scr", MEASURES[0]))
        for encoder, regularizer in _pairs_of_names(runs)
        if regularizer == "scr"
    )
    return [
        f"Over {count} pairs of an encoder and a graph ({LOW_HOMOPHILY} aside), "
        f"{'; '.join(said)}. Labels are drawn evenly from the classes, and the classes' natural "
        "shares enter through unlabeled nodes: that favors common classes, which accuracy counts "
        "more and balanced accuracy does not."
    ]


def gain_over_pairs(runs: Sequence[Run], regularizer: str, measure: str) -> PairedDifference | None:
    """Mean gain over all pairs of an encoder and a graph, each counting the same."""
    samples = [
        sample
        for encoder in dict.fromkeys(run["encoder"] for run in runs)
        for sample in _gains_by_graph(runs, encoder, regularizer, measure).values()
    ]
    return stratified_interval(samples, LEVEL) if samples else None


def switched_off(results: Results) -> list[str]:
    """A sentence for a graph on which every run turned its consistency term off."""
    regularized = [run for run in _runs(results, [LOW_HOMOPHILY]) if run["regularizer"] != "none"]
    if not regularized or not all(" to 0:" in "".join(run["notes"]) for run in regularized):
        return []
    return [
        "",
        f"On {LOW_HOMOPHILY}, where neighbors differ, held-out training labels say that pseudo "
        "labels would mislead: every run turned its consistency term off, and SCR is the base.",
    ]


def default_lines() -> list[str]:
    """What the presets reach alone: all graphs, their means, and how often the base is reached."""
    results = read("defaults")
    if not results:
        return []
    rows = {name: _by_pair(compare_runs(result["runs"])) for name, result in results.items()}
    pairs = [
        (encoder, regularizer)
        for encoder in dict.fromkeys(pair[0] for found in rows.values() for pair in found)
        for regularizer in NAMES
        if any((encoder, regularizer) in found for found in rows.values())
    ]
    headings = [
        f"`{encoder}`" if regularizer == "none" else f"+ {NAMES[regularizer]}"
        for encoder, regularizer in pairs
    ]
    lines = [
        "| graph | seeds | " + " | ".join(headings) + " |",
        "| --- | --- |" + " --- |" * len(pairs),
    ]
    for name, found in rows.items():
        cells = [_cell(found[pair]) if pair in found else "" for pair in pairs]
        seeds = _seeds(results[name]["runs"])
        lines.append(f"| {plain(name)} | {seeds} | {' | '.join(cells)} |")
    means = [_mean_over_graphs([found.get(pair) for found in rows.values()]) for pair in pairs]
    lines.append(f"| mean over graphs |  | {' | '.join(means)} |")
    return [
        "The preset alone, nothing tuned. Test accuracy in percent, mean ± deviation over seeds, "
        "and in parentheses balanced accuracy; a mean over graphs is of rows that all graphs have. "
        "Printed by `python benchmarks/accuracy.py defaults`.",
        "",
        *lines,
        "",
        "Paired difference to the base with the same seeds, in points, with its 95% interval, and "
        "on how many graphs the mean is at or above that of the base:",
        "",
        *preset_gains(results),
        "",
    ]


def preset_gains(results: Results) -> list[str]:
    """Gains over all graphs that were run with the presets alone."""
    runs = _runs(results, tuple(results))
    lines = [
        "| encoder | | accuracy | balanced accuracy | at or above: accuracy | balanced |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for encoder, regularizer in _pairs_of_names(runs):
        gains, counts = [], []
        for measure in MEASURES:
            gain = pooled_difference(runs, encoder, regularizer, measure=measure)
            by_graph = _gains_by_graph(runs, encoder, regularizer, measure)
            reached = sum(sample.mean() >= 0 for sample in by_graph.values())
            gains.append(difference_cell(gain))
            counts.append(f"{reached} of {len(by_graph)} graphs")
        cells = " | ".join([*gains, *counts])
        lines.append(f"| `{encoder}` | {NAMES[regularizer]} | {cells} |")
    return lines


def _runs(results: Results, graphs: Sequence[str]) -> list[Run]:
    return [run for name in graphs if name in results for run in results[name]["runs"]]


def _pairs_of_names(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Encoders with each regularizer that they were run with, the base aside."""
    return [
        (encoder, regularizer)
        for encoder in dict.fromkeys(run["encoder"] for run in runs)
        for regularizer in ("scr", "scr-m")
        if any((run["encoder"], run["regularizer"]) == (encoder, regularizer) for run in runs)
    ]


def _gains_by_graph(
    runs: Sequence[Run], encoder: str, regularizer: str, measure: str
) -> dict[str, np.ndarray]:
    """Differences to the base by graph, one for each seed that both have."""
    found = {}
    for graph in dict.fromkeys(run["graph"] for run in runs):
        ours, base = (
            {
                run["seed"]: run
                for run in runs
                if (run["graph"], run["encoder"], run["regularizer"]) == (graph, encoder, name)
            }
            for name in (regularizer, "none")
        )
        pairs = pairs_by_seed(ours, base, measure)
        if pairs:
            found[graph] = np.array([value - before for value, before in pairs])
    return found


def _by_pair(rows: Sequence[ComparisonRow]) -> dict[tuple[str, str], ComparisonRow]:
    return {(row["encoder"], row["regularizer"]): row for row in rows}


def _cell(row: ComparisonRow) -> str:
    return mean_cell(row["test_mean"] or 0.0, row["test_std"], row["balanced_mean"])


def _mean_over_graphs(rows: Sequence[ComparisonRow | None]) -> str:
    known = [row for row in rows if row is not None]
    if len(known) < len(rows):
        return ""
    return mean_cell(
        statistics.fmean(row["test_mean"] or 0.0 for row in known),
        None,
        statistics.fmean(row["balanced_mean"] or 0.0 for row in known),
    )


def _seeds(runs: Sequence[Run]) -> int:
    return len({run["seed"] for run in runs})
