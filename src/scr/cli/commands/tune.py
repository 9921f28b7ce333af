"""`scr tune`: the best answer within a time, with nothing to set."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from scr import compute, engines, metrics, prediction, report, runs, sources, storage, tuning
from scr.cli import _completion
from scr.cli import _options as option
from scr.cli._console import console, counted, print_line, print_notes, table
from scr.cli._ending import Report, when_stopped
from scr.cli._run import check_out, read_layers, run_folder, shown_command
from scr.errors import ConfigError

_TRIAL_FIELDS: dict[str, Any] = {
    "name": str, "encoder": str, "regularizer": str, "folds": int, "score": float,
    "seconds": float, "weight": float,
}  # fmt: skip
_UNITS = {"s": 1, "m": 60, "h": 3600}


def tune(
    graph: option.GraphSource,
    out: Annotated[Path, typer.Option(help="The run directory to make.")],
    time: Annotated[
        str, typer.Option(help="How long it may take, such as 90s, 10m or 2h; none: no limit.")
    ] = "10m",
    encoder: Annotated[
        str | None,
        typer.Option(
            help="The only encoder to try; see `scr encoders`. [several]",
            autocompletion=_completion.one_of(_completion.ENCODERS),
        ),
    ] = None,
    regularizer: Annotated[
        str | None,
        typer.Option(
            help="The only one to try; see `scr regularizers`. [several]",
            autocompletion=_completion.one_of(_completion.REGULARIZERS),
        ),
    ] = None,
    recipe: option.RecipeFile = None,
    settings: option.Assignments = None,
    preset: option.Preset = "auto",
    metric: option.Metric = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides folds, weights and dropout.")] = 0,
    splits: Annotated[
        str | None, typer.Option(help="A splits file, per-class:20,30 or random:0.1,0.1.")
    ] = None,
    split: Annotated[int | None, typer.Option(help="Which split of the file.")] = None,
    features: option.FeaturesFile = None,
    jobs: Annotated[int, typer.Option(min=0, help="Processes; 0: one for each core.")] = 0,
    engine: option.EngineName = "local",
    address: option.Address = None,
    resume: Annotated[bool, typer.Option(help="Continue a run, or start it.")] = False,
    probabilities: option.Probabilities = "none",
    device: option.Device = "cpu",
    overwrite: option.Overwrite = False,
) -> Report:
    """Try a portfolio of settings for some time and average the best.

    Ctrl-C ends the search, and what was found is the answer.
    """
    from scr.report.page import run_page, write_page

    check_out(out, overwrite=overwrite, finished=runs.METRICS)
    columns = prediction.ProbabilityColumns.parse(probabilities)
    compute.usable_device(device)
    limit = seconds(time)
    layers = read_layers(recipe, settings, preset, metric)
    loaded = sources.load_graph(graph, split=split, splits=splits, features=features)
    named = {"encoder": {"name": encoder}} if encoder else {}
    stopped = "Stopped before anything was found; continue with the same command and --resume."
    with (
        run_folder(out, overwrite=overwrite, resume=resume) as folder,
        when_stopped(stopped),
        engines.open_engine(engine, address, jobs=jobs) as opened,
        counted("Tuning") as show,
    ):

        def on_trial(trial: tuning.Trial, score: float, best: float) -> None:
            folds = f"{len(trial.folds)} fold{'s' * (len(trial.folds) > 1)}"
            state = f"{trial.member.name} {abs(score):.3f} on {folds}, best {abs(best):.3f}"
            show(advance=1, state=state)

        predictor = tuning.tune(
            loaded, folder, tuning.Effort(time_limit=limit, engine=opened, on_trial=on_trial),
            layers=[*layers.tables, named], regularizer=regularizer, preset=layers.preset,
            seed=seed, device=device, source=loaded.source, command=shown_command(),
            resume=resume, probabilities=columns,
        )  # fmt: skip
        summary, counts, notes = predictor.summary(), predictor.metric, predictor.model.notes
        write_page(folder / runs.REPORT, run_page(folder))
    print_notes(notes)
    trials = runs.read_json(out / prediction.ENSEMBLE, {"trials": list[dict[str, Any]]})
    for each in trials["trials"]:
        storage.check_fields(out / prediction.ENSEMBLE, each, _TRIAL_FIELDS)
    _print_trials(trials)
    parts = {"held-out labels": summary.get("valid"), "test nodes": summary.get("test")}
    values = {
        name: report.number_or_none((measured or {}).get(counts.key))
        for name, measured in parts.items()
    }
    shown = [
        f"on {name} {counts.shown(value)}" for name, value in values.items() if value is not None
    ]
    print_line(f"{counts.heading} {', '.join(shown)}, {summary.get('seconds', 0):.0f} s")
    print_line(f"Wrote {out} (page: {out / runs.REPORT})")
    return {
        "run": out, "page": out / runs.REPORT, "metrics": summary,
        "notes": list(notes), "trials": trials["trials"],
    }  # fmt: skip


def seconds(text: str) -> float | None:
    """Read `90s`, `10m`, `2h`, a number of seconds, or `none`.

    >>> seconds("10m")
    600.0
    """
    if text == "none":
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    if found is None or float(found[1]) == 0:
        raise ConfigError("--time", text, "a time such as 90s, 10m or 2h, or none")
    return float(found[1]) * _UNITS[found[2] or "s"]


def _print_trials(content: dict[str, Any]) -> None:
    """What was tried, the best first."""
    metric = metrics.metric_of(content)
    title = f"held-out {metric.title}"
    headings = ("tried", "encoder", "regularizer", "folds", title, "seconds", "weight")
    tried = table(headings, numbers=headings[3:])
    for each in content["trials"]:
        tried.add_row(
            each["name"], each["encoder"], each["regularizer"], str(each["folds"]),
            metric.shown(metric.sign * each["score"]), f"{each['seconds']:.1f}",
            f"{each['weight']:.2f}" if each["weight"] else "",
        )  # fmt: skip
    console.print(tried)
