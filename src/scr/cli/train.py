"""`scr train`: one run, watched, stoppable and resumable."""

from __future__ import annotations

import shlex
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from scr.cli._console import console, print_note, print_warning
from scr.cli._progress import steps_progress
from scr.config import parse_assignment, read_toml
from scr.errors import InactiveTermWarning

if TYPE_CHECKING:
    from scr.graph import Graph
    from scr.training import EpochRecord, Prepared, Recipe

INTERRUPTED = 130
"""Exit code of a run that was stopped from the keyboard, as shells have it."""


def train(
    graph: Annotated[str, typer.Argument(help="A store, a source, or a dataset name.")],
    out: Annotated[Path, typer.Option(help="The run directory to make.")],
    encoder: Annotated[
        str | None, typer.Option(help="Such as ssgc, sign or gamlp; see `scr encoders`.")
    ] = None,
    regularizer: Annotated[
        str | None,
        typer.Option(
            help="none, scr, scr-m, pi, r-drop, entropy, fixmatch, freematch, softmatch or grand; "
            "see `scr regularizers`."
        ),
    ] = None,
    recipe: Annotated[
        Path | None, typer.Option(help="A TOML file with settings, or a name of `scr recipes`.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="section.key=value; may be repeated.")
    ] = None,
    refresh_sample: Annotated[
        int | None,
        typer.Option(min=1, help="Unlabeled nodes that a refresh of the confident set scores."),
    ] = None,
    preset: Annotated[str, typer.Option(help="A preset, or auto.")] = "auto",
    seed: Annotated[int, typer.Option(min=0, help="Decides weights, batches and dropout.")] = 0,
    splits: Annotated[
        str | None, typer.Option(help="A splits file, per-class:20,30 or random:0.1,0.1.")
    ] = None,
    split: Annotated[int | None, typer.Option(help="Which split of the file.")] = None,
    features: Annotated[
        Path | None, typer.Option(help="A .npy with one row of features per node, instead.")
    ] = None,
    resume: Annotated[bool, typer.Option(help="Continue a run, or start it.")] = False,
    probabilities: Annotated[
        str, typer.Option(help="Class probabilities to write: none, top-K or all.")
    ] = "none",
    device: Annotated[str, typer.Option(help="Where torch computes.")] = "cpu",
) -> None:
    """Train one encoder on one graph."""
    import torch

    from scr import runs
    from scr.classifier import NodeClassifier
    from scr.compute import usable_device
    from scr.errors import SCRError
    from scr.prediction import ProbabilityColumns
    from scr.report.page import run_page, write_page
    from scr.sources import load_graph
    from scr.training import check_trainable, stage_epochs

    columns = ProbabilityColumns.parse(probabilities)
    usable_device(device)
    if refresh_sample is not None:
        settings = [*(settings or []), f"consistency.refresh_sample={refresh_sample}"]
    layers = recipe_layers(recipe, settings)
    loaded = load_graph(graph, split=split, splits=splits, features=features)
    classifier = NodeClassifier(
        encoder,
        regularizer,
        seed=seed,
        device=device,
        preset=preset_below(recipe, preset),
        recipe=layers,
    )
    resolved = classifier.resolve(loaded)
    check_trainable(loaded, resolved)
    run = runs.describe_run(
        loaded,
        resolved,
        seed=seed,
        source=loaded.source,
        command=shown_command(),
        threads=torch.get_num_threads(),
    )
    if runs.start_run(out, run, resume=resume):
        # The run may have been killed after its last result and before this.
        runs.remove_checkpoints(out)
        if not (out / runs.REPORT).exists():
            write_page(out / runs.REPORT, run_page(out))
        console.print(f"The run in {out} is finished already.", soft_wrap=True)
        return
    console.print(f"Preset {resolved.preset}: {resolved.reason}.")
    try:
        prepared = _prepared(loaded, resolved, device)
        with (
            watched(stage_epochs(resolved)) as on_epoch,
            stoppable() as should_stop,
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore", InactiveTermWarning)  # said below
            classifier.fit(
                loaded,
                prepared=prepared,
                checkpoint=out / runs.CHECKPOINT,
                on_epoch=on_epoch,
                should_stop=should_stop,
            )
    except SCRError:
        runs.withdraw_run(out)
        raise
    if classifier.stopped_ == "interrupted":
        console.print(
            f"Stopped; continue with the same command and --resume. Kept in {out}.", soft_wrap=True
        )
        raise typer.Exit(INTERRUPTED)
    for note in classifier.notes_:
        print_note(note)
    with steps_progress() as on_progress:
        summary = classifier.write_into(out, run, probabilities=columns, on_progress=on_progress)
    write_page(out / runs.REPORT, run_page(out))
    console.print(score_line(summary))
    if classifier.inactive_:
        print_warning(
            f"{resolved.regularizer} had no part in this result, which is that of the base; the "
            "note above says why"
        )
    console.print(f"Wrote {out} (page: {out / runs.REPORT})", soft_wrap=True)


def recipe_layers(
    recipe: Path | None, settings: list[str] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A recipe, by file or by name, and what `--set` lays over it.

    They stay two layers: in one, the recipe's `for` tables would win over `--set`.
    """
    if recipe is None:
        return {}, assigned(settings)
    from scr.recipes import settings_only

    return settings_only(read_toml(recipe_file(recipe))), assigned(settings)


def assigned(settings: list[str] | None) -> dict[str, Any]:
    """The tables that `--set section.key=value`, repeated, comes to."""
    tables: dict[str, Any] = {}
    for text in settings or []:
        section, key, value = parse_assignment(text)
        tables[section] = {**tables.get(section, {}), key: value}
    return tables


def preset_below(recipe: Path | None, preset: str) -> str:
    """The preset to lay a recipe over: a published one stands alone, unless one is asked for."""
    published = recipe is not None and "published" in read_toml(recipe_file(recipe))
    return "none" if published and preset == "auto" else preset


def recipe_file(recipe: Path) -> Path:
    """The file given, or the file of the published recipe of this name."""
    if recipe.exists() or recipe.suffix == ".toml" or len(recipe.parts) > 1:
        return recipe
    from scr.recipes import read_recipe

    return read_recipe(str(recipe)).path


def shown_command() -> str:
    """The command as it can be typed again, for the record."""
    return shlex.join(["scr", *sys.argv[1:]])


def score_line(summary: dict[str, Any]) -> Text:
    """One line that says how a run went."""
    parts = []
    for split in ("valid", "test"):
        if split in summary:
            scores = summary[split]
            parts.append(
                Text.assemble(
                    f"{split} accuracy ",
                    (f"{scores['accuracy']:.1%}", "bold"),
                    f" (balanced {scores['balanced_accuracy']:.1%})",
                )
            )
    parts.append(Text(f"best epoch {summary['best_epoch']} of {summary['epochs']}"))
    parts.append(Text(f"{summary['train_seconds']:.1f} s of training"))
    return Text(", ").join(parts)


def _prepared(graph: Graph, recipe: Recipe, device: str) -> Prepared | None:
    """What a typed graph is trained on: features of its types may take long, and that is shown."""
    from scr.training import prepare

    if not graph.is_typed:
        return None  # made by the training itself
    with steps_progress() as tell:
        return prepare(graph, recipe, device=device, on_progress=tell)


@contextmanager
def watched(epochs: int) -> Iterator[Callable[[EpochRecord], None]]:
    """A progress bar with loss, accuracy and time left."""
    columns = (
        TextColumn("Training"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[state]}", markup=False),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("train", total=epochs, state="")
        accuracy = ""

        def on_epoch(record: EpochRecord) -> None:
            nonlocal accuracy
            if record.valid_accuracy is not None:
                accuracy = f" valid {record.valid_accuracy:.1%}"
            losses = f"loss {record.supervised_loss:.3f} + {record.consistency_loss:.3f}"
            if record.stage > 1:
                losses = f"stage {record.stage} {losses}"
            progress.update(task, completed=record.epoch, state=losses + accuracy)

        yield on_epoch


@contextmanager
def keeping_runs(out: Path) -> Iterator[None]:
    """End a Ctrl-C among many runs with a sentence on what is kept and how to continue."""
    try:
        yield
    except KeyboardInterrupt:
        console.print(
            f"Stopped; finished runs are kept in {out}. Continue with the same command: "
            f"{shown_command()}",
            soft_wrap=True,
        )
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def stoppable() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C into a stop after the current epoch; a second one stops at once."""
    asked = False

    def ask(_signal: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)
