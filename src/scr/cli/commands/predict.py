"""`scr predict`: class and probabilities for every node of a run, or for a new graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import scr
from scr import compute, engines, prediction, sources, tables
from scr.cli import _options as option
from scr.cli._console import print_line, print_notes, steps_progress
from scr.cli._ending import Report, when_stopped
from scr.cli._replacing import refuse_existing, refuse_existing_file
from scr.errors import ConfigError


def predict(
    run: option.FinishedRun,
    out: Annotated[
        Path,
        typer.Option(
            help="The file to write: .csv, .tsv, .parquet, .arrow, .json or .jsonl; a name without "
            "a suffix is a folder of Parquet files."
        ),
    ],
    graph: Annotated[
        str | None, typer.Option(help="Another graph with the same features, for new nodes.")
    ] = None,
    nodes: Annotated[
        str | None,
        typer.Option(
            help="A table of new nodes; or known nodes: ids with commas between them, a file with "
            "one id per line, a .npy of numbers. [all that have hops]"
        ),
    ] = None,
    edges: Annotated[Path | None, typer.Option(help="A table of the new nodes' edges.")] = None,
    id_column: Annotated[
        str | None, typer.Option(help="Of the table of new nodes. [`id`, else the first distinct]")
    ] = None,
    changed: Annotated[
        bool, typer.Option("--changed", help="Add known nodes that the new ones may change.")
    ] = False,
    probabilities: option.Probabilities = "all",
    coverage: Annotated[
        float | None,
        typer.Option(help="Add sets that hold the true class with this probability, such as 0.9."),
    ] = None,
    per_class: Annotated[
        bool, typer.Option("--per-class", help="Keep the coverage within every class.")
    ] = False,
    class_shares: Annotated[
        str,
        typer.Option(help="Estimate that predictions are corrected by: none, em or bbse."),
    ] = "none",
    spreadsheet_safe: option.SpreadsheetSafe = False,
    device: option.Device = "cpu",
    engine: option.EngineName = "local",
    address: option.Address = None,
    overwrite: option.Overwrite = False,
) -> Report:
    """Predict every node, some nodes, new nodes, or the nodes of a new graph.

    Of a graph whose hops were kept for some nodes only, those are predicted. New nodes join the
    graph of the run for this prediction only.
    """
    columns = prediction.ProbabilityColumns.parse(probabilities)
    is_folder = not out.suffix
    if engine != "local" and not is_folder:
        raise ConfigError(
            "--out", str(out), f"a folder, a name without a suffix, with the engine `{engine}`"
        )
    if not is_folder:
        prediction.table_writer(out, spreadsheet_safe=spreadsheet_safe)
    if per_class and coverage is None:
        raise ConfigError(
            "--per-class", True, "a coverage as well", hint="such as `--coverage 0.9 --per-class`"
        )
    compute.usable_device(device)
    if is_folder:
        chosen_options = {
            "--graph": graph, "--nodes": nodes, "--edges": edges, "--id-column": id_column,
            "--changed": changed, "--spreadsheet-safe": spreadsheet_safe,
        }  # fmt: skip
        for name, value in chosen_options.items():
            if value:
                raise ConfigError(name, str(value), "a file as `--out`, such as out.csv")
        refuse_existing(out, overwrite=overwrite)
        with (
            when_stopped("Stopped; files that are whole are used again by the same command."),
            engines.open_engine(engine, address) as opened,
            steps_progress() as on_progress,
        ):
            count = prediction.write_prediction_shards(
                run, out, engine=opened, columns=columns, coverage=coverage, per_class=per_class,
                class_shares=class_shares, device=device, overwrite=overwrite,
                on_progress=on_progress,
            )  # fmt: skip
        print_line(f"Wrote {out}: {count:,} Parquet file{'s' * (count > 1)}")
        return {"predictions": out, "run": run, "files": count}
    refuse_existing_file(out, overwrite=overwrite)
    classifier = scr.NodeClassifier.load(run, device=device)
    if edges is not None or (nodes is not None and prediction.is_table_of_nodes(nodes)):
        if nodes is None or graph is not None or class_shares != "none":
            raise ConfigError(
                "--edges" if nodes is None else "--nodes", str(edges if nodes is None else nodes),
                "a table of new nodes with it, and neither `--graph` nor `--class-shares`",
            )  # fmt: skip
        made = classifier.new_node_predictor().predict_tables(
            nodes, edges, tables.TableOptions(id_column=id_column), changed=changed,
            coverage=coverage, per_class=per_class,
        )  # fmt: skip
        made.write(out, columns, spreadsheet_safe=spreadsheet_safe)
        print_notes(note.rstrip(".") for note in made.notes)
        print_line(f"Wrote {out}: {_counted(made)}")
        return {"predictions": out, "run": run, "nodes": len(made)}
    if changed or id_column is not None:
        option_name = "--changed" if changed else "--id-column"
        raise ConfigError(option_name, changed or id_column, "a table of new nodes (`--nodes`)")
    other = None if graph is None else sources.load_graph(graph)
    chosen = None
    if nodes is not None:
        known = classifier.new_node_predictor().known
        chosen = prediction.named_nodes(
            nodes, known if other is None else prediction.NodeIds.of(other)
        )
    with steps_progress() as on_progress:
        classifier.predictor_.write_predictions(
            out, graph=other, nodes=chosen, columns=columns, coverage=coverage,
            per_class=per_class, class_shares=class_shares, spreadsheet_safe=spreadsheet_safe,
            on_progress=on_progress,
        )  # fmt: skip
    print_line(f"Wrote {out}")
    return {"predictions": out, "run": run}


def _counted(made: prediction.NewPredictions) -> str:
    new = int(made.new.sum())
    known = f" and {len(made) - new:,} known ones" if len(made) > new else ""
    return f"{new:,} new nodes{known}"
