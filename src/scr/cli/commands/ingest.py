"""`scr ingest`: any supported source becomes a graph store."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scr import compute, sources
from scr.cli import _options as option
from scr.cli._console import console, facts, print_line, size, steps_progress
from scr.cli._ending import Report, when_stopped
from scr.cli._replacing import refuse_existing
from scr.errors import ConfigError

if TYPE_CHECKING:
    from rich.table import Table

    from scr.graph import Graph
    from scr.ingest import IngestPlan


def ingest(
    source: Annotated[str, typer.Argument(help="A folder, a file, or a dataset name.")],
    store: Annotated[Path, typer.Argument(help="The store to make.")],
    symmetrize: Annotated[
        bool, typer.Option("--symmetrize/--directed", help="Store each edge in both directions.")
    ] = True,
    keep_duplicates: Annotated[
        bool, typer.Option("--keep-duplicates", help="Count repeated edges as weights.")
    ] = False,
    keep_self_loops: Annotated[
        bool, typer.Option("--keep-self-loops", help="Keep edges from a node to itself.")
    ] = False,
    id_column: Annotated[
        str | None, typer.Option(help="Tables: column of node ids. [id, else the first]")
    ] = None,
    label_column: Annotated[
        str | None, typer.Option(help="Tables: column of classes, or none. [label]")
    ] = None,
    split_column: Annotated[
        str | None, typer.Option(help="Tables: column with train, valid, test. [split]")
    ] = None,
    features: Annotated[
        Path | None, typer.Option(help="A .npy with one row of features per (target) node.")
    ] = None,
    splits: Annotated[str | None, typer.Option(help="An .npz file of splits.")] = None,
    split: Annotated[
        int | None, typer.Option(min=0, help="Which split, where there are several.")
    ] = None,
    per_class: Annotated[
        str | None, typer.Option(help="Draw training and validation nodes per class: 20,30 or all.")
    ] = None,
    random: Annotated[
        str | None, typer.Option(help="Draw shares of the labeled nodes: 0.1,0.1.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of drawn splits.")] = 0,
    memory: Annotated[
        str, typer.Option(help="Most memory to use, such as 16GiB. [80 % of what is available]")
    ] = "auto",
    link: Annotated[
        bool, typer.Option("--link", help="Leave the features in their .npy file, without a copy.")
    ] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Say how it would go, and write nothing.")
    ] = False,
    overwrite: option.Overwrite = False,
) -> Report:
    """Turn any supported source into a graph store; an interrupted one is resumed."""
    from scr.ingest import ingest as make_store
    from scr.ingest import plan_of

    options = sources.IngestOptions(
        symmetrize=symmetrize, drop_duplicates=not keep_duplicates,
        drop_self_loops=not keep_self_loops, id_column=id_column, label_column=label_column,
        split_column=split_column, features=features,
        splits=_one_split_rule(splits, per_class, random), split=split, seed=seed,
    )  # fmt: skip
    if plan:
        planned = plan_of(source, store, options, memory=memory, link=link)
        console.print(describe_plan(planned))
        if planned.note is not None:
            print_line(planned.note)
        return {"plan": dataclasses.asdict(planned)}
    refuse_existing(store, overwrite=overwrite)
    stopped = (
        "Stopped; the store was not written. What is finished of it is resumed by the same command."
    )
    with when_stopped(stopped), steps_progress() as on_progress:
        graph = make_store(
            source, store, options,
            overwrite=overwrite, memory=memory, link=link, on_progress=on_progress,
        )  # fmt: skip
    console.print(describe(graph))
    print_line(f"Wrote {store}")
    return {"store": store, **graph_facts(graph)}


def _one_split_rule(splits: str | None, per_class: str | None, random: str | None) -> str | None:
    given = {
        "--splits": splits,
        "--per-class": per_class and f"per-class:{per_class}",
        "--random": random and f"random:{random}",
    }
    rules = {option: rule for option, rule in given.items() if rule is not None}
    if len(rules) > 1:
        raise ConfigError("splits", " and ".join(rules), "a single rule, not several")
    return next(iter(rules.values()), None)


def describe_plan(plan: IngestPlan) -> Table:
    """How an ingest will go, ready to print."""
    methods = {
        "memory": "all edges at once, in memory",
        "buckets": "two passes over the edges, and files of parts of them",
    }
    rows = [
        ("method", f"{plan.method}: {methods[plan.method]}"),
        ("memory", f"{size(plan.memory_bytes)} of {compute.readable_bytes(plan.budget)}"),
        ("disk", f"{size(plan.final_bytes)} for the store, at most"),
        ("", f"{size(plan.temporary_bytes)} for the time being"),
        ("time", f"about {plan.seconds:,.0f} seconds"),
    ]
    return facts(rows)


def graph_facts(graph: Graph) -> Report:
    """What a graph holds and what was done to it, in numbers."""
    import numpy as np

    from scr.graph import known_labels

    known = int(np.count_nonzero(known_labels(np.asarray(graph.labels))))
    return {
        "nodes": graph.num_nodes, "edges": graph.num_edges, "directed": graph.directed,
        "features": graph.num_features, "classes": graph.num_classes, "labeled": known,
        "split": {name: len(getattr(graph, name)) for name in ("train", "valid", "test")},
        "steps": graph.steps,
    }  # fmt: skip


def describe(graph: Graph) -> Table:
    """What a graph holds and what was done to it, ready to print."""
    facts_of = graph_facts(graph)
    known, parts = facts_of["labeled"], facts_of["split"]
    split = ", ".join(f"{count:,} {name}" for name, count in parts.items())
    return facts([
        ("nodes", f"{graph.num_nodes:,}"),
        *_rows("types", _types(graph) if graph.is_typed else []),
        ("edges", f"{graph.num_edges:,} stored, {'' if graph.directed else 'un'}directed"),
        *_rows("relations", _relations(graph) if graph.is_typed else []),
        *_rows("features", [] if graph.is_typed else [_width(graph.features)]),
        ("labels", f"{known:,} known, {graph.num_classes:,} classes"),
        ("split", split if any(parts.values()) else "none yet: train with --splits"),
        *_rows("done", graph.steps),
    ])  # fmt: skip


def _rows(name: str, values: Iterable[str]) -> list[tuple[str, str]]:
    """Values below each other, the first of them with their name."""
    return [("" if number else name, value) for number, value in enumerate(values)]


def _width(features: Any) -> str:
    import numpy as np

    if features is None:
        return "none"
    return f"{features.shape[1]:,} {'dense' if isinstance(features, np.ndarray) else 'sparse'}"


def _types(graph: Graph) -> Iterator[str]:
    """How many nodes each type has, and their features; the target comes first."""
    for kind, count in graph.node_types.items():
        is_target = kind == graph.target
        features = graph.features if is_target else graph.other_features.get(kind)
        yield f"{kind}: {count:,}, features: {_width(features)}{' (target)' * is_target}"


def _relations(graph: Graph) -> list[str]:
    """How many edges each relation has, counted in one direction."""
    import numpy as np

    if graph.edge_types is None:
        return []
    counts = np.bincount(np.asarray(graph.edge_types), minlength=2 * len(graph.relations))
    return [f"{name}: {count:,}" for name, count in zip(graph.relations, counts, strict=False)]
