"""`scr.fit`: read, split, choose, train on every label, predict every node, and write the run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal

from scr import runs
from scr.classifier import NodeClassifier
from scr.errors import ConfigError, RunError
from scr.fitting._inputs import FitInput, read_input
from scr.fitting._options import FitOptions, FitResult, Watch
from scr.fitting._record import FIT
from scr.fitting._splits import SplitPlan, plan_split
from scr.fitting._training import train_on_folds, train_once
from scr.graph import Graph
from scr.report.page import run_page, write_page
from scr.storage import (
    atomic_folder,
    check_new_file,
    check_writable,
    discard_partial,
    one_at_a_time,
)
from scr.tables import Table, TableOptions
from scr.tuning import TIME_LIMIT

PREDICTIONS = "predictions.csv"
"""In the run directory, unless another file is named."""


def fit(
    nodes: Table | Graph,
    edges: Table | None = None,
    *,
    label: str | None = None,
    out: str | Path | None = None,
    id_column: str | None = None,
    columns: Mapping[str, str] | None = None,
    weight_column: str | None = None,
    split_column: str | None = None,
    unknown_nodes: Literal["drop", "add", "error"] = "drop",
    directed: bool = False,
    delimiter: str | None = None,
    encoding: str | None = None,
    splits: str | Path | None = None,
    effort: Literal["default", "best"] = "default",
    time_limit: float | None = TIME_LIMIT,
    metric: str | None = None,
    recipe: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    seed: int = 0,
    device: str = "cpu",
    predictions: str | Path | None = None,
    probabilities: str = "none",
    coverage: float | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> NodeClassifier:
    """From a table of nodes and a table of edges to a classifier that was trained on every label.

    A part of the known labels is held out to choose settings and to measure; few labels are held
    out in turns. Then all of them train. Test nodes, if there are any, choose nothing.

    Args:
        nodes: A table with one row per node: a path (csv, tsv, Parquet, Arrow), or a table of
            pandas, polars or Arrow. Or without `edges`: a graph, or the path or name of one.
        edges: A table whose rows name two nodes each.
        label: The column of the classes, empty where unknown; none: `label`.
        out: The run directory to make; none: nothing is written.
        id_column: The column of the nodes' ids; none: `id`, else the first with distinct values.
        columns: What columns are: number, category, text, date, boolean or drop; others are
            recognized.
        weight_column: The column of the edges' weights; ``"none"``: there are none.
        split_column: The column that says train, valid or test.
        unknown_nodes: What to do with edges to nodes that the table does not have.
        directed: Keep the direction of edges.
        delimiter: Of csv files; none: recognized.
        encoding: Of csv files; none: recognized.
        splits: As of `load_graph`; wins over the split of a table or graph.
        effort: ``"best"`` tries many settings, as of `NodeClassifier`.
        time_limit: Seconds that ``effort="best"`` may take.
        metric: What counts: accuracy, balanced, macro-f1, roc-auc or log-loss.
        recipe: Tables of settings that win over what is chosen.
        seed: Decides what is held out, initial weights, batches and dropout.
        device: Where torch computes.
        predictions: The file to write; none: `predictions.csv` in the run directory.
        probabilities: Columns of the predictions: none, all or top-K.
        coverage: Add sets of classes that hold the true one so often, such as 0.9.
        resume: Continue a run that was stopped.
        overwrite: Replace a run, and a file of predictions.
    """
    layers = [recipe] if isinstance(recipe, Mapping) else list(recipe or ())
    if metric is not None:
        layers.append({"training": {"metric": metric}})
    tables = TableOptions(
        label=label, id_column=id_column, columns=dict(columns or {}), weight_column=weight_column,
        split_column=split_column, unknown_nodes=unknown_nodes, directed=directed,
        delimiter=delimiter, encoding=encoding,
    )  # fmt: skip
    options = FitOptions(
        recipe=tuple(layers), splits=splits, effort=effort, time_limit=time_limit, seed=seed,
        device=device, predictions=None if predictions is None else Path(predictions),
        probabilities=probabilities, coverage=coverage, resume=resume, overwrite=overwrite,
    )  # fmt: skip
    folder = None if out is None else Path(out)
    return fit_run(nodes, edges, folder, tables=tables, options=options).classifier


def fit_run(
    nodes: Table | Graph,
    edges: Table | None,
    out: Path | None,
    *,
    tables: TableOptions,
    options: FitOptions,
    watch: Watch | None = None,
) -> FitResult:
    """As `fit`, with what was decided beside the classifier.

    Raises:
        KeyboardInterrupt: Training was stopped; what there is of it can be resumed, unless it was
            to replace another run, which then stays as it is.
    """
    watch = watch or Watch()
    if out is not None:
        _check_folder(out, options, (nodes, edges))
        if not (out / runs.METRICS).is_file():
            check_writable(out)
    if options.predictions is not None:
        _check_predictions(options.predictions, out, options)
    watch.on_step("Reading")
    read = read_input(nodes, edges, tables)
    if options.coverage is not None and read.graph.is_multilabel:
        raise ConfigError("coverage", options.coverage, "none where nodes have several targets")
    plan = plan_split(read.graph, options.splits, seed=options.seed)
    if out is None or not (options.overwrite and out.exists()):
        return _fit(read, plan, options, out, watch)
    # Not the link, if it is one.
    with atomic_folder(out.resolve(), check=_check_replaced(out, options)) as folder:
        inside = _within(options.predictions, out)
        if inside is not None:
            options = dataclasses.replace(options, predictions=folder / inside)
        result = _fit(read, plan, options, folder, watch)
        run = runs.read_run(folder)
        if run["graph"]["source"] == str(folder.resolve() / runs.GRAPH):
            run["graph"]["source"] = str(out.resolve() / runs.GRAPH)
            runs.rewrite_json(folder, runs.RUN, run)
    inside = _within(result.predictions, folder)
    written = result.predictions if inside is None else out / inside
    classifier = NodeClassifier.load(out, graph=plan.graph, device=options.device)
    return FitResult(classifier, result.record, written)


def _within(path: Path | None, folder: Path) -> Path | None:
    """Where a file is in a folder; none: it is not."""
    if path is None or not path.resolve().is_relative_to(folder.resolve()):
        return None
    return path.resolve().relative_to(folder.resolve())


def _fit(
    read: FitInput, plan: SplitPlan, options: FitOptions, out: Path | None, watch: Watch
) -> FitResult:
    """Train in a folder that is new, or holds a part of the same run."""
    in_folds = plan.kind == "folds" or options.effort == "best"
    train = train_on_folds if in_folds else train_once
    with nullcontext() if in_folds or out is None else one_at_a_time(out):
        classifier, record = train(read, plan, options, out, watch)
    predictions = options.predictions
    if predictions is None and out is not None:
        predictions = out / PREDICTIONS
    if predictions is not None:
        watch.on_step("Predicting")
        classifier.write_predictions(
            predictions, columns=options.columns, coverage=options.coverage
        )
    if out is not None:
        watch.on_step("Writing the page")
        write_page(out / runs.REPORT, run_page(out))
    return FitResult(classifier, record, predictions)


def _check_replaced(out: Path, options: FitOptions) -> Callable[[Path], None]:
    """Refuses to replace more than a run, and the predictions in it that are written again."""
    inside = _within(options.predictions, out)
    also = [] if inside is None else [str(inside)]
    return lambda folder: runs.check_replaced_run(folder, *also)


def _check_predictions(file: Path, out: Path | None, options: FitOptions) -> None:
    """Refuse, before anything is read, a file of predictions that would replace another one."""
    if not file.absolute().parent.is_dir() and (
        out is None or file.resolve().parent != out.resolve()
    ):
        raise ConfigError("predictions", str(file), "a file in a folder that exists")
    # What a run that is resumed has written already is written again.
    check_new_file(file, overwrite=options.overwrite or options.resume)
    if file.resolve() != (out or file.parent).resolve() / PREDICTIONS:
        runs.refuse_own_file(file)


def _check_folder(out: Path, options: FitOptions, inputs: Sequence[Any]) -> None:
    """Refuse, before anything is read, a folder that would lose something."""
    if out.exists() and not out.is_dir():
        raise RunError(f"`{out}` is a file; expected a folder for the run, or nothing")
    discard_partial(out)
    if not out.exists() or not any(out.iterdir()):
        return
    if options.resume and not options.overwrite:
        if not any((out / name).is_file() for name in (runs.RUN, FIT)):
            raise RunError(
                f"`{out}` holds no run: it has neither {runs.RUN} nor {FIT}; expected one to "
                "resume, or an empty folder"
            )
        return
    if not options.overwrite:
        raise RunError(
            f"The run directory `{out}` exists already; expected a new one",
            hint="choose another folder as `out`, continue the run with `resume`, or replace it "
            "with `overwrite`",
        )
    if not (out / runs.RUN).is_file():
        raise RunError(
            f"`{out}` is not a run directory: it has no {runs.RUN}; expected one to overwrite"
        )
    _check_replaced(out, options)(out)
    for given in inputs:
        if isinstance(given, str | Path) and _within(Path(given), out) is not None:
            raise RunError(
                f"`{given}` is in the run directory that would be replaced; expected another "
                "folder as `out`"
            )
