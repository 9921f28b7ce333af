"""`scr propagate`: hops of a graph on disk, where `scr train` finds them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from scr.cli.console import console, facts

if TYPE_CHECKING:
    from scr.propagation.plan import PropagationPlan


def propagate(
    graph: Annotated[str, typer.Argument(help="A store, a source, or a dataset name.")],
    hops: Annotated[int, typer.Option(min=0, help="Largest power of the adjacency.")] = 5,
    norm: Annotated[
        Literal["row", "sym", "col"], typer.Option(help="D^-1 A, D^-1/2 A D^-1/2 or A D^-1.")
    ] = "sym",
    self_loops: Annotated[
        bool, typer.Option("--self-loops/--no-self-loops", help="Add the identity first.")
    ] = False,
    direction: Annotated[
        Literal["both", "out", "in", "separate"],
        typer.Option(help="Of a directed graph: ignore it, along edges, against them, both apart."),
    ] = "both",
    hop_scale: Annotated[
        Literal["none", "unit"], typer.Option(help="Rows of all hops as they are, or of length 1.")
    ] = "none",
    dtype: Annotated[
        Literal["float32", "float16"], typer.Option(help="How hops are stored.")
    ] = "float32",
    memory: Annotated[str, typer.Option(help="Most memory to use, such as 4GiB.")] = "auto",
    scale: Annotated[
        Literal["auto", "none", "row", "unit", "standard", "tfidf"],
        typer.Option(help="How features are scaled first, as `data.scale` of training."),
    ] = "auto",
    reduce: Annotated[
        Literal["auto", "none", "svd", "random"],
        typer.Option(help="How columns are made fewer first, as `data.reduce` of training."),
    ] = "auto",
    reduce_to: Annotated[
        int, typer.Option(min=1, help="Columns after a reduction, as `data.reduce_to`.")
    ] = 512,
    features_file: Annotated[
        Path | None,
        typer.Option("--features", help="A .npy with one row of features per node, instead."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the hops. [beside the store]")
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only print bytes, disk and passes.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace hops.")] = False,
) -> None:
    """Compute A^k X for a graph and write the hops, in memory or out of core."""
    from scr.errors import ConfigError
    from scr.graph.features import FeatureConfig, choose_reduction, prepare_features
    from scr.graph.sources import load_graph
    from scr.propagation import PropagationConfig
    from scr.propagation import propagate as propagate_graph
    from scr.propagation.cache import cached_hops_path, load_cached_hops
    from scr.propagation.engine import check_features
    from scr.propagation.plan import plan_propagation

    config = PropagationConfig(
        hops=hops, norm=norm, self_loops=self_loops, direction=direction, dtype=dtype,
        hop_scale=hop_scale,
    )  # fmt: skip
    feature_config = FeatureConfig(scale=scale, reduce=reduce, reduce_to=reduce_to)
    source = load_graph(graph, features=features_file)
    features = check_features(source)
    if plan:
        reduced = choose_reduction(features, feature_config) != "none"
        columns = min(reduce_to, features.shape[1]) if reduced else features.shape[1]
        _print_plan(plan_propagation(source, config, columns, memory=memory, on_disk=True))
        return
    prepared = prepare_features(features, feature_config)
    path = out or cached_hops_path(source, config, prepared.steps)
    if path is None:
        raise ConfigError(
            "--out", "nothing", "a folder, since this graph has no store to put hops beside",
            hint=f"pass `--out DIR`, or first `scr ingest {graph} STORE`",
        )  # fmt: skip
    cached = None if overwrite else load_cached_hops(source, config, prepared.steps)
    if out is None and cached is not None:
        console.print(f"The hops are there already: {path}", soft_wrap=True)
        return
    started = time.perf_counter()
    made = propagate_graph(
        source, hops, norm, self_loops, direction, dtype, memory, prepared.matrix,
        hop_scale=hop_scale, out=path, overwrite=overwrite or out is None,
    )  # fmt: skip
    seconds = time.perf_counter() - started
    for step in prepared.steps:
        console.print(f"Features: {step}")
    console.print(
        f"Wrote {made.count} hops of {made.nodes:,} nodes x {made.features:,} columns in "
        f"{seconds:.1f} s: {path}",
        soft_wrap=True,
    )


def _print_plan(plan: PropagationPlan) -> None:
    from scr.propagation.memory import readable_bytes

    rows = [
        ("memory", f"{plan.memory_bytes:,} bytes ({readable_bytes(plan.memory_bytes)})"),
        ("disk", f"{plan.disk_bytes:,} bytes ({readable_bytes(plan.disk_bytes)})"),
        ("blocks", f"{plan.blocks:,} of up to {plan.block_columns:,} columns"),
        ("passes", f"{plan.passes:,} over the edges"),
    ]
    console.print(facts(rows))
