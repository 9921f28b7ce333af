"""`scr fit`: from a table of nodes and a table of edges to predictions, in one command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from scr import fitting, runs, tables
from scr.cli import _options as option
from scr.cli._console import counted, print_line
from scr.cli._ending import Report, Stopped
from scr.cli._run import names, read_layers, shown_command
from scr.cli.commands.train import stoppable
from scr.cli.commands.tune import seconds
from scr.errors import ConfigError

if TYPE_CHECKING:
    from scr.training import EpochRecord
    from scr.tuning import Trial

WIDTH = 13
"""Of the words that lines begin with."""


def fit(
    nodes: Annotated[
        str,
        typer.Argument(help="The table of nodes; alone: a folder of tables, a store, or a name."),
    ],
    edges: Annotated[Path | None, typer.Argument(help="The table of edges.")] = None,
    out: Annotated[Path, typer.Option(help="The run directory to make.")] = Path("run"),
    label: Annotated[
        str | None, typer.Option(help="The column of the classes, empty where unknown. [label]")
    ] = None,
    id_column: Annotated[
        str | None, typer.Option(help="The column of ids. [id, else the first that is distinct]")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="What columns are, such as name=text,price=number,internal_id=drop; also "
            "category, date and boolean. [recognized]"
        ),
    ] = None,
    weight_column: Annotated[
        str | None, typer.Option(help="Of the edges; none: no weights. [recognized]")
    ] = None,
    split_column: Annotated[
        str | None, typer.Option(help="The column that says train, valid or test.")
    ] = None,
    unknown_nodes: Annotated[
        str, typer.Option(help="Edges to nodes that the table lacks: drop, add or error.")
    ] = "drop",
    directed: Annotated[bool, typer.Option("--directed", help="Keep directions of edges.")] = False,
    delimiter: Annotated[str | None, typer.Option(help="Of CSV files. [recognized]")] = None,
    encoding: Annotated[str | None, typer.Option(help="Of CSV files. [recognized]")] = None,
    splits: Annotated[
        str | None,
        typer.Option(help="A splits file, per-class:20,30, per-class:all or random:0.1,0.1."),
    ] = None,
    effort: Annotated[
        str | None, typer.Option(help="default, or best: try many settings, average the best.")
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            help="How long `--effort best` may take, such as 90s or 2h; implies it. [10m]"
        ),
    ] = None,
    metric: option.Metric = None,
    settings: option.Assignments = None,
    predictions: Annotated[
        Path | None,
        typer.Option(
            help="The file to write: .csv, .tsv, .parquet, .arrow, .json or .jsonl. "
            "[predictions.csv in the run directory]"
        ),
    ] = None,
    probabilities: option.Probabilities = "none",
    coverage: Annotated[
        float | None,
        typer.Option(help="Add sets that hold the true class with this probability, such as 0.9."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides what is held out, and weights.")] = 0,
    device: option.Device = "cpu",
    resume: Annotated[bool, typer.Option("--resume", help="Continue a run, or start it.")] = False,
    overwrite: option.Overwrite = False,
) -> Report:
    """Fit a model to two tables and predict every node: reads, chooses, trains, calibrates.

    Instead of two tables, one argument may name a folder with nodes.csv and edges.csv, a store, an
    .npz file or a dataset such as digits.
    """
    if effort == "default" and time is not None:
        raise ConfigError("--time", time, "`--effort best`, which tries settings for that long")
    asked = tables.TableOptions(
        label=label, id_column=id_column, columns=_kinds(columns), weight_column=weight_column,
        split_column=split_column, unknown_nodes=cast(Any, unknown_nodes), directed=directed,
        delimiter=delimiter, encoding=encoding,
    )  # fmt: skip
    options = fitting.FitOptions(
        recipe=read_layers(None, settings, "auto", metric).tables, splits=splits,
        effort=cast(Any, effort or ("best" if time else "default")),
        time_limit=seconds(time or "10m"), seed=seed, device=device, predictions=predictions,
        probabilities=probabilities, coverage=coverage, resume=resume, overwrite=overwrite,
        command=shown_command(),
    )  # fmt: skip
    try:
        with _watched() as watch:
            result = fitting.fit_run(nodes, edges, out, tables=asked, options=options, watch=watch)
    except KeyboardInterrupt:
        raise Stopped(_after_a_stop(out, overwrite=overwrite)) from None
    return print_decisions(result, out)


def print_decisions(result: fitting.FitResult, out: Path) -> Report:
    """Print what was decided and measured for a run, and where its files are; returns the same."""
    run, summary = runs.read_run(out), runs.read_metrics(out)
    lines = fitting.record_lines(result.record, run, summary)
    lines.append(("Predictions", f"{result.predictions} ({run['graph']['nodes']:,} rows)"))
    lines.append(("Page", str(out / runs.REPORT)))
    for word, sentence in lines:
        print_line(sentence, (f"{word:<{WIDTH}}", "bold"))
    return {
        "run": out, "predictions": result.predictions, "page": out / runs.REPORT,
        "decisions": [{"about": word, "said": sentence} for word, sentence in lines],
        "metrics": summary, **result.record,
    }  # fmt: skip


def _kinds(text: str | None) -> dict[str, str]:
    """Read `name=text,price=number`.

    >>> _kinds("name=text, price=number")
    {'name': 'text', 'price': 'number'}
    """
    kinds = {}
    for part in names(text or ""):
        name, equals, kind = part.rpartition("=")
        if not equals or not name.strip():
            raise ConfigError("--columns", text, "names with kinds, such as name=text,price=number")
        kinds[name.strip()] = kind.strip()
    return kinds


@contextmanager
def _watched() -> Iterator[fitting.Watch]:
    """A bar that says what is done; while one model trains, Ctrl-C stops after the epoch."""
    step = ""
    with counted("Fitting") as show, stoppable(lambda: step == fitting.TRAINING) as should_stop:

        def on_step(name: str) -> None:
            nonlocal step
            step = name
            show(completed=0, total=None, state=name)

        def on_epoch(record: EpochRecord, epochs: int) -> None:
            score = record.valid_accuracy
            shown = "" if score is None else f", {score:.1%} of held-out labels right"
            show(completed=record.epoch, total=epochs, state=f"Training{shown}")

        def on_trial(trial: Trial, score: float, best: float) -> None:
            state = f"{trial.member.name} {abs(score):.3f}, best {abs(best):.3f}"
            show(advance=1, state=state)

        yield fitting.Watch(on_step, on_epoch, on_trial, should_stop)


def _after_a_stop(out: Path, *, overwrite: bool) -> str:
    """What a stopped command leaves, and how to continue."""
    if overwrite:
        return f"Stopped; what was in {out} is unchanged."
    again = shown_command()
    if "--resume" not in again.split():
        again += " --resume"
    return f"Stopped; continue with: {again}"
