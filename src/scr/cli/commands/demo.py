"""`scr demo`: the whole way on embedded real data, in about a minute."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import scr
from scr import experiments, fitting, report, sources, storage, tables
from scr.cli import _options as option
from scr.cli._console import console, print_line
from scr.cli._ending import Report
from scr.cli._run import check_out, result_folder, running
from scr.cli.commands.fit import print_decisions

if TYPE_CHECKING:
    from scr.experiments import Runner
    from scr.graph import Graph
    from scr.report import ExampleGroup

# One of the paper's, which learns how much of each hop to read, and one that averages the hops.
ENCODERS = ("sagn", "ssgc")
REGULARIZERS = ("none", "scr", "scr-m")
SPLITS = "per-class:2,20"
# By the validation accuracy that `scr compare digits --splits per-class:2,20 --seeds 10 --set ...`
# prints. SAGN: the preset; the two lines below; with 8 hops, without the residual, with both. S2GC:
# the two lines with 4, 8 and 16 hops. One candidate is best for all three regularizers each time.
# 64 pixels have less to spare than thousands of words, hence little dropout.
SETTINGS: dict[str, Any] = {
    "encoder": {"input_dropout": 0.2},
    "training": {"weight_decay": 5e-4},
    "for": {
        "sagn": {"propagation": {"hops": 8}, "encoder": {"residual": False}},
        "ssgc": {"propagation": {"hops": 16}},
    },
}
# Of the tables that `scr fit` is shown with, for tests to shorten.
FIT_SETTINGS: dict[str, Any] = {}
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
# A process holds torch and little else; more than these compete for memory bandwidth.
_MOST_JOBS = 4


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the page and the numbers.")] = Path(
        "scr-demo"
    ),
    seeds: Annotated[int, typer.Option(min=1, help="Splits and seeds to run.")] = 16,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes, one thread each. [one per core, up to 4]")
    ] = None,
    overwrite: option.Overwrite = False,
) -> Report:
    """Classify handwritten digits from two labeled images per class, with and without SCR."""
    from scr.report.page import comparison_page, write_page

    check_out(out, overwrite=overwrite)
    graph = sources.load_graph("digits")
    about = (
        f"{graph.num_nodes:,} images of handwritten digits, linked to their nearest neighbors, "
        "with 2 labels per class. Every seed draws its own split. Settings were chosen once, by "
        "accuracy on validation nodes, and are the same with and without SCR."
    )
    console.print(about)
    tasks = experiments.plan(ENCODERS, REGULARIZERS, range(seeds), layers=[SETTINGS])
    jobs = jobs or min(os.cpu_count() or 1, _MOST_JOBS)
    with (
        result_folder(out, experiments.COMPARE_JSON, graph, overwrite=overwrite) as folder,
        running(
            "Training", graph, folder, splits=SPLITS, jobs=jobs, extra=len(REGULARIZERS)
        ) as runner,
    ):
        result = experiments.compare(runner, tasks)
        histories, examples = _closer_look(runner)
    console.print(report.comparison_table(result["rows"]))
    for sentence in report.conclusions(result["rows"]):
        console.print(sentence)
    html = comparison_page(
        result, title="Handwritten digits, 2 labels per class", intro=about, histories=histories,
        examples=examples, shown_for=f"{ENCODERS[0]}, seed 0",
    )  # fmt: skip
    page = write_page(out / "report.html", html)
    print_line(f"Report: {page.resolve()}")
    console.print(
        "\nThe same images as two CSV files, in which every other image has no label, and one "
        "command from these to predictions:\n"
    )
    _fit_tables(graph, out)
    return {
        "result": out / experiments.COMPARE_JSON, "page": page.resolve(), "rows": result["rows"],
        "conclusions": report.conclusions(result["rows"]),
    }  # fmt: skip


def _fit_tables(graph: Graph, out: Path) -> None:
    """Write the graph as two tables, fit them, and score what had no label."""
    import numpy as np

    folder, run = out / "tables", out / "fit"
    folder.mkdir(parents=True, exist_ok=True)
    is_known = np.arange(graph.num_nodes) % 2 == 0
    pixels = [f"pixel_{number}" for number in range(graph.num_features)]
    rows = zip(graph.labels, is_known, np.asarray(graph.features), strict=True)
    with storage.atomic_file(folder / "nodes.csv") as file:
        file.write_text("\n".join([
            ",".join(["image", "digit", *pixels]),
            *(f"image-{node},{DIGITS[label] if known else ''},{','.join(map(str, values))}"
              for node, (label, known, values) in enumerate(rows)),
        ]) + "\n", encoding="utf-8")  # fmt: skip
    ends = np.stack([np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr)), graph.indices])
    with storage.atomic_file(folder / "edges.csv") as file:
        pairs = ends[:, ends[0] < ends[1]].T
        lines = ["image,similar_image", *(f"image-{one},image-{two}" for one, two in pairs)]
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print_line(f"scr fit {folder / 'nodes.csv'} {folder / 'edges.csv'} --label digit --out {run}")
    result = fitting.fit_run(
        folder / "nodes.csv", folder / "edges.csv", run, tables=tables.TableOptions(label="digit"),
        options=fitting.FitOptions(recipe=(FIT_SETTINGS,), resume=True),
    )  # fmt: skip
    print_decisions(result, run)
    with (run / fitting.PREDICTIONS).open(newline="", encoding="utf-8") as file:
        predicted = np.array([row["prediction"] for row in csv.DictReader(file)])
    right = (predicted == np.array(DIGITS)[graph.labels])[~is_known]
    print_line(f"Of the {len(right):,} images without a label, {right.mean():.1%} are right.")


def _closer_look(runner: Runner) -> tuple[dict[str, Any], list[ExampleGroup]]:
    """Train the first encoder once more on the first split, for curves and example images."""
    import numpy as np

    graph, encoder = runner.graph_of(0), ENCODERS[0]
    histories, probabilities = {}, {}
    for regularizer in REGULARIZERS:
        classifier = scr.NodeClassifier(encoder, regularizer, seed=0, recipe=SETTINGS).fit(graph)
        histories[regularizer] = [classifier.history_]
        probabilities[regularizer] = classifier.predict_proba()
        if runner.on_run is not None:
            runner.on_run({"encoder": encoder, "regularizer": regularizer, "seed": 0})
    examples = report.choose_examples(
        graph.labels, {name: probabilities[name] for name in ("none", "scr")}, nodes=graph.test,
        images=np.asarray(graph.features), class_names=graph.class_names,
    )  # fmt: skip
    return histories, examples
