"""`scr demo`: the whole way on embedded real data, in about a minute."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from scr.cli.compare import graph_facts
from scr.cli.console import console
from scr.cli.train import shown_command

if TYPE_CHECKING:
    from scr.compare import Comparison
    from scr.report.examples import ExampleGroup

ENCODER = "ssgc"
REGULARIZERS = ("none", "scr", "scr-m")
SPLITS = "per-class:2,20"
# 64 pixels have less to spare than thousands of words; both chosen on validation nodes.
SETTINGS = {"encoder": {"input_dropout": 0.2}, "training": {"weight_decay": 5e-4}}


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the page and the numbers.")] = Path(
        "scr-demo"
    ),
    seeds: Annotated[int, typer.Option(min=1, help="Splits and seeds to run.")] = 5,
) -> None:
    """Classify handwritten digits from two labelled images per class, with and without SCR."""
    from scr import compare as comparing
    from scr.graph import load_graph
    from scr.report import comparison_page, comparison_table, conclusions, write_page

    graph = load_graph("digits")
    console.print(
        f"{graph.num_nodes:,} images of handwritten digits, linked to their nearest neighbors; "
        "2 labels per class. Every seed draws its own split."
    )
    comparison = comparing.Comparison(graph, SPLITS)
    tasks = comparing.plan([ENCODER], REGULARIZERS, range(seeds), layers=[SETTINGS])
    columns = (TextColumn("Training"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("demo", total=None)
        result = comparing.compare(
            comparison,
            tasks,
            out=out,
            on_plan=lambda runs: progress.update(bar, total=runs + len(REGULARIZERS)),
            on_run=lambda _: progress.advance(bar),
            command=shown_command(),
        )
        histories, examples = _closer_look(comparison, lambda: progress.advance(bar))
    console.print(comparison_table(result["rows"]))
    for sentence in conclusions(result["rows"]):
        console.print(sentence)
    page = out / "report.html"
    html = comparison_page(
        result,
        title="Handwritten digits, 2 labels per class",
        graph_facts=graph_facts(result["graph"]),
        histories=histories,
        examples=examples,
    )
    write_page(page, html)
    console.print(f"Report: {page.resolve()}", soft_wrap=True)


def _closer_look(
    comparison: Comparison, advance: Callable[[], None]
) -> tuple[dict[str, Any], list[ExampleGroup]]:
    """Train each regularizer once more on the first split, for curves and example images."""
    import numpy as np

    from scr.classifier import NodeClassifier
    from scr.report import choose_examples

    graph = comparison.graph_of(0)
    histories, probabilities = {}, {}
    for regularizer in REGULARIZERS:
        classifier = NodeClassifier(ENCODER, regularizer, seed=0, recipe=SETTINGS).fit(graph)
        histories[regularizer] = [classifier.history_]
        probabilities[regularizer] = classifier.predict_proba()
        advance()
    examples = choose_examples(
        graph.labels,
        {name: probabilities[name] for name in ("none", "scr")},
        nodes=graph.test,
        images=np.asarray(graph.features),
        class_names=graph.class_names,
    )
    return histories, examples
