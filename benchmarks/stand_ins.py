"""Every recipe, scaled down, on a generated graph in the place of its data set: does it run whole?

    python benchmarks/stand_ins.py --jobs 2

What `scr reproduce NAME --stand-in` runs, over the same seeds for all recipes. Each recipe is
compared with its baseline on the same graph: the row of the same encoder and features without the
regularizer (RLU without SCR for RLU+SCR) or, where no row is published, the recipe itself
without its term. Two recipes that differ by Correct and Smooth alone are trained once. Rows are
resumed one by one, and seeds within a row. Writes results/stand_ins.json. Accuracies say nothing
about the published ones.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import multiprocessing
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from code_version import is_current
from harness import HERE, RESULTS, Results, console
from scr.experiments import Runner, reproduce, stand_in_for
from scr.experiments._stand_in import FACTS, GRAPH
from scr.recipes import PublishedRecipe, read_recipe, recipe_names

FILE = "stand_ins.json"
WITHOUT = {"scr": "base", "scr-m": "base", "rlu": "base", "sle": "base", "rlu-scr": "rlu"}
"""The method that a method is compared with."""
NO_TERM = " without its term"
"""Ends the name of a recipe whose regularizer was taken away."""
KEPT = (
    "seed", "valid_accuracy", "test_accuracy", "balanced_accuracy", "train_seconds", "epochs",
    "best_epoch", "consistency", "notes",
)  # fmt: skip
"""What is recorded of a run."""


def architecture(recipe: PublishedRecipe) -> str:
    """As the paper's table names it: `GAMLP`."""
    return recipe.published.row.split(" | ")[1]


def without_term(recipe: PublishedRecipe) -> PublishedRecipe:
    """The same recipe, supervised or in stages, without its regularizer."""
    tables = {key: value for key, value in recipe.tables.items() if key != "consistency"}
    return dataclasses.replace(
        recipe, name=recipe.name + NO_TERM, tables={**tables, "regularizer": "none"}
    )


def baseline(recipe: PublishedRecipe, others: Iterable[PublishedRecipe]) -> PublishedRecipe | None:
    """What a recipe is compared with; none for baselines, and for SLE without a published base."""
    wanted = WITHOUT.get(recipe.method)
    if wanted is None:
        return None

    # papers100M's rows name one architecture and have two: JK attention over 12 hops with SCR,
    # recursive attention over 6 without. Of such a pair, the term is not the only difference.
    def described(each: PublishedRecipe) -> tuple[Any, ...]:
        encoder = each.tables["encoder"]["name"]
        return each.dataset, architecture(each), encoder, each.features, each.smoothed

    fitting = [
        each
        for each in others
        if described(each) == described(recipe) and each.method == wanted and not each.as_code
    ]
    # A row of the same table first: both were run by the same people.
    fitting.sort(key=lambda each: each.published.table != recipe.published.table)
    if fitting:
        return fitting[0]
    return None if recipe.regularizer == "none" else without_term(recipe)


def plan(names: Iterable[str]) -> dict[str, tuple[PublishedRecipe, str | None]]:
    """Recipes to run, each with the name of its baseline; baselines that were not named come along.

    Args:
        names: Of recipes of the catalog.
    """
    everyone = [read_recipe(name) for name in recipe_names()]
    found: dict[str, tuple[PublishedRecipe, str | None]] = {}
    waiting = [read_recipe(name) for name in names]
    while waiting:
        recipe = waiting.pop(0)
        if recipe.name in found:
            continue
        base = baseline(recipe, everyone)
        found[recipe.name] = recipe, None if base is None else base.name
        waiting += [] if base is None else [base]
    return found


def trained_once(recipes: Iterable[PublishedRecipe]) -> list[list[PublishedRecipe]]:
    """Groups of recipes that differ by Correct and Smooth at most, the smoothed one first."""
    groups: dict[str, list[PublishedRecipe]] = {}
    for recipe in recipes:
        tables = {key: value for key, value in recipe.tables.items() if key != "postprocess"}
        key = json.dumps([recipe.dataset, recipe.features, tables], sort_keys=True)
        groups.setdefault(key, []).append(recipe)
    return [sorted(group, key=lambda each: not each.smoothed) for group in groups.values()]


