"""Tables of what SCR does for different graph neural networks, for README.md and docs/results.md.

Rows of encoders that read the graph are those of `networks.py`, the others those of `accuracy.py`.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import ttest_1samp

from cells import cell, difference_cell, plain
from grand import PUBLISHED
from harness import size
from scale_tables import read
from scr.report._comparison import (
    LEVEL,
    PairedDifference,
    pairs_by_seed,
    stratified_interval,
    t_interval,
)

RESULTS = Path(__file__).parent / "results"
GRAPHS = ("cora", "pubmed", "amazon_photo", "dblp_citation", "coauthor_cs", "wordnet")
CAVEAT = (
    "How far to trust this: the candidates with a threshold were added when SCR without one was "
    "seen to lose on dblp citation, in validation and, in a few runs, in test accuracy; then all "
    "graphs were searched with them. On splits that are the same for all seeds (cora, pubmed), "
    "intervals are about seeds alone."
)
NETWORKS = {
    "mlp": "MLP",
    "graphsage": "GraphSAGE",
    "cluster-gcn": "ClusterGCN",
    "graph-saint": "GraphSAINT",
    "sign": "SIGN",
    "sagn": "SAGN",
    "gamlp": "GAMLP",
}


@dataclass(frozen=True, eq=False)
class Pair:
    """One network on one graph: accuracies of base and SCR in percent, paired by seed."""

    encoder: str
    graph: str
    base: np.ndarray
    scr: np.ndarray
    balanced: tuple[np.ndarray, np.ndarray] | None = None
    """Balanced accuracies of base and SCR; none where they were not recorded."""

    @property
    def gain(self) -> PairedDifference:
        """Of SCR over the base, in points."""
        return t_interval(self.scr - self.base, LEVEL)

    @property
    def balanced_gain(self) -> PairedDifference | None:
        """The same of balanced accuracy."""
        if self.balanced is None:
            return None
        base, scr = self.balanced
        return t_interval(scr - base, LEVEL)

    @property
    def p(self) -> float:
        """Of the two-sided paired t-test; 1 where all seeds are equal."""
        differences = self.scr - self.base
        if not differences.any():
            return 1.0
        return float(ttest_1samp(differences, 0).pvalue)


def pairs() -> list[Pair]:
    """All pairs that have been run."""
    found = []
    for graph in GRAPHS:
        runs: list[dict[str, Any]] = []
        for kind in ("accuracy", "networks"):
            file = RESULTS / kind / f"{graph}.json"
            if file.exists():
                runs += json.loads(file.read_text(encoding="utf-8"))["runs"]
        for encoder in NETWORKS:
            accuracy = _paired(runs, encoder, "test_accuracy")
            if accuracy is not None:
                balanced = _paired(runs, encoder, "balanced_accuracy")
                found.append(Pair(encoder, graph, *accuracy, balanced))
    return found


def _paired(
    runs: Sequence[dict[str, Any]], encoder: str, measure: str
) -> tuple[np.ndarray, np.ndarray] | None:
    """A measure of base and SCR in percent, for the seeds that both have it for."""
    base, scr = (
        {
            run["seed"]: run
            for run in runs
            if (run["encoder"], run["regularizer"]) == (encoder, name)
        }
        for name in ("none", "scr")
    )
    pairs = pairs_by_seed(scr, base, measure)
    if not pairs:
        return None
    after, before = 100 * np.array(pairs).T
    return before, after


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values for being many: Holm 1979, "A simple sequentially rejective test".

    The k-th smallest of m is multiplied by m - k + 1, and none may be below one before it.
    """
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda at: p_values[at])):
        largest = max(largest, min(1.0, p_values[place] * (len(p_values) - rank)))
        adjusted[place] = largest
    return adjusted


def mean_gains(found: Sequence[Pair]) -> tuple[PairedDifference, PairedDifference]:
    """Over all pairs: whether it would help with other seeds, and on other graphs like these."""
    over_seeds = stratified_interval([pair.scr - pair.base for pair in found], LEVEL)
    by_graph: dict[str, list[float]] = {}
    for pair in found:
        by_graph.setdefault(pair.graph, []).append(pair.gain.mean)
    means = np.array([statistics.mean(gains) for gains in by_graph.values()])
    return over_seeds, t_interval(means, LEVEL)


