"""Run a row of the paper's tables again and lay the result beside the published one.

A published recipe stands alone: no preset is below it. Seeds are 0, 1, 2...

Reads a `PublishedRecipe` and its graph, writes `reproduce.json`. What keeps the two numbers from
being compared (another graph, changed settings, fewer runs) is said in `notes`, in sentences.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scr.errors import ConfigError, SourceError
from scr.experiments._runner import Runner, Task
from scr.experiments._stand_in import stand_in_name
from scr.features import took_features
from scr.graph import Graph
from scr.recipes import PublishedRecipe
from scr.report import number_or_none, plain
from scr.sources import OGB_DATASETS, IngestOptions, is_finished, load_graph
from scr.training import Tables, merge

REPRODUCE_JSON = "reproduce.json"


def check_runnable(recipe: PublishedRecipe, settings: Tables | None = None) -> None:
    """Raise unless settings leave encoder and regularizer, of which the published number is."""
    changed = merge(recipe.tables, settings or {})
    for setting, own, now in (
        ("encoder.name", recipe.encoder, changed["encoder"]["name"]),
        ("regularizer", recipe.regularizer, changed["regularizer"]),
    ):
        if now != own:
            raise ConfigError(
                setting, now, f"`{own}`, of which the published number is",
                hint="choose another recipe, or train with these settings instead",
            )  # fmt: skip


def load_recipe_graph(
    recipe: PublishedRecipe,
    *,
    graph: str | None = None,
    features: Path | None = None,
    settings: Tables | None = None,
) -> Graph:
    """The graph to run a recipe on.

    Args:
        recipe: Names its data set, and the file of features that it may need.
        graph: A store, a source or a name to be used instead of the data set.
        features: A `.npy` with one row per node, used instead of the graph's own features.
        settings: Tables to be laid over the recipe.

    Raises:
        SourceError: The recipe needs features that its data set does not have.
    """
    both_ways = not _needs_directions(merge(recipe.tables, settings or {}))
    if graph is not None:
        # A finished graph has its edges already, with directions or without.
        symmetrize = both_ways or is_finished(graph)
        return load_graph(graph, options=IngestOptions(features=features, symmetrize=symmetrize))
    if recipe.features is not None and features is None:
        raise SourceError(
            f"`{recipe.name}` was run on `{recipe.features}` instead of the features of "
            f"{recipe.dataset}; expected the path of that file as `features`",
            hint=f"`scr recipes {recipe.name}` says where to get it",
        )
    options = IngestOptions(features=features, symmetrize=both_ways)
    return load_graph(recipe.dataset, options=options)


def reproduce(
    recipe: PublishedRecipe,
    runner: Runner,
    *,
    runs: int | None = None,
    settings: Tables | None = None,
    remarks: Sequence[str] = (),
) -> dict[str, Any]:
    """Run a published recipe over seeds and compare the mean with the published one.

    Args:
        recipe: What to run.
        runner: The graph to run it on, see `load_recipe_graph`, and where runs are kept.
        runs: Seeds 0 to runs - 1; none: as many as were published.
        settings: Tables to be laid over the recipe.
        remarks: Notes of the caller's own, in front of the others.

    Returns:
        The content of `reproduce.json`. `published`, `measured` and `difference` are in percent;
        `runs` are records as in `compare.json`, in 0..1.
    """
    check_runnable(recipe, settings)
    count = recipe.published.runs if runs is None else runs
    tables = merge(recipe.tables, settings or {})
    tasks = [
        Task(recipe.encoder, recipe.regularizer, seed, (tables,), preset="none")
        for seed in range(count)
    ]
    records = runner.run(tasks)
    measured = measure(records)
    published = dataclasses.asdict(recipe.published)
    said = notes(recipe, runner.graph, runs=count, splits=runner.splits, settings=settings)
    content = {
        "recipe": recipe.name,
        "notes": [*remarks, *said],
        "unit": "percent",
        "published": published,
        "measured": measured,
        "difference": {
            name: None if measured[name] is None else measured[name] - published[name]
            for name in ("valid_accuracy", "test_accuracy")
        },
        "settings": tables,
        "runs": records,
    }
    return runner.result(REPRODUCE_JSON, content)


def measure(records: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """Mean and sample standard deviation in percent, after Correct and Smooth where it was done."""
    measured: dict[str, float | None] = {}
    scores = [record.get("smooth", record) for record in records]
    for split in ("valid", "test"):
        known = [number_or_none(score[f"{split}_accuracy"]) for score in scores]
        values = [100 * value for value in known if value is not None]
        measured[f"{split}_accuracy"] = statistics.fmean(values) if values else None
        measured[f"{split}_spread"] = statistics.stdev(values) if len(values) > 1 else None
    return measured


def notes(
    recipe: PublishedRecipe,
    graph: Graph,
    *,
    runs: int,
    splits: str | None = None,
    settings: Tables | None = None,
) -> list[str]:
    """What to know before the measured number is held against the published one, in sentences."""
    said = []
    stands_in = graph.name == stand_in_name(recipe.dataset)  # then remarks say what it is
    if graph.name != recipe.dataset and not stands_in:
        said.append(
            f"The published numbers are for {recipe.dataset}; this graph is `{graph.name}`, "
            "so the difference says nothing about the recipe"
        )
    elif not stands_in and graph.num_targets != OGB_DATASETS[recipe.dataset].nodes:
        said.append(
            f"The published numbers are for {OGB_DATASETS[recipe.dataset].nodes:,} nodes; this "
            f"`{graph.name}` has {graph.num_targets:,}, so the difference says nothing about the "
            "recipe"
        )
    if recipe.features is not None and not (took_features(graph) or stands_in):
        said.append(f"Published with `{recipe.features}`; run on the graph's own features")
    if _needs_directions(merge(recipe.tables, settings or {})) and not graph.directed:
        said.append("The recipe uses the direction of edges; edges have no direction here")
    if splits is not None:
        said.append(f"Seed i uses split i of `{Path(splits).name}`, not the published split")
    changed = [
        f"{section}.{key} = {plain(value)}"
        for section, table in (settings or {}).items()
        for key, value in table.items()
    ]
    if changed:
        said.append(f"Changed from the recipe: {', '.join(changed)}")
    if runs != recipe.published.runs:
        said.append(f"Runs: {runs}; published: {recipe.published.runs}")
    return said


def _needs_directions(tables: Tables) -> bool:
    """Whether edges may not be stored in both directions, because their direction is used."""
    propagation = tables.get("propagation", {})
    return any(propagation.get(key, "both") != "both" for key in ("direction", "label_direction"))
