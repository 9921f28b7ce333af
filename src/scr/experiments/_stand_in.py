"""A generated graph in the place of a data set, and a recipe's settings scaled down to it.

OGB's graphs cannot be had everywhere, and take hours each. A stand-in keeps what decides how a
recipe behaves: classes and their imbalance, columns, the share of labeled nodes, hops, directions,
types and relations, and the steps of an epoch. One rule makes the settings of all recipes:

1. Nodes, edges and rows of a batch are divided by one divisor per data set, so that an epoch has as
   many steps as on the data set. But a batch keeps `LEAST_BATCH` labeled rows, or about as many
   where it is a subgraph: gradients and statistics of fewer are another method's.
2. Hidden widths are divided by `WIDTHS`, down to `LEAST_WIDTH`.
3. All that is counted in epochs is divided by one factor per recipe. The learning rate is
   multiplied by it, so that rate times steps is as on the data set, and decays of averages over
   steps are raised to its power. The factor makes a stage take about `STEPS` steps with all
   unlabeled nodes, leaves every stage `LEAST_EPOCHS` epochs, and makes no rate larger than
   `LARGEST_RATE`. Where an epoch has fewer steps than on the data set by the first rule, decays
   follow as well, and the rate by the square root, as Adam's does with larger batches.

Thresholds, temperatures, weights, dropout, layers, hops and Correct and Smooth stay as they are.
The graphs were made as hard as they are by the accuracy of recipes without regularizer alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from scr.graph import Graph, open_store
from scr.propagation import cached_hops_path, kept_rows, load_cached_hops, propagate
from scr.recipes import PublishedRecipe
from scr.storage import disk_errors, one_at_a_time
from scr.synth import CommunityConfig, Links, community_graph
from scr.training import Recipe, Tables, fixed_mixture, merge, node_features

WIDTHS, LEAST_WIDTH = 8, 64
CLUSTERS = 16
"""By what clusters of a graph are divided; the divisor of nodes would leave a few dozen."""
STEPS = 1000
LEAST_EPOCHS = 6
LEAST_BATCH = 64
LARGEST_RATE = 0.01
PROPORTIONAL = "proportional"
IN_EPOCHS = {
    "training": ("epochs", "evaluate_every", "patience"),
    "consistency": ("warmup", "refresh", "weight_ramp"),
}
"""Settings that are counted in epochs, beside those of stages."""
FILE_FEATURES = 768
"""Columns of GIANT's features, the only ones that recipes want from a file."""
GRAPH = "graph"
"""The folder of a stand-in that is stored."""


@dataclass(frozen=True, kw_only=True)
class DatasetFacts:
    """A data set at its own size, and by what its stand-in is smaller."""

    divisor: float
    graph: CommunityConfig
    """Sizes as https://ogb.stanford.edu/docs/nodeprop/ has them; the rest decides how hard the
    generated graph is."""
    labeled_rows: bool = False
    """Keep hops of labeled nodes only, as the official code does: unlabeled nodes are then those
    of validation and test."""

    def scaled(self, features: int) -> CommunityConfig:
        """The stand-in's graph."""

        def size(count: int) -> int:
            return math.ceil(count / self.divisor)

        real = self.graph
        nodes, train, valid = size(real.nodes), size(real.train), size(real.valid)
        return replace(
            real,
            name=stand_in_name(real.name),
            nodes=nodes,
            others={kind: size(count) for kind, count in real.others.items()},
            links=tuple(replace(each, edges=size(each.edges)) for each in real.links),
            features=features,
            train=train,
            valid=valid,
            # Rounding up three times may give one node too many.
            test=min(size(real.test), nodes - train - valid),
        )


_DATASETS = (
    DatasetFacts(
        divisor=256,
        graph=CommunityConfig(
            name="ogbn-products",
            nodes=2_449_029, train=196_615, valid=39_323, test=2_213_091,
            features=100, classes=47,
            links=(
                Links(source="node", name="edge", target="node", edges=61_859_140, within=0.98),
            ),
            class_exponent=1.0, groups=12, likeness=0.85, prototypes=4,
            communities=300, mixed=0.5, label_noise=0.02, signal=6.0,
        ),
    ),
    DatasetFacts(
        divisor=125,
        graph=CommunityConfig(
            name="ogbn-mag",
            target="paper",
            nodes=736_389, train=629_571, valid=64_879, test=41_939,
            others={"author": 1_134_649, "institution": 8_740, "field_of_study": 59_965},
            features=128, classes=349,
            links=(
                Links(source="author", name="affiliated_with", target="institution",
                      edges=1_043_998, within=0.3),
                Links(source="author", name="writes", target="paper", edges=7_145_660, within=0.8),
                Links(source="paper", name="cites", target="paper", edges=5_416_271, within=0.5),
                Links(source="paper", name="has_topic", target="field_of_study",
                      edges=7_505_078, within=0.6),
            ),
            class_exponent=0.7, groups=60, likeness=0.6, prototypes=4,
            communities=450, mixed=0.35, label_noise=0.02, signal=8.0,
        ),
    ),
    DatasetFacts(
        divisor=250,
        graph=CommunityConfig(
            name="ogbn-papers100M",
            nodes=111_059_956, train=1_207_179, valid=125_265, test=214_338,
            features=128, classes=172,
            links=(
                Links(source="node", name="edge", target="node", edges=1_615_685_872, within=0.72),
            ),
            directed=True,
            class_exponent=0.7, groups=40, likeness=0.6, prototypes=4,
            communities=300, mixed=0.4, label_noise=0.02, signal=10.0,
        ),
        labeled_rows=True,
    ),
)  # fmt: skip
FACTS = {facts.graph.name: facts for facts in _DATASETS}