def run(
    recipes: Sequence[PublishedRecipe], seeds: int, work: Path, divisor: float | None = None
) -> dict[str, dict[str, Any]]:
    """All seeds of recipes that are trained once; rows by their names."""
    recipe = recipes[0]
    if divisor is not None:
        FACTS[recipe.dataset] = dataclasses.replace(FACTS[recipe.dataset], divisor=divisor)
    folder = work / recipe.name.replace(" ", "-")
    started = time.process_time()
    graph, settings, remarks = stand_in_for(recipe, folder)
    runner = Runner(graph, out=folder)
    result = reproduce(recipe, runner, runs=seeds, settings=settings, remarks=remarks)
    unlabeled = graph.num_targets - len(graph.train)
    if (folder / GRAPH).exists():  # some hundred megabytes, and made again in seconds
        unlabeled = len(graph.valid) + len(graph.test)
        shutil.rmtree(folder / GRAPH)
    seconds = round(time.process_time() - started, 1)
    return {
        each.name: {
            "dataset": each.dataset,
            "method": each.method,
            "published": each.published.test_accuracy,
            "graph": result["graph"],
            "changes": settings,
            "remarks": remarks,
            "trained_as": recipe.name,
            "processor_seconds": seconds,
            "runs": [kept(record, unlabeled, each.smoothed) for record in result["runs"]],
        }
        for each in recipes
    }


def kept(record: Mapping[str, Any], unlabeled: int, smoothed: bool) -> dict[str, Any]:
    """What is recorded of a run.

    Args:
        record: As in `runs.jsonl`.
        unlabeled: Nodes that may take part in a term on unlabeled nodes.
        smoothed: Whether accuracies are those after Correct and Smooth.
    """
    row = {name: record[name] for name in KEPT if name in record}
    if smoothed:
        names = ("valid_accuracy", "test_accuracy", "balanced_accuracy")
        row |= {name: record["smooth"][name] for name in names}
    nodes = record.get("confident_nodes")
    if nodes:
        places = {"first": nodes[0], "median": sorted(nodes)[len(nodes) // 2], "last": nodes[-1]}
        row["confident"] = {name: round(count / unlabeled, 4) for name, count in places.items()}
    return row


def _is_there(results: Results, name: str) -> bool:
    """Whether a recipe has a row that holds for the code as it is."""
    row = results.find(name=name)
    return row is not None and is_current(row, results.code)


def one_thread() -> None:
    """Set up a process: small runs gain nothing from more."""
    import numba
    import torch

    torch.set_num_threads(1)
    numba.set_num_threads(1)


def main() -> None:
    """Run every recipe that has no row yet."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--recipe", action="append", help="instead of all; may be repeated")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2, help="recipes at once, one thread each")
    parser.add_argument("--divisor", type=float, help="other sizes; give another --out as well")
    parser.add_argument("--work", type=Path, default=HERE / ".cache" / "stand-ins")
    parser.add_argument("--out", type=Path, default=RESULTS / FILE)
    options = parser.parse_args()
    settings = {"seeds": options.seeds}
    if options.divisor is not None:
        settings["divisor"] = options.divisor
    results = Results(options.out, settings)
    planned = plan(options.recipe or recipe_names())
    missing = [name for name in planned if not _is_there(results, name)]
    for row in results.rows:  # written with the next row
        row["baseline"] = planned[row["name"]][1] if row["name"] in planned else row["baseline"]
    groups = trained_once(planned[name][0] for name in missing)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=context, initializer=one_thread) as pool:
        futures = [
            pool.submit(run, group, options.seeds, options.work, options.divisor)
            for group in groups
        ]
        for number, future in enumerate(as_completed(futures), 1):
            for name, values in future.result().items():
                row = results.add({"name": name}, {"baseline": planned[name][1], **values})
                tests = " ".join(f"{100 * record['test_accuracy']:.1f}" for record in row["runs"])
                console.print(
                    f"{number}/{len(groups)} {name}: {tests}, {row['processor_seconds']:.0f} s",
                    soft_wrap=True,
                )


if __name__ == "__main__":
    main()
