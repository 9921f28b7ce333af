"""`effort="best"`: a portfolio is raced over folds of the labels, and the best are averaged.

The answer is a run directory like any other (`scr.prediction` reads its `ensemble.json`), in which
every known label has trained some model and has scored the others.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from scr import runs
from scr.compute import peak_bytes
from scr.engines import Engine, opened
from scr.errors import ConfigError, RunError
from scr.graph import Graph, check_graph
from scr.metrics import ACCURACY, METRICS, MetricsInParts
from scr.prediction import (
    ENSEMBLE,
    EnsemblePredictor,
    ProbabilityColumns,
    WeightedModel,
    read_ensemble,
    write_breakdown,
    write_run_suggestions,
)
from scr.prediction.calibration import Calibration, write_calibration
from scr.storage import one_at_a_time
from scr.training import TermGain, check_trainable
from scr.tuning._folds import fold_graphs
from scr.tuning._portfolio import portfolio
from scr.tuning._race import Clock, Race, Shared, held_out
from scr.tuning._refine import refine
from scr.tuning._trials import TIMES, TIMES_FIELDS, Trial
from scr.tuning._weights import chosen_members

TIME_LIMIT = 600.0
"""Seconds, by default."""
MODELS = "models"


@dataclass(frozen=True)
class Effort:
    """How much is tried, for how long, and by how many processes."""

    time_limit: float | None = TIME_LIMIT
    """Seconds; none: until every round is finished."""
    jobs: int = 0
    """Processes; 0: one for each core."""
    engine: Engine | str = "local"
    """Where trials run, `local` or `ray`; an open engine has its own number of processes."""
    portfolio: Mapping[str, Mapping[str, Any]] | None = None
    """Members by name, in this order; none: those that come with the package."""
    on_trial: Callable[[Trial, float, float], None] | None = None
    """Called after each trial with its score and the best one so far."""
    on_interrupt: Literal["answer", "stop"] = "answer"
    """Whether a KeyboardInterrupt ends the search with what was found, or is raised."""

    def __post_init__(self) -> None:
        if self.time_limit is not None and not self.time_limit > 0:
            raise ConfigError("time_limit", self.time_limit, "a positive number of seconds")


def tune(
    graph: Graph,
    out: Path,
    effort: Effort,
    *,
    layers: Sequence[Mapping[str, Any]] = (),
    regularizer: str | None = None,
    preset: str = "auto",
    seed: int = 0,
    device: str = "cpu",
    source: str | None = None,
    command: str | None = None,
    resume: bool = False,
    probabilities: ProbabilityColumns | None = None,
) -> EnsemblePredictor:
    """Try a portfolio of settings, average the best, and write the run.

    Trials are kept in the run directory as they finish: a call with `resume` uses them. A
    KeyboardInterrupt ends the search, and what is finished is the answer.

    Args:
        graph: With features, labels, training nodes and perhaps validation nodes.
        out: The run directory.
        effort: How much is tried.
        layers: Settings that every member keeps.
        regularizer: The only one, if it is named.
        preset: As of `NodeClassifier`.
        seed: Decides folds, initial weights, batches and dropout.
        device: Where torch computes.
        source: Where the graph can be loaded from again.
        command: As it was typed.
        resume: Continue a run that was stopped.
        probabilities: Columns of the predictions.
    """
    clock = Clock(time.time(), effort.time_limit)
    graphs = fold_graphs(check_graph(graph), seed=seed)
    members = portfolio(
        graphs[0], layers=layers, regularizer=regularizer, preset=preset, tables=effort.portfolio
    )
    first = members[0].recipe
    if first.stages.active:
        raise ConfigError("stages.method", first.stages.method, '`none` with effort="best"')
    if first.training.inductive:
        raise ConfigError("training.inductive", True, 'false with effort="best"')
    check_trainable(graphs[0], first)
    run = runs.describe_run(
        graph,
        first,
        seed=seed,
        source=source or _source(graph),
        command=command,
        threads=torch.get_num_threads(),
    )
    with one_at_a_time(out):
        if resume and (out / runs.METRICS).exists() and (out / ENSEMBLE).exists():
            return _finished(out, graph, seed, device)
        runs.start_run(out, run, resume=resume)
        # Workers of another machine see the same folder by its whole name.
        shared = Shared(graphs, (out / MODELS).absolute(), seed=seed, device=device)
        race = Race(shared, clock, METRICS[first.training.metric])
        if effort.on_trial is not None:
            race = replace(race, on_trial=_watched(effort.on_trial, race))
        trials: list[Trial] = []
        try:
            with opened(effort.engine, jobs=effort.jobs) as engine:
                race = replace(race, engine=engine)
                trials = race.run(members)
                trials = refine(race, trials)
        except KeyboardInterrupt:
            if effort.on_interrupt == "stop":
                raise
            found = [Trial.read(each, shared.folder / each.name) for each in members]
            trials = trials or race.ranked(found)
            if not trials:
                raise
        if not trials:
            raise RunError(
                "No setting could be trained to its end; expected at least one",
                hint="give more time, or `scr train` for a single model",
            )
        return _write(graph, out, race, trials, run, probabilities)


def _finished(out: Path, graph: Graph, seed: int, device: str) -> EnsemblePredictor:
    """The answer of a call before this one, if that was for the same graph and seed."""
    before = runs.read_run(out)
    if before["graph"]["fingerprint"] != graph.fingerprint():
        raise RunError(
            f"The run in `{out}` was made with another graph; expected the same",
            hint="choose another folder",
        )
    if before["seed"] != seed:
        raise RunError(
            f"The run in `{out}` was made with another seed: seed was {before['seed']}, is {seed}; "
            "expected the same",
            hint="choose another folder",
        )
    # The run may have been killed after its last result and before this.
    _remove_unused(out, read_ensemble(out) or [])
    return read_tuned(out, graph, device=device)


def read_tuned(out: Path, graph: Graph | None = None, *, device: str = "cpu") -> EnsemblePredictor:
    """The ensemble of a finished run."""
    models = read_ensemble(out)
    if models is None:
        raise RunError(f"The run in `{out}` is of one model; expected one with {ENSEMBLE}")
    return EnsemblePredictor(out, models, graph, device=device)


def _source(graph: Graph) -> str | None:
    """Where the graph can be loaded from again."""
    return graph.source or (None if graph.path is None else str(graph.path.resolve()))


def _watched(
    on_trial: Callable[[Trial, float, float], None], race: Race
) -> Callable[[Trial], None]:
    """Tells of a trial, its score, and the best one so far."""
    best = -math.inf

    def watch(trial: Trial) -> None:
        nonlocal best
        if trial.folds:
            score = _score(race, trial)
            best = max(best, score)
            on_trial(trial, score, best)

    return watch


def _write(
    graph: Graph,
    out: Path,
    race: Race,
    trials: Sequence[Trial],
    run: dict[str, Any],
    probabilities: ProbabilityColumns | None,
) -> EnsemblePredictor:
    """Choose members, and write all files of the run, `metrics.json` last."""
    most = len(trials[0].folds)
    folds = sorted(trials[0].folds)
    equal = [trial for trial in trials if sorted(trial.folds) == folds]
    labels, _ = held_out(trials[0], race.graphs, folds)
    soft = [held_out(trial, race.graphs, folds)[1] for trial in equal]
    chosen = chosen_members(labels, soft, race.metric)
    models = [
        WeightedModel(f"{MODELS}/{equal[position].member.name}/fold-{fold}", 1 / len(chosen) / most)
        for position in chosen
        for fold in folds
    ]
    held = np.mean([soft[position] for position in chosen], axis=0)
    names = [equal[position].member.name for position in chosen]
    table = [
        {
            "name": trial.member.name,
            "encoder": trial.member.recipe.encoder,
            "regularizer": trial.member.recipe.regularizer,
            "folds": len(trial.folds),
            "score": round(_score(race, trial), 5),
            "handicap": trial.member.handicap if race.metric is ACCURACY else 0.0,
            "seconds": round(trial.seconds, 2),
            "weight": round(1 / len(chosen), 4) if trial.member.name in names else 0.0,
            "settings": trial.member.recipe.tables(),
        }
        for trial in trials
    ]
    content = {
        "schema": 1,
        "metric": race.metric.name,
        "models": [{"folder": each.folder, "weight": each.weight} for each in models],
        "trials": table,
        "folds": len(race.graphs),
        "mattered": what_mattered(table),
        "held_out_labels": len(labels),
        "gain": _gain(equal, labels, soft),
    }
    best = equal[0]
    note = _note(names, most, len(trials), known=len(graph.train) + len(graph.valid))
    calibration = Calibration.of(held, labels.astype(np.int64), "temperature")
    write_calibration(out, calibration)
    record = {  # the recipe stays that of the first member, by which a killed run is known again
        **run,
        "encoder": best.member.recipe.encoder,
        "regularizer": best.member.recipe.regularizer,
        "temperature": calibration.temperature,
        "notes": [note, *calibration.notes],
    }
    runs.write_json(out / ENSEMBLE, content)
    runs.write_json(out / runs.RUN, record)
    runs.write_split(out / runs.SPLIT, graph)
    heaviest = out / models[0].folder
    shutil.copyfile(heaviest / runs.HISTORY, out / runs.HISTORY)
    predictor = EnsemblePredictor(out, models, graph, device=race.shared.device)
    predictor.write_predictions(out / runs.PREDICTIONS, columns=probabilities)
    write_breakdown(out, graph, np.union1d(graph.train, graph.valid))
    runs.write_json(out / runs.EXPLANATION, predictor.explain(None).tables())
    write_run_suggestions(out, predictor)
    test = predictor.metrics("test") if len(predictor.labeled("test")) else None
    measured = MetricsInParts(ranked=race.metric.name == "roc-auc")
    measured.add(labels, calibration.apply(held))
    summary = _summary(race, predictor, trials, measured.measures(), test)
    summary["best_epoch"] = runs.read_json(heaviest / TIMES, TIMES_FIELDS)["best_epoch"]
    runs.finish_run(out, summary, [each.folder for each in models])
    _remove_unused(out, models)
    return predictor


def _remove_unused(out: Path, models: Sequence[WeightedModel]) -> None:
    """Remove trained models that no part of the ensemble is."""
    used = {Path(each.folder).parts[1] for each in models}
    for folder in (out / MODELS).iterdir():
        if folder.name not in used:
            shutil.rmtree(folder)


def _gain(
    trials: Sequence[Trial], labels: NDArray[np.integer[Any]], soft: Sequence[NDArray[np.float32]]
) -> dict[str, float] | None:
    """What the best trial with a term on unlabeled nodes gains over the best without one."""
    best: dict[bool, NDArray[np.integer[Any]]] = {}
    for trial, probabilities in zip(trials, soft, strict=True):
        best.setdefault(trial.member.recipe.regularizer != "none", probabilities.argmax(axis=1))
    return asdict(TermGain.of(labels, best[True], best[False])) if len(best) == 2 else None


def _summary(
    race: Race,
    predictor: EnsemblePredictor,
    trials: Sequence[Trial],
    valid: Mapping[str, float | None],
    test: Mapping[str, float | None] | None,
) -> dict[str, Any]:
    """The content of `metrics.json`; `valid` is measured on held-out labels."""
    encoders = [each.model.encoder for each in predictor.members]
    chosen_metric = {}
    if race.metric is not ACCURACY:
        values = {"valid_metric": valid[race.metric.key]}
        values |= {} if test is None else {"test_metric": test[race.metric.key]}
        chosen_metric = {"metric": race.metric.name, **values}
    return {
        "valid_accuracy": valid["accuracy"],
        "valid_accuracy_is": "on held-out labels",
        "test_accuracy": None if test is None else test["accuracy"],
        "epochs": predictor.model.history[-1]["epoch"],
        "stopped": "epochs",
        "train_seconds": round(sum(trial.seconds for trial in trials), 3),
        "propagate_seconds": 0.0,
        "seconds": round(time.time() - race.clock.started, 3),
        "peak_memory_bytes": peak_bytes(),
        "parameters": sum(w.numel() for each in encoders for w in each.parameters()),
        "nodes": predictor.graph.num_targets,
        "temperature": predictor.model.calibration.temperature,
        **chosen_metric,
        "valid": valid,
        **({} if test is None else {"test": test}),
    }


def _score(race: Race, trial: Trial) -> float:
    """Of held-out labels, without a handicap."""
    return race.scored(trial) + (trial.member.handicap if race.metric is ACCURACY else 0.0)


def _note(names: Sequence[str], folds: int, tried: int, *, known: int) -> str:
    """What the answer is, in a sentence."""
    several = f"the mean of {len(names)} settings, {', '.join(names)}, each"
    settings = several if len(names) > 1 else f"that of one setting, {names[0]},"
    trained = f"trained {folds} times with another part of the {known:,} known labels held out"
    if folds == 1:
        trained = f"trained once with a part of the {known:,} known labels held out"
    return f"The answer is {settings} {trained}; {tried} {'was' if tried == 1 else 'were'} tried"


def what_mattered(trials: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """For each setting that differs: the best score with each of its values."""
    flat = [(_flat(trial["settings"]), trial["score"]) for trial in trials]
    found = []
    for key in sorted({key for settings, _ in flat for key in settings}):
        values: dict[str, float] = {}
        for settings, score in flat:
            if key in settings:
                value = _shown(settings[key])
                values[value] = max(score, values.get(value, -math.inf))
        if len(values) > 1:
            spread = max(values.values()) - min(values.values())
            best = dict(sorted(values.items(), key=lambda pair: -pair[1]))
            found.append({"setting": key, "spread": round(spread, 5), "best": best})
    return sorted(found, key=lambda each: -float(each["spread"]))


def _shown(value: Any) -> str:
    """A setting's value; numbers by two digits, since proposed ones have many."""
    return f"{value:.2g}" if isinstance(value, float) else str(value)


def _flat(tables: Mapping[str, Any]) -> dict[str, Any]:
    plain = {key: value for key, value in tables.items() if not isinstance(value, Mapping)}
    for section, table in tables.items():
        if isinstance(table, Mapping):
            plain |= {f"{section}.{key}": value for key, value in table.items()}
    return plain
