"""`scr synth`: a synthetic graph of any size, streamed to disk."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from scr.cli import _options as option
from scr.cli._console import console, print_line, steps_progress
from scr.cli._ending import NOTHING_WRITTEN, Report, when_stopped
from scr.cli._replacing import refuse_existing
from scr.cli.commands.ingest import describe, graph_facts
from scr.config import build
from scr.errors import ConfigError

RESUMES = "Stopped; nothing was written. What is finished is resumed by the same command."


def synth(
    store: Annotated[Path | None, typer.Argument(help="The store to make.")] = None,
    nodes: Annotated[int, typer.Option(help="How many nodes.")] = 10_000,
    edges: Annotated[int, typer.Option(help="Undirected edges to draw.")] = 100_000,
    features: Annotated[int, typer.Option(help="Columns of the features.")] = 128,
    classes: Annotated[int, typer.Option(help="Classes of equal size.")] = 10,
    homophily: Annotated[float, typer.Option(help="Share of edges within a class.")] = 0.8,
    signal: Annotated[
        float, typer.Option(help="Length of a class's mean features; their noise is 1.")
    ] = 1.0,
    label_fraction: Annotated[float, typer.Option(help="Share of nodes that train.")] = 0.1,
    valid_fraction: Annotated[float, typer.Option(help="Share of nodes that validate.")] = 0.1,
    test_fraction: Annotated[
        float | None,
        typer.Option(help="Share of nodes that test; other labels are left out. [all the rest]"),
    ] = None,
    shift: Annotated[
        float, typer.Option(help="How far the classes of training nodes differ from the rest.")
    ] = 0.0,
    degree_exponent: Annotated[
        float, typer.Option(help="Of the power law of degrees; above 2.")
    ] = 2.5,
    dtype: Annotated[str, typer.Option(help="Of the features: float32 or float16.")] = "float32",
    seed: Annotated[int, typer.Option(min=0, help="Equal seeds make equal graphs.")] = 0,
    source: Annotated[
        Path | None,
        typer.Option(
            help="Write raw shards for ingest here, instead of a store; after a kill, the same "
            "command resumes."
        ),
    ] = None,
    ogb: Annotated[
        Path | None,
        typer.Option(help="Write files in the layout of ogbn-products here, instead of a store."),
    ] = None,
    shards: Annotated[str, typer.Option(help="Kind of the shards: npy or parquet.")] = "npy",
    overwrite: option.Overwrite = False,
) -> Report:
    """Make a synthetic graph: a degree-corrected block model with features and labels."""
    from scr.graph import open_store
    from scr.synth import SynthConfig, write_synth_ogb, write_synth_shards, write_synth_store

    config = build(SynthConfig, {
        "nodes": nodes, "edges": edges, "features": features, "classes": classes,
        "homophily": homophily, "signal": signal, "label_fraction": label_fraction,
        "valid_fraction": valid_fraction, "test_fraction": test_fraction, "shift": shift,
        "degree_exponent": degree_exponent, "dtype": dtype, "seed": seed,
    }, section="synth")  # fmt: skip
    started = time.perf_counter()
    targets = {"STORE": store, "--source": source, "--ogb": ogb}
    given = [name for name, target in targets.items() if target is not None]
    if len(given) != 1:
        raise ConfigError("STORE, --source or --ogb", " and ".join(given), "one of them")
    if source is not None and shards not in ("npy", "parquet"):
        raise ConfigError("shards", shards, "`npy` or `parquet`")
    target = next(each for each in targets.values() if each is not None)
    refuse_existing(target, overwrite=overwrite)
    with when_stopped(NOTHING_WRITTEN if ogb is not None else RESUMES), steps_progress() as show:
        if source is not None:
            kind: Literal["npy", "parquet"] = "npy" if shards == "npy" else "parquet"
            write_synth_shards(config, source, kind=kind, overwrite=overwrite, on_progress=show)
        elif ogb is not None:
            write_synth_ogb(config, ogb, overwrite=overwrite)
        else:
            write_synth_store(config, target, overwrite=overwrite, on_progress=show)
    if store is not None:
        console.print(describe(open_store(store)))
    seconds = time.perf_counter() - started
    print_line(f"Wrote {target} in {seconds:.1f} s")
    made = {} if store is None else graph_facts(open_store(store))
    return {"folder": target, "seconds": round(seconds, 3), **made}
