"""Labels that `classifier.suggest` asks for, beside random ones and other rules, round by round.

    python benchmarks/suggest.py                   run what is missing, then print the tables
    python benchmarks/suggest.py --graph cora --seeds 1
    python benchmarks/suggest.py --table

Three training and five validation labels of each class are drawn at random; half of all other nodes
test. Then five times, a rule picks two nodes per class of the other half, whose labels are hidden
until then, and a model is trained with them as well. `NodeClassifier(regularizer="none")` as it is;
its encoder, scale and hops are chosen once, with the first labels. The rule was chosen on the
graphs of `CHOSEN_ON`; the others were looked at by nothing but this report. Results are written row
by row to results/suggest.json; what is there is not run again.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cells import plain
from harness import RESULTS, Results, console
from scr import NodeClassifier
from scr.engines import use_one_thread
from scr.graph import Graph, per_class_split
from scr.prediction._groups import directions
from scr.prediction._suggestions import doubt
from scr.report import paired_difference
from scr.training import prepare
from strangers import whole_graph

CHOSEN_ON = ("cora", "acm", "blogcatalog")
GRAPHS = (*CHOSEN_ON, "cora_ml", "uai", "dblp_citation", "amazon_photo", "pubmed")
SEEDS = 3
TRAIN_PER_CLASS, VALID_PER_CLASS = 3, 5
ROUNDS, PICKS_PER_CLASS = 5, 2

Nodes = NDArray[np.int64]


@dataclass(frozen=True)
class Round:
    """What a rule may read: a model, its graph, and nodes without labels."""

    classifier: NodeClassifier
    graph: Graph
    hops: NDArray[np.float32]
    """Of all nodes, the mean of their hops."""
    points: NDArray[np.float64]
    """The same as unit vectors around their mean."""
    pool: Nodes
    count: int
    generator: np.random.Generator

    @property
    def probabilities(self) -> NDArray[np.float32]:
        """Of the nodes of the pool."""
        return self.classifier.predict_proba(self.pool)


def at_random(now: Round) -> Nodes:
    """Any nodes."""
    return now.generator.choice(now.pool, now.count, replace=False)


def by_margin(now: Round) -> Nodes:
    """Where the two likeliest classes are closest."""
    return now.pool[np.argsort(-doubt(now.probabilities), kind="stable")[: now.count]]


def by_entropy(now: Round) -> Nodes:
    """Where probabilities are spread most."""
    probabilities = now.probabilities.astype(np.float64)
    entropy = -(probabilities * np.log(np.maximum(probabilities, 1e-12))).sum(axis=1)
    return now.pool[np.argsort(-entropy, kind="stable")[: now.count]]


def k_center(now: Round) -> Nodes:
    """Farthest from all labels, again and again (Sener and Savarese 2018)."""
    points = now.points[now.pool]
    closest = (points @ now.points[now.graph.train].T).max(axis=1)
    picked: list[int] = []
    for _ in range(now.count):
        picked.append(int(closest.argmin()))
        closest = np.maximum(closest, points @ points[picked[-1]])
    return now.pool[picked]


def k_means(now: Round, weights: NDArray[np.float64] | None = None) -> Nodes:
    """The nodes at the centers of clusters (FeatProp, Wu et al. 2019)."""
    from sklearn.cluster import KMeans

    points = now.points[now.pool]
    clusters = KMeans(now.count, n_init=1, random_state=0).fit(points, sample_weight=weights)
    return now.pool[np.unique(clusters.transform(points).argmin(axis=0))]


def doubtful_k_means(now: Round) -> Nodes:
    """The same, where each node counts as much as the model doubts it (Zhdanov 2019)."""
    return k_means(now, doubt(now.probabilities))


def by_coverage(now: Round) -> Nodes:
    """Nodes that are most like those without a label near: greedy facility location."""
    points, labeled = now.points[now.pool], now.points[now.graph.train]
    return now.pool[coverage(points, np.ones(len(points)), labeled, now.count)]


def by_doubtful_coverage(now: Round) -> Nodes:
    """The same, where each node counts as much as the model doubts it."""
    points = directions(now.hops[np.concatenate([now.pool, now.graph.train])])
    points, labeled = np.split(points, [len(now.pool)])
    return now.pool[coverage(points, doubt(now.probabilities), labeled, now.count)]


def coverage(
    points: NDArray[np.float64],
    weights: NDArray[np.float64],
    labeled: NDArray[np.float64],
    count: int,
) -> list[int]:
    """Points that add most to the weighted similarity of all points to what has a label."""
    closest = (points @ labeled.T).max(axis=1, initial=0)
    picked: list[int] = []
    for _ in range(count):
        parts = np.array_split(points, 1 + len(points) // 1024)
        gains = [np.maximum(part @ points.T - closest, 0) @ weights for part in parts]
        added = np.concatenate(gains)
        added[picked] = -1
        picked.append(int(added.argmax()))
        closest = np.maximum(closest, points @ points[picked[-1]])
    return picked


def as_suggested(now: Round) -> Nodes:
    """What the package suggests."""
    return np.array([each.node for each in now.classifier.suggest(now.count)])


RULES: dict[str, Callable[[Round], Nodes]] = {
    "random": at_random,
    "suggest": as_suggested,
    "margin": by_margin,
    "entropy": by_entropy,
    "k-center": k_center,
    "k-means": k_means,
    "doubtful k-means": doubtful_k_means,
    "coverage": by_coverage,
    "doubtful coverage": by_doubtful_coverage,
}


def visible(graph: Graph, train: Nodes, valid: Nodes, test: Nodes) -> Graph:
    """The graph with the labels of its splits alone."""
    labels = np.full(len(graph.labels), -1)
    for nodes in (train, valid, test):
        labels[nodes] = graph.labels[nodes]
    return dataclasses.replace(graph, labels=labels, train=np.sort(train), valid=valid, test=test)


def run(name: str, seed: int, missing: Sequence[str]) -> Any:
    """Play all rounds of some rules; yields a row for each."""
    whole = whole_graph(name)
    split = per_class_split(whole.labels, TRAIN_PER_CLASS, VALID_PER_CLASS, seed=seed)
    shuffled = np.random.default_rng(seed).permutation(split.test)
    test, others = (np.sort(half) for half in np.array_split(shuffled, 2))
    first = visible(whole, split.train, split.valid, test)
    recipe = NodeClassifier(regularizer="none", seed=seed).resolve(first)
    prepared, tables = prepare(first, recipe), recipe.tables()

    def fit(graph: Graph) -> NodeClassifier:
        return NodeClassifier(recipe=tables, preset="none", seed=seed).fit(graph, prepared=prepared)

    start = fit(first)
    hops = start._trained().rows(None, None).hops.mean(axis=1)
    points = directions(hops)
    for rule in missing:
        graph, classifier, pool = first, start, others
        accuracies, seconds = [start.score("test")], 0.0
        for number in range(ROUNDS):
            count = min(PICKS_PER_CLASS * whole.num_classes, len(pool))
            generator = np.random.default_rng([seed, number])
            started = time.perf_counter()
            picks = RULES[rule](Round(classifier, graph, hops, points, pool, count, generator))
            seconds += time.perf_counter() - started
            rest = np.setdiff1d(pool, picks)
            more = generator.choice(rest, count - len(picks), replace=False)
            train = np.concatenate([graph.train, picks, more])
            pool = np.setdiff1d(rest, more)
            graph = visible(whole, train, split.valid, test)
            classifier = fit(graph)
            accuracies.append(classifier.score("test"))
        yield (
            rule,
            {
                "labels": [len(first.train), len(graph.train)],
                "accuracies": [round(each, 5) for each in accuracies],
                "mean_accuracy": round(statistics.fmean(accuracies[1:]), 5),
                "choosing_seconds": round(seconds, 2),
                "encoder": recipe.encoder,
                "hops": recipe.propagation.hops,
            },
        )


def fill(results: Results, options: argparse.Namespace) -> None:
    """Run what is missing, graphs that the rule was chosen on first."""
    names = options.graph or GRAPHS
    order = sorted(
        ((name, seed) for name in names for seed in range(options.seeds)),
        key=lambda each: (each[0] not in CHOSEN_ON, each[1]),
    )
    for name, seed in order:
        key = {"graph": name, "seed": seed}
        missing = [rule for rule in options.rule or RULES if not results.find(**key, rule=rule)]
        for rule, values in run(name, seed, missing) if missing else ():
            row = results.add(key | {"rule": rule}, values)
            shown = " ".join(f"{100 * each:.1f}" for each in row["accuracies"])
            console.print(f"{name}, seed {seed}, {rule}: {shown}")


def tables(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Markdown: mean accuracy over the rounds, and what it is against random labels."""
    rules = [rule for rule in RULES if any(row["rule"] == rule for row in rows)]
    lines = [f"| graph | labels | {' | '.join(rules)} |", f"| --- | --- |{' --- |' * len(rules)}"]
    for name in GRAPHS:
        mine = [row for row in rows if row["graph"] == name]
        if mine:
            cells = " | ".join(cell(mine, rule) for rule in rules)
            first, last = mine[0]["labels"]
            mark = "*" if name in CHOSEN_ON else ""
            lines.append(f"| {plain(name)}{mark} | {first} to {last} | {cells} |")
    for title, names in (("chosen on*", CHOSEN_ON), ("others", GRAPHS[len(CHOSEN_ON) :])):
        mine = [row for row in rows if row["graph"] in names]
        if mine:
            cells = " | ".join(against_random(mine, rule) for rule in rules)
            lines.append(f"| **{title}, against random** | | {cells} |")
    return lines