def network_sentence() -> list[str]:
    """The mean gain and the verdict over all pairs, for the README."""
    found = pairs()
    if not any(pair.encoder == "graphsage" for pair in found):
        return []
    over_seeds, over_graphs = mean_gains(found)
    adjusted = holm([pair.p for pair in found])
    sure = [pair for pair, p in zip(found, adjusted, strict=True) if p < 1 - LEVEL]
    better = sum(pair.gain.mean > 0 for pair in sure)
    worse = [
        f"{NETWORKS[pair.encoder]} on {plain(pair.graph)}" for pair in sure if pair.gain.mean < 0
    ]
    up = sum(pair.gain.mean > 0 for pair in found)
    graphs = len({pair.graph for pair in found})
    return [
        "",
        f"SCR on {len({pair.encoder for pair in found})} networks and {graphs} graphs, GraphSAGE, "
        f"ClusterGCN and GraphSAINT among them: {difference_cell(over_seeds, scale=1)} points of "
        f"accuracy on average over {len(found)} pairs of a network and a graph "
        f"({difference_cell(over_graphs, scale=1)} with graphs as the unit)"
        f"{_balanced_phrase(found)}. The mean accuracy is higher in {up} of them; after Holm's "
        f"correction {better} are significantly better and {len(worse) or 'none'} significantly "
        "worse" + (f" ({', '.join(worse)})" if worse else "") + ".",
    ]


def _balanced_phrase(found: Sequence[Pair]) -> str:
    """The mean gain of balanced accuracy, over the pairs that recorded it."""
    known = [scr - base for base, scr in (pair.balanced for pair in found if pair.balanced)]
    if not known:
        return ""
    where = "" if len(known) == len(found) else f" over the {len(known)} pairs that recorded it"
    gain = difference_cell(stratified_interval(known, LEVEL), scale=1)
    return f", and {gain} of balanced accuracy{where}"


def network_lines() -> list[str]:
    """The paper's table "with different GNNs", on graphs that are here."""
    found = {(pair.encoder, pair.graph): pair for pair in pairs()}
    if not any(encoder == "graphsage" for encoder, _ in found):
        return []
    graphs = [graph for graph in GRAPHS if any(key[1] == graph for key in found)]
    adjusted = dict(zip(found, holm([pair.p for pair in found.values()]), strict=True))
    seeds = ", ".join(f"{plain(graph)} {len(found['mlp', graph].base)}" for graph in graphs)
    missing = dict.fromkeys(
        NETWORKS[pair.encoder] for pair in found.values() if pair.balanced is None
    )
    lines = [
        "## With different graph neural networks",
        "",
        f"Test accuracy in percent, means over seeds ({seeds}), in parentheses balanced accuracy, "
        "and the gains of SCR, paired by seed, with their 95% intervals; * where a gain of "
        "accuracy is significant after Holm's correction over all pairs. Settings of base and SCR "
        "are chosen on validation nodes from the same candidates. GraphSAGE, ClusterGCN and "
        "GraphSAINT: `python benchmarks/networks.py search`, then `table`; the others are rows of "
        "the first table."
        + (f" Older runs recorded no balanced accuracy: {', '.join(missing)}." if missing else ""),
        "",
        "| network | | " + " | ".join(map(plain, graphs)) + " |",
        "| --- | --- |" + " --- |" * len(graphs),
    ]
    for encoder, name in NETWORKS.items():
        rows: dict[str, list[str]] = {"base": [], "SCR": [], "gain": [], "balanced gain": []}
        for graph in graphs:
            pair = found.get((encoder, graph))
            if pair is None:
                for cells in rows.values():
                    cells.append("")
                continue
            of_base, of_scr = pair.balanced or (None, None)
            rows["base"].append(_mean(pair.base, of_base))
            rows["SCR"].append(_mean(pair.scr, of_scr))
            star = "*" if adjusted[encoder, graph] < 1 - LEVEL else ""
            rows["gain"].append(difference_cell(pair.gain, scale=1) + star)
            rows["balanced gain"].append(difference_cell(pair.balanced_gain, scale=1))
        for label, cells in rows.items():
            shown = name if label == "base" else ""
            lines.append(f"| {shown} | {label} | {' | '.join(cells)} |")
    return [*lines, *network_sentence(), "", CAVEAT, ""]