@dataclass(frozen=True)
class StandIn:
    """What to run instead of a recipe on its data set."""

    graph: CommunityConfig
    settings: dict[str, dict[str, Any]]
    """Tables to be laid over the recipe."""
    notes: list[str]
    """How the settings were made, in sentences."""


class _Epoch(NamedTuple):
    """Steps of an epoch: over labeled nodes alone, and with all unlabeled nodes beside them."""

    labeled: int
    most: int


def stand_in_of(recipe: PublishedRecipe) -> StandIn:
    """The graph and the settings that stand in for a recipe's own.

    Recipes of one data set get the same edges, labels and splits.
    """
    facts = FACTS[recipe.dataset]
    columns = facts.graph.features if recipe.features is None else FILE_FEATURES
    graph = facts.scaled(columns)
    batch = _batch_settings(recipe, facts, graph)
    real = _epoch(recipe.tables, facts, facts.graph)
    ours = _epoch(merge(recipe.tables, batch), facts, graph)
    fewer = real.labeled / ours.labeled
    factor = _factor(recipe.tables, ours, fewer)
    hidden = int(recipe.tables["encoder"]["hidden"])
    width = max(min(LEAST_WIDTH, hidden), hidden // WIDTHS)
    settings = merge(batch, {"encoder": {"hidden": width}}, _time_settings(recipe, factor, fewer))
    notes = [
        f"A generated graph stands in for {recipe.dataset}, with 1/{facts.divisor:g} of its nodes "
        "and edges: the measured number says nothing about the published one",
        f"An epoch has {ours.labeled:,} steps over training nodes "
        f"({real.labeled:,} on {recipe.dataset}); widths are divided by {WIDTHS}, down to "
        f"{LEAST_WIDTH}, and all that is counted in epochs by {factor:.3g}",
    ]
    return StandIn(graph, settings, notes)


def stand_in_name(dataset: str) -> str:
    """What the graph that stands in for a data set is called."""
    return f"{dataset} stand-in"


def stand_in_for(
    recipe: PublishedRecipe, folder: Path, settings: Tables | None = None
) -> tuple[Graph, dict[str, Any], list[str]]:
    """The generated graph that stands in for a recipe's data set, and what changes with it.

    Args:
        recipe: What to run.
        folder: Where a graph is stored whose hops are kept for labeled nodes only.
        settings: Tables of the user's own; they win over those of the stand-in.

    Returns:
        The graph, the settings and the remarks to call `reproduce` with.
    """
    stand_in = stand_in_of(recipe)
    graph, changes = community_graph(stand_in.graph), merge(stand_in.settings, settings or {})
    if FACTS[recipe.dataset].labeled_rows:
        path = folder / GRAPH
        with disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        with one_at_a_time(path):
            if not path.exists() or open_store(path).fingerprint() != graph.fingerprint():
                graph.save(path, overwrite=True)
            graph = open_store(path)
            _keep_labeled_hops(graph, Recipe.from_tables(merge(recipe.tables, changes)))
    return graph, changes, stand_in.notes


def _keep_labeled_hops(graph: Graph, recipe: Recipe) -> None:
    """What `scr propagate --rows labeled` does, with the settings of a recipe."""
    config = recipe.propagation
    if config.hops == 0 or fixed_mixture(recipe) is not None:
        return
    features = node_features(graph, recipe.data)
    identity, rows = features.fitted.identity, kept_rows(graph, "labeled")
    if load_cached_hops(graph, config, identity, nodes=rows) is None:
        propagate(
            graph, config.hops, config.norm, config.self_loops, config.direction, config.dtype,
            features=features.matrix(), rows=rows,
            out=cached_hops_path(graph, config, identity, rows), overwrite=True,
        )  # fmt: skip


def _batch_settings(
    recipe: PublishedRecipe, facts: DatasetFacts, graph: CommunityConfig
) -> dict[str, dict[str, Any]]:
    """Rows of a step, divided as nodes are."""
    training, encoder = recipe.tables["training"], recipe.tables["encoder"]
    whole = training["batch_size"] >= facts.graph.train

    def rows(count: int) -> int:
        return max(LEAST_BATCH, round(count / facts.divisor))

    settings: dict[str, dict[str, Any]] = {
        "training": {"batch_size": graph.train if whole else rows(training["batch_size"])},
        "encoder": {},
    }
    if training.get("unlabeled_per_batch", PROPORTIONAL) != PROPORTIONAL:
        settings["training"]["unlabeled_per_batch"] = rows(training["unlabeled_per_batch"])
    nodes = LEAST_BATCH * graph.nodes / graph.train  # of which as many are labeled
    if "roots" in encoder:
        least = math.ceil(nodes / (encoder["walk_length"] + 1))
        settings["encoder"]["roots"] = max(least, round(encoder["roots"] / facts.divisor))
    if "clusters" in encoder:
        clusters = round(encoder["clusters"] / CLUSTERS)
        least = math.ceil(nodes * clusters / graph.nodes)
        settings["encoder"] |= {
            "clusters": clusters,
            "clusters_per_batch": max(least, round(encoder["clusters_per_batch"] / CLUSTERS)),
        }
    return settings


def _epoch(tables: Mapping[str, Any], facts: DatasetFacts, graph: CommunityConfig) -> _Epoch:
    """Steps of an epoch with some settings, on the data set's graph or its stand-in."""
    encoder, batch = tables["encoder"], tables["training"]["batch_size"]
    if "clusters" in encoder:
        fixed = math.ceil(encoder["clusters"] / encoder["clusters_per_batch"])
        return _Epoch(fixed, fixed)
    if "steps" in encoder:
        return _Epoch(encoder["steps"], encoder["steps"])
    steps = math.ceil(graph.train / batch)
    if tables["training"].get("unlabeled_per_batch", PROPORTIONAL) != PROPORTIONAL:
        return _Epoch(steps, steps)
    rows = graph.train + graph.valid + graph.test if facts.labeled_rows else graph.nodes
    # Every step needs a labeled row.
    return _Epoch(steps, min(math.ceil(rows / batch), graph.train))


def _stage_epochs(tables: Mapping[str, Any]) -> list[int]:
    """Epochs of every stage."""
    stages, epochs = tables.get("stages", {}), tables["training"]["epochs"]
    own = stages.get("epochs", epochs)
    return list(own) if isinstance(own, list | tuple) else [own] * stages.get("count", 1)


def _factor(tables: Mapping[str, Any], epoch: _Epoch, fewer: float) -> float:
    """By what epochs are divided, whose steps are fewer already; see `_time_settings`."""
    stages = _stage_epochs(tables)
    warmup = tables.get("consistency", {}).get("warmup", 0)
    supervised_alone = tables.get("stages", {}).get("first") == "supervised"
    steps = 0
    for number, epochs in enumerate(stages, 1):
        acts = number > 1 or (tables["regularizer"] != "none" and not supervised_alone)
        before = min(epochs, warmup) if acts and number == 1 else 0 if acts else epochs
        steps += before * epoch.labeled + (epochs - before) * epoch.most
    wanted = steps / (STEPS * len(stages))
    largest = LARGEST_RATE / (float(tables["training"]["learning_rate"]) * math.sqrt(fewer))
    return max(1.0, min(wanted, largest, min(stages) / LEAST_EPOCHS))


def _time_settings(
    recipe: PublishedRecipe, factor: float, fewer: float
) -> dict[str, dict[str, Any]]:
    """All that is counted in epochs, divided by a factor, or in steps.

    An epoch has `fewer` times fewer steps where batches could not be as small as the graph is; with
    batches so much larger, Adam's rate grows by the square root.
    """

    def epochs(count: int) -> int:
        return max(1, round(count / factor)) if count else 0

    tables = recipe.tables
    changes: dict[str, dict[str, Any]] = {
        section: {name: epochs(table[name]) for name in IN_EPOCHS[section] if name in table}
        for section, table in tables.items()
        if section in IN_EPOCHS
    }
    rate = tables["training"]["learning_rate"]
    # A recipe's own rate may be larger.
    changes["training"]["learning_rate"] = max(
        rate, min(rate * factor * math.sqrt(fewer), LARGEST_RATE)
    )
    for section, name in (("training", "average_decay"), ("consistency", "decay")):
        decay = tables.get(section, {}).get(name)
        if decay is not None:
            changes[section][name] = decay ** (factor * fewer)
    if "epochs" in tables.get("stages", {}):
        changes["stages"] = {"epochs": [epochs(count) for count in _stage_epochs(tables)]}
    return {section: table for section, table in changes.items() if table}
