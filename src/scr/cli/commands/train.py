"""`scr train`: one run, watched, stoppable and resumable."""

from __future__ import annotations

import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

import scr
from scr import compute, metrics, prediction, runs, sources, storage, training
from scr.cli import _completion
from scr.cli import _options as option
from scr.cli._console import (
    console,
    counted,
    print_line,
    print_notes,
    print_warning,
    steps_progress,
)
from scr.cli._ending import Report, Stopped, when_stopped
from scr.cli._run import check_out, read_layers, run_folder, shown_command
from scr.errors import InactiveTermWarning, SCRError

if TYPE_CHECKING:
    from scr.graph import Graph
    from scr.metrics import Metric
    from scr.training import EpochRecord, Recipe


def train(
    graph: option.GraphSource,
    out: Annotated[Path, typer.Option(help="The run directory to make.")],
    encoder: Annotated[
        str | None,
        typer.Option(
            help="Such as ssgc, sign or gamlp; see `scr encoders`. [auto]",
            autocompletion=_completion.one_of(_completion.ENCODERS),
        ),
    ] = None,
    regularizer: Annotated[
        str | None,
        typer.Option(
            help="none, scr, scr-m, pi, r-drop, entropy, fixmatch, freematch, softmatch or grand; "
            "see `scr regularizers`. [the recipe's, else scr]",
            autocompletion=_completion.one_of(_completion.REGULARIZERS),
        ),
    ] = None,
    recipe: option.RecipeFile = None,
    settings: option.Assignments = None,
    metric: option.Metric = None,
    refresh_sample: Annotated[
        int | None,
        typer.Option(min=1, help="Unlabeled nodes that a refresh of the confident set scores."),
    ] = None,
    preset: option.Preset = "auto",
    seed: Annotated[int, typer.Option(min=0, help="Decides weights, batches and dropout.")] = 0,
    splits: Annotated[
        str | None,
        typer.Option(help="A splits file, per-class:20,30, per-class:all or random:0.1,0.1."),
    ] = None,
    split: Annotated[int | None, typer.Option(help="Which split of the file.")] = None,
    features: option.FeaturesFile = None,
    refit: Annotated[
        bool, typer.Option("--refit", help="Train once more, with validation labels too.")
    ] = False,
    resume: Annotated[bool, typer.Option(help="Continue a run, or start it.")] = False,
    probabilities: option.Probabilities = "none",
    log: Annotated[
        str | None, typer.Option(help="Log every epoch: tensorboard:FOLDER or mlflow:URI.")
    ] = None,
    device: option.Device = "cpu",
    engine: option.EngineName = "local",
    address: option.Address = None,
    workers: option.Workers = None,
    worker_cores: option.WorkerCores = 1,
    overwrite: option.Overwrite = False,
) -> Report:
    """Train one encoder on one graph."""
    import torch

    from scr.report.page import run_page, write_page

    check_out(out, overwrite=overwrite, finished=runs.METRICS)
    columns = prediction.ProbabilityColumns.parse(probabilities)
    compute.usable_device(device)
    if refresh_sample is not None:
        settings = [*(settings or []), f"consistency.refresh_sample={refresh_sample}"]
    if refit:
        settings = [*(settings or []), "training.refit=true"]
    layers = read_layers(recipe, settings, preset, metric)
    loaded = sources.load_graph(graph, split=split, splits=splits, features=features)
    classifier = scr.NodeClassifier(
        encoder, regularizer, seed=seed, device=device, preset=layers.preset, recipe=layers.tables
    )
    resolved = classifier.resolve(loaded)
    training.check_trainable(loaded, resolved)
    if engine != "local":
        training.check_together(resolved)
    on: dict[str, Any] = {
        "engine": engine, "address": address, "workers": workers, "worker_cores": worker_cores,
    }  # fmt: skip
    run = runs.describe_run(
        loaded, resolved, seed=seed, source=loaded.source, command=shown_command(),
        threads=torch.get_num_threads(),
    )  # fmt: skip
    facts = {
        "run": out, "page": out / runs.REPORT, "encoder": resolved.encoder,
        "regularizer": resolved.regularizer, "preset": resolved.preset, "seed": seed,
    }  # fmt: skip
    with (
        run_folder(out, overwrite=overwrite, resume=resume) as folder,
        storage.one_at_a_time(folder),
    ):
        stopped = f"Stopped; continue with the same command and --resume. Kept in {folder}."
        was_finished = runs.start_run(folder, run, resume=resume)
        if not was_finished:
            console.print(f"Preset {resolved.preset}: {resolved.reason}.")
            with when_stopped(stopped):
                _fit(classifier, loaded, resolved, folder, log, on)
                if classifier.stopped_ == "interrupted":
                    raise Stopped(stopped)
                print_notes(classifier.notes_)
                with steps_progress() as on_progress:
                    classifier.write_into(
                        folder, run, probabilities=columns, on_progress=on_progress
                    )
                write_page(folder / runs.REPORT, run_page(folder))
    if was_finished:
        # The run may have been killed after its last result and before this.
        runs.remove_checkpoints(out)
        runs.verify_run(out)
        if not (out / runs.REPORT).exists():
            write_page(out / runs.REPORT, run_page(out))
        print_line(f"The run in {out} is finished already.")
        return {**facts, "metrics": runs.read_metrics(out)}
    summary = runs.read_metrics(out)
    console.print(score_line(summary))
    if classifier.inactive_:
        print_warning(
            f"{resolved.regularizer} had no part in this result, which is that of the base; the "
            "note above says why"
        )
    print_line(f"Wrote {out} (page: {out / runs.REPORT})")
    return {**facts, "metrics": summary, "notes": classifier.notes_}


