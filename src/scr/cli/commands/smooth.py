"""`scr smooth`: correct and smooth the predictions of a finished run along the edges."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

import scr
from scr import compute, prediction, runs, storage, training
from scr.cli import _options as option
from scr.cli._console import console, print_line
from scr.cli._ending import Report
from scr.cli._run import section_settings, shown_command
from scr.config import build
from scr.errors import ConfigError, RunError

if TYPE_CHECKING:
    from scr.prediction.smoothing import Smoothed

FOLDER, RECORD = "smooth", "smooth.json"
SECTION = "postprocess"
SEARCHED = ("steps", "correct_alpha", "correct_norm", "scale", "smooth_alpha", "smooth_norm")
"""Settings that the search decides."""


def smooth(
    run: option.FinishedRun,
    labels: Annotated[
        str | None, typer.Option(help="Whose labels to spread: train (default) or train+valid.")
    ] = None,
    search: Annotated[
        bool | None,
        typer.Option("--search/--no-search", help="Choose settings on validation nodes (default)."),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="postprocess.key=value; may be repeated.")
    ] = None,
    probabilities: option.Probabilities = "none",
    overwrite: Annotated[
        bool, typer.Option(help="Replace an earlier result, once the new is whole.")
    ] = False,
    device: option.Device = "cpu",
) -> Report:
    """Correct and smooth a run's predictions along the edges; test labels choose nothing."""
    import numpy as np

    from scr.prediction.smoothing import smooth_predictions

    columns = prediction.ProbabilityColumns.parse(probabilities)
    compute.usable_device(device)
    record = runs.read_run(run)
    config = _config(record["recipe"], settings, labels=labels, search=search)
    if (run / FOLDER).exists() and not overwrite:
        storage.discard_partial_of(run / FOLDER)  # a kill came after the folder had its name
        raise RunError(
            f"`{run / FOLDER}` exists already; expected a run that was not smoothed yet",
            hint="replace it with `--overwrite`",
        )
    with storage.atomic_folder(run / FOLDER, check=_check if overwrite else None) as folder:
        if not (run / runs.METRICS).exists():
            raise RunError(
                f"The run in `{run}` is not finished: it has no {runs.METRICS}",
                hint="continue it with `scr train ... --resume`",
            )
        graph = prediction.load_run_graph(run)
        with console.status("Predicting"):
            # All of them, also of a run whose hops were kept for some: edges lead to the others.
            every = np.arange(graph.num_targets)
            classifier = scr.NodeClassifier.load(run, graph=graph, device=device)
            before = classifier.predictor_.probabilities(every, None)
        # After a refit, no validation node is left to choose settings on.
        graph = training.with_known_labels(graph, classifier.recipe_)
        with console.status("Correcting and smoothing"):
            smoothed = smooth_predictions(graph, before, config, seed=record["seed"])
        prediction.write_predictions(
            folder / runs.PREDICTIONS, graph, lambda nodes: smoothed.probabilities[nodes],
            columns=columns,
        )  # fmt: skip
        result = _record(smoothed, config, record["seed"])
        runs.write_json(folder / RECORD, result)
    console.print(_chosen_line(smoothed, searched=config.search))
    console.print(_accuracies(result))
    print_line(f"Wrote {run / FOLDER} ({RECORD}, {runs.PREDICTIONS})")
    shown = ("settings", "chosen", "valid", "test")
    return {
        "record": run / FOLDER / RECORD, "predictions": run / FOLDER / runs.PREDICTIONS,
        **{key: result[key] for key in shown},
    }  # fmt: skip


def _check(folder: Path) -> None:
    own = dict.fromkeys((RECORD, runs.PREDICTIONS), storage.FILE)
    storage.check_replaced(folder, own, known_by=RECORD)


def _config(
    recipe: dict[str, Any], settings: list[str] | None, *, labels: str | None, search: bool | None
) -> training.PostprocessConfig:
    """The run's own section, if it asks for smoothing, with the options laid over it."""
    given = section_settings(settings, SECTION, f"{SECTION}.key=value")
    options = {"labels": labels, "search": search}
    given |= {key: value for key, value in options.items() if value is not None}
    own = recipe.get(SECTION, {})
    base = own if own.get("method", "none") != "none" else {"method": "correct-and-smooth"}
    config = build(training.PostprocessConfig, {**base, **given}, section=SECTION)
    if config.method == "none":
        raise ConfigError(f"{SECTION}.method", "none", "`correct-and-smooth` for this command")
    if "calibrate" in given:
        raise ConfigError(
            f"{SECTION}.calibrate", given["calibrate"], "no value here, since training decided it"
        )
    decided = next((key for key in given if key in SEARCHED), None)
    if config.search and decided is not None:
        raise ConfigError(
            f"{SECTION}.{decided}", given[decided], "no value here, since the search decides it",
            hint="use your own settings with `--no-search`",
        )  # fmt: skip
    return config


def _record(smoothed: Smoothed, asked: training.PostprocessConfig, seed: int) -> dict[str, Any]:
    """The content of `smooth.json`."""
    from scr.prediction.smoothing import steps_taken

    return {
        "schema": 1,
        "command": shown_command(),
        "seed": seed,
        "asked": asdict(asked),
        "settings": asdict(smoothed.config),
        "chosen": steps_taken(smoothed.config),
        "valid": {
            "nodes": smoothed.valid_nodes,
            "before": smoothed.valid_accuracy_before,
            "after": smoothed.valid_accuracy,
        },
        "test": {"before": smoothed.test_accuracy_before, "after": smoothed.test_accuracy},
        "trials": smoothed.trials,
    }


def _chosen_line(smoothed: Smoothed, *, searched: bool) -> str:
    config, parts = smoothed.config, []
    if config.method == "none":
        return f"Chosen of {len(smoothed.trials)}: nothing, since nothing did better on validation."
    if config.steps != "smooth":
        parts.append(
            f"correct ({config.correct_norm}, alpha {config.correct_alpha:g}, "
            f"scale {config.scale}, {config.correct_hops} hops)"
        )
    if config.steps != "correct":
        parts.append(
            f"smooth ({config.smooth_norm}, alpha {config.smooth_alpha:g}, "
            f"{config.smooth_hops} hops)"
        )
    how = f"Chosen of {len(smoothed.trials)} on validation" if searched else "As asked"
    return f"{how}: {', then '.join(parts)}, labels of {config.labels}."


def _accuracies(record: dict[str, Any]) -> Table:
    table = Table("accuracy", box=None, header_style="bold")
    for heading in ("before", "after"):
        table.add_column(heading, justify="right")
    half = ", held-back half" if record["settings"]["labels"] == "train+valid" else ""
    names = {"valid": f"valid ({record['valid']['nodes']:,} nodes{half})", "test": "test"}
    for split, name in names.items():
        before, after = record[split]["before"], record[split]["after"]
        if before is not None and after is not None:
            table.add_row(name, f"{before:.2%}", f"{after:.2%}")
    return table