def sampling_sentence() -> list[str]:
    """How fast the sampler is beside its fastest peer, for the README."""
    found = read("sampling")
    if found is None:
        return []
    speeds = {row["name"]: row["edges_per_second"] for row in found["rows"]}
    peers = ("DGL NeighborSampler", "torch CSR", "PyG k_hop_subgraph")
    beside = ", ".join(
        f"{speeds['scr'] / speeds[name]:.1f} times {name}" for name in peers if name in speeds
    )
    return [
        f"- Neighbor sampling, {found['nodes']:,} nodes, {found['undirected_edges']:,} undirected "
        f"edges: {speeds['scr'] / 1e6:.0f} million edges per second, {beside} "
        f"(`{found['command']}`)."
    ]


def sampling_lines() -> list[str]:
    """The neighbor sampler beside others."""
    found = read("sampling")
    if found is None:
        return []
    return [
        "## Sampling neighbors",
        "",
        f"{found['nodes']:,} nodes, {found['undirected_edges']:,} undirected edges; batches of "
        f"{found['seeds']:,} seeds with {', '.join(map(str, found['fanouts']))} neighbors, "
        f"{found['threads']} threads; medians of rounds in which all took turns. torch-sparse and "
        "pyg-lib, which PyG's own loader needs, have no build for this version of torch; DGL's "
        "sampler runs without its GraphBolt. "
        f"Printed by `{found['command']}` on {found['processor']}.",
        "",
        "| sampler | million edges per second | × torch |",
        "| --- | --- | --- |",
        *(
            f"| {row['name']} | {row['edges_per_second'] / 1e6:.2f} | {row['times_torch']:.2f} |"
            for row in found["rows"]
        ),
        "",
    ]


def inference_lines() -> list[str]:
    """Predictions of the whole graph beside plain forward passes."""
    found = read("inference")
    if found is None:
        return []
    asked, rows = found["settings"], found["rows"]
    load = next(row["memory_bytes"] for row in rows if row["name"] == "load")
    return [
        "## Predicting a whole graph layer by layer",
        "",
        f"GraphSAGE on {asked['nodes']:,} nodes and {asked['edges']:,} edges with "
        f"{asked['features']} features, {asked['layers']} layers of {asked['hidden']} columns, "
        f"{asked['threads']} threads; peak memory of a process of its own, and how much of it is "
        "above a process that only loads the graph. Printed by "
        f"`{found['command']}` on {found['processor']}.",
        "",
        "| | seconds | peak memory | above load |",
        "| --- | --- | --- | --- |",
        *(
            f"| {row['name']} | {row.get('failed') or row['inference_seconds']} | "
            f"{size(row['memory_bytes'])} | {size(row['memory_bytes'] - load)} |"
            for row in rows
            if row["name"] != "load"
        ),
        "",
    ]


def grand_lines() -> list[str]:
    """GRAND with its published settings, beside the published accuracy."""
    found = read("grand")
    if found is None:
        return []
    lines = [
        "## GRAND as published",
        "",
        "`ssgc` with the regularizer `grand`, that is random propagation, with the settings of the "
        "authors' scripts, on public splits; the published numbers are means of 100 runs. Test "
        "accuracy in percent, and in parentheses balanced accuracy where all runs recorded it. "
        f"Printed by `{found['command']}`.",
        "",
        "| graph | seeds | here | published |",
        "| --- | --- | --- | --- |",
    ]
    for graph, published in PUBLISHED.items():
        rows = [row for row in found["rows"] if row["graph"] == graph]
        if rows:
            here = cell(
                [row["test_accuracy"] for row in rows],
                [row.get("balanced_accuracy") for row in rows],
            )
            lines.append(f"| {graph} | {len(rows)} | {here} | {published} |")
    return [*lines, ""]


def _mean(values: np.ndarray, balanced: np.ndarray | None) -> str:
    text = f"{values.mean():.1f}"
    return text if balanced is None else f"{text} ({balanced.mean():.1f})"
