"""`scr propagate`: hops of a graph on disk, where `scr train` finds them."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from scr import compute, propagation, sources, storage, typed_features
from scr.cli import _options as option
from scr.cli._console import console, facts, print_line, size, steps_progress
from scr.cli._ending import Report, when_stopped
from scr.cli._run import section_settings, shown_command
from scr.config import build
from scr.errors import ConfigError

if TYPE_CHECKING:
    from scr.features import FeatureConfig
    from scr.graph import Graph
    from scr.propagation.disk import DiskPlan, Team


def propagate(
    graph: option.GraphSource,
    hops: Annotated[int, typer.Option(min=0, help="Largest power of the adjacency.")] = 5,
    norm: Annotated[
        Literal["row", "sym", "col"] | None,
        typer.Option(
            help="D^-1 A, D^-1/2 A D^-1/2 or A D^-1. [sym; row with --subsets]", show_default=False
        ),
    ] = None,
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
    features: option.FeaturesFile = None,
    rows: Annotated[
        str,
        typer.Option(
            help="Nodes whose hops are kept: all, labeled (train, valid and test), or a .npy of "
            "node numbers."
        ),
    ] = "all",
    subsets: Annotated[
        str | None,
        typer.Option(
            help="Propagate over subsets of relations, each apart: how many to draw, single (every "
            "relation alone), all (one with all), or a file with one subset per line."
        ),
    ] = None,
    subset_seed: Annotated[int, typer.Option(min=0, help="Decides which subsets are drawn.")] = 0,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="data.key=value, as in training, such as data.missing; may be repeated."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the hops. [beside the store]")
    ] = None,
    disk: Annotated[str, typer.Option(help="Most disk to use, such as 60GB.")] = "auto",
    threads: Annotated[
        int | None, typer.Option(min=1, help="Cores to use. [all]", show_default=False)
    ] = None,
    engine: option.EngineName = "local",
    address: option.Address = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, help="Most workers of the cluster. [as many as it runs]", show_default=False
        ),
    ] = None,
    worker_cores: Annotated[
        int | None,
        typer.Option(
            min=1, help="Threads of a worker. [all of the smallest machine]", show_default=False
        ),
    ] = None,
    worker_memory: Annotated[
        str, typer.Option(help="Most memory of a worker, such as 48GiB.")
    ] = "auto",
    copy_to: Annotated[
        Path | None,
        typer.Option(
            help="Folder on the disk of each machine of the cluster, for a copy of the store. "
            "[workers read the store itself]",
            show_default=False,
        ),
    ] = None,
    plan: Annotated[
        bool,
        typer.Option(
            "--plan",
            help="Only print bytes, disk, passes and time; with --workers and --worker-memory, for "
            "a cluster that need not be there.",
        ),
    ] = False,
    overwrite: option.Overwrite = False,
) -> Report:
    """Compute A^k X for a graph and write the hops, out of core where memory is short.

    A command that was stopped resumes when it is given again.
    """
    from scr.features import FeatureConfig
    from scr.graph import read_nodes
    from scr.propagation.disk import (
        DiskRequest,
        copy_folder,
        form_team,
        opened_team,
        propagate_to_disk,
        store_copy,
    )

    config = propagation.PropagationConfig(
        hops=hops, norm=norm or ("sym" if subsets is None else "row"), self_loops=self_loops,
        direction=direction, dtype=dtype, hop_scale=hop_scale, subset_seed=subset_seed,
    )  # fmt: skip
    if subsets is not None:
        count = int(subsets) if subsets.strip().isdecimal() else subsets
        config = replace(config, subsets=count)
    data = {"scale": scale, "reduce": reduce, "reduce_to": reduce_to}
    data |= section_settings(settings, "data", "data.missing=random")
    with storage.reading_within(compute.process_budget(memory)):
        is_planned = plan and workers is not None and worker_memory != "auto"
        is_remote = is_planned or engine != "local"
        source = _open_graph(graph, features, copy_to, out, is_remote=is_remote)
    kept = propagation.kept_rows(source, read_nodes(rows) if rows.endswith(".npy") else rows)
    chosen = None if subsets is None else propagation.choose_subsets(source, config)
    matrix, identity, steps = _features(
        source, build(FeatureConfig, data, section="data"), memory, is_planned=plan
    )
    path = out or propagation.cached_hops_path(source, config, identity, kept, subsets=chosen)
    request = DiskRequest(source, config, matrix, kept, memory, disk, threads, chosen)
    if path is None and not plan:
        raise ConfigError(
            "--out", "nothing", "a folder, since this graph has no store to put hops beside",
            hint=f"pass `--out DIR`, or first `scr ingest {graph} STORE`",
        )  # fmt: skip
    team: Team | None
    asked: Any = {"workers": workers, "cores": worker_cores, "memory": worker_memory}
    if plan or path is None:
        if workers is not None and worker_memory != "auto":
            team = form_team(None, **asked)
        else:
            with opened_team(engine, address, **asked) as (_, team):
                pass
        request = replace(request, team=team, copy_to=copy_folder(copy_to, source, team))
        planned, copied = request.plan(path or Path("hops")), store_copy(request)
        copied_bytes = 0 if copied is None else copied.bytes
        _print_plan(planned, team, copied_bytes, walks_subsets=chosen is not None)
        return {
            "plan": asdict(planned), "team": None if team is None else asdict(team),
            "copied_bytes": copied_bytes,
        }  # fmt: skip
    if out is None and not overwrite:
        cached = propagation.load_cached_hops(source, config, identity, nodes=kept, subsets=chosen)
        if cached is not None and (kept is not None or cached.nodes_kept is None):
            storage.discard_work(path)
            print_line(f"The hops are there already: {cached.path}")
            return {"hops": cached.path, "count": cached.count, "written": False}
    started = time.perf_counter()
    stopped = f"Stopped; what is finished is resumed by the same command: {shown_command()}"
    with (
        when_stopped(stopped),
        opened_team(engine, address, **asked) as (opened, team),
        steps_progress() as on_progress,
    ):
        request = replace(request, team=team, copy_to=copy_folder(copy_to, source, team))
        written = propagate_to_disk(
            request, path, overwrite=overwrite or out is None, on_progress=on_progress,
            engine=opened,
        )  # fmt: skip
    seconds, memory = time.perf_counter() - started, compute.readable_bytes(compute.peak_bytes())
    for step in steps:
        console.print(f"Features: {step}")
    for number, subset in enumerate(chosen or (), 1):
        print_line(f"Subset {number}: {' '.join(map(str, subset))}")
    print_line(
        f"Wrote {written.count} hops of {written.nodes:,} nodes x {written.features:,} columns in "
        f"{seconds:.1f} s, with at most {memory} of memory: {path}"
    )
    return {
        "hops": path, "count": written.count, "written": True, "nodes": written.nodes,
        "columns": written.features, "seconds": round(seconds, 3), "steps": steps,
        "peak_memory_bytes": compute.peak_bytes(),
        "subsets": None if chosen is None else [[*map(str, subset)] for subset in chosen],
    }  # fmt: skip


def _open_graph(
    graph: str, features: Path | None, copy_to: Path | None, out: Path | None, *, is_remote: bool
) -> Graph:
    """Open a source; of a store at a URL, a copy on this machine."""
    from scr.propagation.disk import fetched_store, is_url

    if not is_url(graph):
        return sources.load_graph(graph, features=features)
    if not is_remote:
        raise ConfigError("--engine", "local", "`ray`, since the store is at a URL")
    for name, value in {"--copy-to": copy_to, "--out": out}.items():
        if value is None:
            raise ConfigError(name, "nothing", "a folder, since the store is at a URL")
    assert copy_to is not None
    path = fetched_store(graph, copy_to.absolute())
    return replace(sources.load_graph(path, features=features), source=graph)


def _features(
    graph: Graph, config: FeatureConfig, memory: str, *, is_planned: bool
) -> tuple[Any, tuple[str, ...], tuple[str, ...]]:
    """X of all nodes, its identity, and what was done to it, in words.

    Features on disk stay there; for a plan, those of several types are not even computed.
    """
    from scr.features import fit_features, transform_lazily

    if typed_features.is_plain(graph, config):
        features = propagation.check_features(graph)
        if getattr(features, "format", None) == "csr":
            _check_sparse(features, config, memory)
        fitted = fit_features(features, config)
        return transform_lazily(fitted, features), fitted.identity, fitted.steps
    # Nodes of other types need features of their own, of as many columns.
    if is_planned:
        planned = typed_features.planned_features(graph, config)
        return planned, planned.fitted.identity, planned.fitted.steps
    with steps_progress() as on_progress:
        completed = typed_features.complete_features(
            graph, config, memory=memory, on_progress=on_progress
        )
    matrix = propagation.check_features(graph, completed.matrix)
    return matrix, tuple(completed.fitted.identity), tuple(completed.steps)


def _check_sparse(features: Any, config: FeatureConfig, memory: str) -> None:
    """Refuse sparse features that do not fit the memory once they are scaled and made dense."""
    from scr.features import sparse_bytes

    rows, columns = features.shape
    compute.check_memory(
        f"Making {rows:,} x {columns:,} sparse features dense takes",
        compute.resident_bytes() + sparse_bytes(features, config), compute.process_budget(memory),
        hint="give more memory, or reduce the columns (`--reduce random --reduce-to 128`)",
        slack=compute.NAMED_SLACK,
    )  # fmt: skip


def _print_plan(
    plan: DiskPlan, team: Team | None, copied_bytes: int, *, walks_subsets: bool
) -> None:
    resumed = {
        None: "each hop of a block is on disk when it is done",
        0: "a block begins again",
        1: "one state on disk, replaced after each hop",
        2: "two states on disk take turns",
    }
    if walks_subsets:
        resumed[0] = "a subset of a block begins again"
    rows = [
        ("memory", f"{size(plan.memory_bytes)} of {compute.readable_bytes(plan.budget_bytes)}"),
        ("hops on disk", f"{size(plan.disk_bytes)}, {plan.rows:,} rows"),
        ("disk at most", f"{size(plan.work_bytes)} of {compute.readable_bytes(plan.free_bytes)}"),
        ("blocks", f"{plan.blocks:,} of up to {plan.block_columns:,} columns"),
        ("passes", f"{plan.passes:,} over the edges{', all in memory' if plan.at_once else ''}"),
        ("after a kill", "all begins again" if plan.at_once else resumed[plan.state_slots]),
        ("time", f"about {plan.seconds:,.0f} s"),
    ]
    if team is not None:
        allowed = compute.readable_bytes(team.memory_bytes)
        idle = team.workers - plan.workers
        spare = f"; {idle} more would have nothing to do" if idle else ""
        kind, lost = "one for each block with all its hops", "blocks that were being computed"
        if plan.row_ranges > 1:
            kind = "ranges of rows of each hop of each block"
            lost = "ranges of rows that were being computed"
        rows[-2:] = [
            ("tasks", f"{plan.tasks:,}, {kind}"),
            ("workers", f"{plan.workers:,}, of {team.cores} threads each{spare}"),
            ("memory of each", f"{size(plan.worker_bytes)} of {allowed}"),
            ("read", f"{size(plan.read_bytes)} by all"),
            ("written", size(plan.written_bytes)),
            *([("copied to each machine", size(copied_bytes))] if copied_bytes else []),
            ("after a kill", f"{lost} begin again"),
            rows[-1],
        ]
    console.print(facts(rows))