def _fit(
    classifier: scr.NodeClassifier,
    graph: Graph,
    recipe: Recipe,
    folder: Path,
    log: str | None,
    on: dict[str, Any],
) -> None:
    """Train, watched and stoppable, with checkpoints in the folder of the run.

    Where it is trained, `on`, is as of `NodeClassifier.fit`.
    """
    try:
        prepared = None  # the training prepares it
        if graph.is_typed:  # features of its types may take long, and that is shown
            with steps_progress() as on_progress:
                prepared = training.prepare(
                    graph, recipe, device=classifier.device, on_progress=on_progress
                )
        metric = metrics.METRICS[recipe.training.metric]
        with (
            watched(training.stage_epochs(recipe), metric) as on_epoch,
            stoppable() as should_stop,
            nullcontext() if log is None else training.open_log(log, recipe.tables()) as logged,
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore", InactiveTermWarning)  # said at the end
            classifier.fit(
                graph, prepared=prepared, checkpoint=folder / runs.CHECKPOINT,
                on_epoch=training.in_turn(on_epoch, logged), should_stop=should_stop, **on,
            )  # fmt: skip
    except SCRError:
        runs.withdraw_run(folder)
        raise


def score_line(summary: dict[str, Any]) -> Text:
    """One line that says how a run went."""
    line, metric = Text(), metrics.metric_of(summary)
    if "valid_accuracy_is" in summary:
        line.append("valid accuracy ").append(f"{summary['valid_accuracy']:.1%}", "bold")
        line.append(f" {summary['valid_accuracy_is']}, ")
    for split in ("valid", "test"):
        if split in summary:
            measured = summary[split]
            beside = f"accuracy {measured['accuracy']:.1%}"
            if metric is metrics.ACCURACY:
                beside = f"balanced {measured['balanced_accuracy']:.1%}"
            value = measured[metric.key]
            shown = "undefined" if value is None else metric.shown(value)
            line.append(f"{split} {metric.title} ").append(shown, "bold")
            line.append(f" ({beside}), ")
    if "test" not in summary:
        line.append("no test nodes, ")
    line.append(f"best epoch {summary['best_epoch']} of {summary['epochs']}, ")
    return line.append(f"{summary['train_seconds']:.1f} s of training")


@contextmanager
def watched(epochs: int, metric: Metric) -> Iterator[Callable[[EpochRecord], None]]:
    """A progress bar with loss, the metric and time left."""
    with counted("Training", epochs) as show:
        score = ""

        def on_epoch(record: EpochRecord) -> None:
            nonlocal score
            value = record.valid_accuracy if metric is metrics.ACCURACY else record.valid_metric
            if value is not None:
                score = f" valid {metric.shown(value)}"
            stage = f"stage {record.stage} " if record.stage > 1 else ""
            losses = f"loss {record.supervised_loss:.3f} + {record.consistency_loss:.3f}"
            show(completed=record.epoch, state=stage + losses + score)

        yield on_epoch


@contextmanager
def stoppable(is_training: Callable[[], bool] = lambda: True) -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C into a stop after the current epoch; a second one stops at once.

    While nothing `is_training`, the first one does.
    """
    asked = False

    def ask(_signal: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if asked or not is_training():
            raise KeyboardInterrupt
        asked = True

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)
