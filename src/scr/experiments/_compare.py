"""Encoders times regularizers times seeds on one graph, and what carries the best predictions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from scr.errors import PairError
from scr.experiments._runner import Runner, Task
from scr.report import ComparisonRow, best_on_validation, compare_runs, inactive_note

COMPARE_JSON = "compare.json"


def plan(
    encoders: Sequence[str],
    regularizers: Sequence[str],
    seeds: Sequence[int],
    *,
    layers: Sequence[Mapping[str, Any]] = (),
    preset: str = "auto",
) -> list[Task]:
    """All combinations, those that share hops next to each other."""
    settings = tuple(dict(layer) for layer in layers)
    return [
        Task(encoder, regularizer, seed, settings, preset)
        for encoder in encoders
        for seed in seeds
        for regularizer in regularizers
    ]


def compare(runner: Runner, tasks: Iterable[Task]) -> dict[str, Any]:
    """Run all tasks and summarize them.

    Tasks of an encoder and a regularizer that do not go together are left out, which a note says.

    Returns:
        The content of `compare.json`: `graph`, `notes`, `runs`, `rows`, `explanation`.

    Raises:
        PairError: No task is left.
    """
    tasks, notes = _without_misfits(runner, list(tasks))
    # Which pair is best is known at the end only, and then its encoder is gone.
    first = min((task.seed for task in tasks), default=0)
    runs = runner.run(replace(task, explain=task.seed == first) for task in tasks)
    # All runs are on one graph, so rows need not name it.
    rows = compare_runs([{**run, "graph": None} for run in runs])
    inactive = inactive_note(rows)
    content = {
        "notes": notes if inactive is None else [*notes, inactive],
        "runs": [{name: run[name] for name in run if name != "explanation"} for run in runs],
        "rows": rows,
        "explanation": best_explanation(runs, rows),
    }
    return runner.result(COMPARE_JSON, content)


def _without_misfits(runner: Runner, tasks: Sequence[Task]) -> tuple[list[Task], list[str]]:
    """Tasks whose encoder and regularizer go together, and a sentence on each of the others."""
    pairs = {(task.encoder, task.regularizer): task for task in tasks}
    misfits: dict[tuple[str, str], PairError] = {}
    for pair, task in pairs.items():
        try:
            runner.recipe_of(task)
        except PairError as error:
            misfits[pair] = error
    if misfits and len(misfits) == len(pairs):
        raise next(iter(misfits.values()))
    by_regularizer: dict[str, list[PairError]] = {}
    for misfit in misfits.values():
        by_regularizer.setdefault(misfit.regularizer, []).append(misfit)
    notes = [
        f"Left out `{regularizer}` with {', '.join(error.encoder for error in errors)}: it "
        f"{errors[0].reason}, as in {errors[0].fitting}"
        for regularizer, errors in by_regularizer.items()
    ]
    return [task for task in tasks if (task.encoder, task.regularizer) not in misfits], notes


def best_explanation(
    runs: Iterable[Mapping[str, Any]], rows: Iterable[ComparisonRow]
) -> dict[str, Any] | None:
    """What carries the predictions of the pair that is best on validation nodes.

    None where the pair has no explained run, such as one that an older version has kept.
    """
    measured = [row for row in rows if row["valid_mean"] is not None]
    if not measured:
        return None
    best = best_on_validation(measured)
    for run in runs:
        same = (run["encoder"], run["regularizer"]) == (best["encoder"], best["regularizer"])
        if same and run.get("explanation"):
            return {**run["explanation"], "regularizer": run["regularizer"], "seed": run["seed"]}
    return None
