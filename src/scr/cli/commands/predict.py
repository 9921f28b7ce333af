"""`scr predict`: class and probabilities for every node of a run, or for a new graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import scr
from scr import compute, prediction, sources
from scr.cli import _options as option
from scr.cli._console import print_line, steps_progress
from scr.cli._ending import Report
from scr.cli._replacing import refuse_existing
from scr.errors import ConfigError


def predict(
    run: option.FinishedRun,
    out: Annotated[
        Path, typer.Option(help="The file to write: .csv, .tsv, .parquet, .arrow, .json or .jsonl.")
    ],
    graph: Annotated[
        str | None, typer.Option(help="Another graph with the same features, for new nodes.")
    ] = None,
    nodes: Annotated[
        Path | None, typer.Option(help="A .npy with the numbers of the nodes. [all that have hops]")
    ] = None,
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
    device: option.Device = "cpu",
    overwrite: option.Overwrite = False,
) -> Report:
    """Predict every node, or the nodes of a new graph.

    Of a graph whose hops were kept for some nodes only, those are predicted.
    """
    from scr.graph import read_nodes

    columns = prediction.ProbabilityColumns.parse(probabilities)
    prediction.table_writer(out)
    if per_class and coverage is None:
        raise ConfigError(
            "--per-class", True, "a coverage as well", hint="such as `--coverage 0.9 --per-class`"
        )
    refuse_existing(out, overwrite=overwrite, expected="file")
    compute.usable_device(device)
    classifier = scr.NodeClassifier.load(run, device=device)
    other = None if graph is None else sources.load_graph(graph)
    chosen = None if nodes is None else read_nodes(nodes)
    with steps_progress() as on_progress:
        classifier.predictor_.write_predictions(
            out, graph=other, nodes=chosen, columns=columns, coverage=coverage,
            per_class=per_class, class_shares=class_shares, on_progress=on_progress,
        )  # fmt: skip
    print_line(f"Wrote {out}")
    return {"predictions": out, "run": run}