def cell(rows: Sequence[Mapping[str, Any]], rule: str) -> str:
    """Mean over the rounds and seeds, and in parentheses after the last round.

    Fewer seeds than others have are named.
    """
    mine = [row for row in rows if row["rule"] == rule]
    if not mine:
        return ""
    last = statistics.fmean(row["accuracies"][-1] for row in mine)
    mean = statistics.fmean(row["mean_accuracy"] for row in mine)
    most = len({row["seed"] for row in rows})
    seeds = "" if len(mine) == most else f", {len(mine)} of {most} seeds"
    return f"{100 * mean:.1f} ({100 * last:.1f}){seeds}"


def against_random(rows: Sequence[Mapping[str, Any]], rule: str) -> str:
    """Mean difference over graphs and seeds in points, with its 95% interval."""
    found = {
        (row["graph"], row["seed"], row["rule"]): row["mean_accuracy"]
        for row in rows
        if row["rule"] in (rule, "random")
    }
    pairs = [
        (value, found[graph, seed, "random"])
        for (graph, seed, name), value in found.items()
        if name == rule and (graph, seed, "random") in found
    ]
    if rule == "random" or not pairs:
        return ""
    gap = paired_difference(*zip(*pairs, strict=True))
    between = "" if gap.low is None else f" ({100 * gap.low:+.1f} to {100 * (gap.high or 0):+.1f})"
    return f"{100 * gap.mean:+.1f}{between}"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--graph", action="append", choices=GRAPHS, help="may be repeated")
    parser.add_argument("--rule", action="append", choices=RULES, help="may be repeated")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--table", action="store_true", help="print what there is, run nothing")
    options = parser.parse_args()
    settings = {
        "train_per_class": TRAIN_PER_CLASS, "valid_per_class": VALID_PER_CLASS, "rounds": ROUNDS,
        "picks_per_class": PICKS_PER_CLASS,
    }  # fmt: skip
    results = Results(RESULTS / "suggest.json", settings)
    if not options.table:
        use_one_thread()
        fill(results, options)
    console.print("\n".join(tables(results.rows)), soft_wrap=True, markup=False)


if __name__ == "__main__":
    main()
