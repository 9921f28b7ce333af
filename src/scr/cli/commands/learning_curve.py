"""`scr learning-curve`: accuracy against labels per class, with and without SCR."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from scr import experiments, prediction, report, runs, sources, training
from scr.cli import _options as option
from scr.cli._console import console, print_line, table
from scr.cli._ending import Report
from scr.cli._run import check_out, names, read_layers, running
from scr.errors import ConfigError


def learning_curve(
    graph: Annotated[
        str, typer.Argument(help="A store, a source, a dataset name, or a run directory.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the result; a stopped command resumes there. [of a run: "
            "RUN/learning-curve; else nothing is kept]"
        ),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(help="Training labels per class, with commas. [halved from what there are]"),
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="Such as ssgc or sign. [the run's, the recipe's, else auto]")
    ] = None,
    regularizer: Annotated[
        str | None, typer.Option(help="What is compared with none. [the run's, else scr]")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Repeats, with other labels each.")] = 5,
    on_test: Annotated[
        bool, typer.Option("--on-test", help="Measure on test labels, not on known ones.")
    ] = False,
    recipe: option.RecipeFile = None,
    assignments: option.Assignments = None,
    preset: option.Preset = "auto",
    jobs: option.Jobs = 1,
    engine: option.EngineName = "local",
    address: option.Address = None,
) -> Report:
    """Measure accuracy against labels per class, with and without SCR."""
    layers = read_layers(recipe, assignments, preset)
    tables: list[dict[str, Any]] = list(layers.tables)
    sizes = None if labels is None else _numbers(labels)
    of_run = (Path(graph) / runs.RUN).is_file()
    if of_run:
        out = out or Path(graph) / "learning-curve"
    check_out(out)
    if of_run:
        run = Path(graph)
        loaded, own = prediction.load_run_graph(run), dict(runs.read_run(run)["recipe"])
        used = own.pop("regularizer", report.BASE)
        tables = [own, *tables]
        regularizer = regularizer or (used if used != report.BASE else None)
    else:
        loaded = sources.load_graph(graph)
    named = str(training.merge(*tables).get("encoder", {}).get("name", "auto"))
    tasks = experiments.plan_learning_curve(
        loaded, labels=sizes, encoder=encoder or named, regularizer=regularizer or "scr",
        seeds=range(seeds), layers=tables, preset=layers.preset, on_test=on_test,
    )  # fmt: skip
    with running(
        "Measuring", loaded, out, splits=None, jobs=jobs, engine=engine, address=address
    ) as runner:
        result = experiments.learning_curve(loaded, tasks, runner=runner)
    console.print(_table(result))
    for sentence in result["sentences"]:
        console.print(sentence)
    if out is not None:
        pictures = f"{out / experiments.CURVE_PICTURE} and {out / experiments.CURVE_PAGE}"
        print_line(f"Wrote {out / experiments.CURVE_JSON}, {pictures}")
    return {"result": None if out is None else out / experiments.CURVE_JSON, **result}


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in names(text)]
    except ValueError:
        raise ConfigError("--labels", text, "whole numbers with commas, such as 5,10,20") from None


def _table(result: dict[str, Any]) -> Any:
    method = result["regularizer"]
    headings = ("labels per class", "labels", f"without {method}", f"with {method}", "difference")
    lined = table([*headings, "95% interval"], numbers=headings)
    for point in result["curve"]:
        gap = point["difference"] or {}
        means = (
            report.mean_and_spread(point[name]["test_mean"], point[name]["test_std"])
            for name in ("base", "regularized")
        )
        lined.add_row(
            str(point["labels_per_class"]), f"{point['train_labels']:,}", *means,
            report.points(gap.get("mean")), report.interval(gap.get("low"), gap.get("high")),
        )  # fmt: skip
    return lined
