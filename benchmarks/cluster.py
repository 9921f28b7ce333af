"""What a Ray cluster brings and costs, with workers of one thread on this machine.

    python benchmarks/cluster.py propagate
    python benchmarks/cluster.py train

`propagate`: a synthetic graph of the size of ogbn-products is propagated by 1, 2 and 4 workers of
one thread each, and by the local engine with as many threads, with memory for the whole result and
without (`parts`): then it writes parts to the disk and puts them together, as workers do. The hops
must be the same bytes. A small graph shows what Ray itself costs. Each is a process of its own,
with as many cores for it and all that it starts as it has workers, as far as there are so many:
otherwise one worker would have the second core to itself for reading and writing. Before each, the
page cache takes all memory that is free, with the store in it. `work_seconds` begin when the
cluster is there and count the start of its workers; `passes_seconds` of them end with the last
block, before they put the hops together; `start_seconds` are those of the cluster. Writes
results/cluster.json.

`train`: epochs of GAMLP + SCR on the hops of a graph of a tenth of that size, by 1 and 2 workers of
one thread each, and by one process with as many threads. Writes results/cluster_training.json.

Rows are kept as they come, each repeat on its own, and a run that was stopped resumes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from harness import (
    RESULTS,
    Results,
    console,
    fill_page_cache,
    measure,
    remove,
    say,
    scr_command,
)  # fmt: skip
from products import CLASSES, EDGES, FEATURES, HOPS, LABELS, NODES

WORKERS = (1, 2, 4)
ENGINES = {"small": ("local", "ray"), "large": ("local", "parts", "ray")}
PARTS_MEMORY = "2GiB"
"""Too little for the result of the large graph."""
SMALL = (10_000, 100_000)
"""Nodes and edges of the graph on which everything but Ray takes no time."""
LEAST_GAIN, MOST_COST = 1.7, 1.15
"""Two workers against one, and against the local engine with two threads."""


def main() -> None:
    """Read the options and run one of the works."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(required=True)
    rows = commands.add_parser("propagate", help="every row that is not there yet")
    rows.add_argument("--nodes", type=int, default=NODES)
    rows.add_argument("--edges", type=int, default=EDGES, help="undirected")
    rows.add_argument("--columns", type=int, default=FEATURES)
    rows.add_argument("--hops", type=int, default=5)
    rows.add_argument("--dtype", default="float16")
    rows.add_argument("--workers", type=int, nargs="+", default=WORKERS)
    rows.add_argument("--repeats", type=int, default=3)
    rows.add_argument("--work", type=Path, default=Path("cluster-work"), help="folder for data")
    rows.add_argument("--keep", action="store_true", help="do not remove the data at the end")
    rows.add_argument("--out", type=Path, default=RESULTS / "cluster.json")
    rows.set_defaults(run=propagate)
    trained = commands.add_parser("train", help="epochs by several workers")
    trained.add_argument("--nodes", type=int, default=NODES // 10)
    trained.add_argument("--edges", type=int, default=EDGES // 10, help="undirected")
    trained.add_argument("--hidden", type=int, default=256)
    trained.add_argument("--epochs", type=int, default=10)
    trained.add_argument("--workers", type=int, nargs="+", default=(1, 2))
    trained.add_argument("--repeats", type=int, default=1)
    trained.add_argument("--work", type=Path, default=Path("cluster-work"), help="folder for data")
    trained.add_argument("--keep", action="store_true", help="do not remove the data at the end")
    trained.add_argument("--out", type=Path, default=RESULTS / "cluster_training.json")
    trained.set_defaults(run=train)
    command = commands.add_parser("command", help="a command of scr, on some cores")
    command.add_argument("cores", type=int)
    command.add_argument("words", nargs=argparse.REMAINDER)
    command.set_defaults(run=run_command)
    one = commands.add_parser("once", help="one propagation, whose seconds are printed")
    one.add_argument("store", type=Path)
    one.add_argument("--engine", required=True, choices=ENGINES["large"])
    one.add_argument("--workers", type=int, required=True)
    one.add_argument("--hops", type=int, required=True)
    one.add_argument("--dtype", required=True)
    one.add_argument("--out", type=Path, required=True)
    one.set_defaults(run=once)
    options = parser.parse_args()
    options.run(options)


def propagate(options: argparse.Namespace) -> None:
    """One row for each engine, number of workers and repeat."""
    names = ("nodes", "edges", "columns", "hops", "dtype")
    results = Results(options.out, {name: getattr(options, name) for name in names})
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    sizes = {"small": SMALL, "large": (options.nodes, options.edges)}
    for graph, (nodes, edges) in sizes.items():
        counts = options.workers if graph == "large" else (1,)
        for repeat in range(options.repeats):
            for workers in counts:
                # One after the other: what else runs on the machine slows both down alike.
                for engine in ENGINES[graph]:
                    step = f"{graph} {engine} {workers} repeat {repeat}"
                    if results.find(step=step):
                        continue
                    store = _store(work / graph, nodes, edges, options.columns)
                    _measure(results, options, step, store, engine, workers)
    _summary(results)
    if not options.keep:
        remove(work)


def _store(store: Path, nodes: int, edges: int, columns: int) -> Path:
    if not store.exists():
        command = scr_command(
            "synth", store, "--nodes", nodes, "--edges", edges, "--features", columns,
            "--classes", CLASSES,
        )  # fmt: skip
        with console.status(f"synth {nodes:,} nodes"):
            measure(command)
            # Compiles what is not compiled yet, and reads the store once.
            measure(scr_command("propagate", store, "--hops", 1, "--dtype", "float16"))
    return store


def _measure(
    results: Results, options: argparse.Namespace, step: str, store: Path, engine: str, workers: int
) -> None:
    out = store.with_name("hops")
    remove(out)
    command = [
        sys.executable, Path(__file__).resolve(), "once", store, "--engine", engine,
        "--workers", workers, "--hops", options.hops, "--dtype", options.dtype, "--out", out,
    ]  # fmt: skip
    with console.status(step):
        fill_page_cache(store.with_name("zeros"), store)
        measured = measure([str(word) for word in command], folders=[store.parent])
    found = json.loads(measured.output.strip().splitlines()[-1])
    graph = store.name
    key = {"graph": graph, "engine": engine, "workers": workers}
    for row in results.rows:
        if row["graph"] == graph and row["hash"] != found["hash"]:
            raise SystemExit(f"{step} made other hops than {row['step']}")
    say(step, results.add({"step": step}, {**key, **found, **measured.row()}))
    remove(out)


def train(options: argparse.Namespace) -> None:
    """One row for each engine, number of workers and repeat."""
    names = ("nodes", "edges", "hidden", "epochs")
    results = Results(options.out, {name: getattr(options, name) for name in names})
    work = options.work.resolve()
    store, run = work / "labeled", work / "run"
    work.mkdir(parents=True, exist_ok=True)
    settings = (
        f"propagation.hops={HOPS}", "propagation.dtype=float16", "data.scale=none",
        f"encoder.hidden={options.hidden}", f"training.epochs={options.epochs}",
        f"consistency.warmup={max(options.epochs // 3, 1)}",
    )  # fmt: skip
    for repeat in range(options.repeats):
        for workers in options.workers:
            for engine in ("local", "ray"):
                step = f"{engine} {workers} repeat {repeat}"
                if results.find(step=step):
                    continue
                if not (store / "hops").exists():
                    remove(store)
                    with console.status("synth and propagate"):
                        _labeled_store(store, options)
                remove(run)
                command = [
                    sys.executable, Path(__file__).resolve(), "command", workers, "train", store,
                    "--out", run, "--encoder", "gamlp", "--regularizer", "scr",
                    "--preset", "many-labels",
                ]  # fmt: skip
                command += [word for text in settings for word in ("--set", text)]
                if engine == "ray":
                    command += ["--engine", "ray", "--workers", workers]
                with console.status(step):
                    measured = measure(
                        [str(word) for word in command], folders=[work], threads=workers
                    )
                metrics = json.loads((run / "metrics.json").read_text(encoding="utf-8"))
                found = {name: metrics[name] for name in ("epochs", "train_seconds")}
                found["valid_accuracy"] = round(metrics["valid_accuracy"], 4)
                key = {"engine": engine, "workers": workers}
                say(step, results.add({"step": step}, {**key, **found, **measured.row()}))
    if not options.keep:
        remove(work)


def _labeled_store(store: Path, options: argparse.Namespace) -> None:
    measure(
        scr_command(
            "synth", store, "--nodes", options.nodes, "--edges", options.edges,
            "--features", FEATURES, "--classes", CLASSES, "--label-fraction", LABELS[0],
            "--valid-fraction", LABELS[1],
        )
    )  # fmt: skip
    measure(
        scr_command("propagate", store, "--hops", HOPS, "--dtype", "float16", "--scale", "none")
    )


def run_command(options: argparse.Namespace) -> None:
    """Run a command of scr, and all that it starts, on so many cores."""
    _use_cores(options.cores)
    from scr.cli import main as scr_main

    sys.argv = ["scr", *options.words]
    scr_main()


def _use_cores(count: int) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def once(options: argparse.Namespace) -> None:
    """Propagate in this process or by workers of a new cluster; prints seconds and a hash."""
    _use_cores(options.workers)
    import scr

    graph = scr.load_graph(str(options.store))
    settings: dict[str, Any] = {"hops": options.hops, "dtype": options.dtype, "out": options.out}
    started = time.perf_counter()
    if options.engine == "ray":
        import ray

        # A new cluster, even where another one runs already.
        ray.init("local", num_cpus=options.workers, include_dashboard=False, log_to_driver=False)
        settings |= {"engine": "ray", "worker_cores": 1, "workers": options.workers}
    else:
        settings["threads"] = options.workers
        settings["memory"] = PARTS_MEMORY if options.engine == "parts" else "auto"
    ready = time.perf_counter()
    computed = ready

    def on_progress(what: str, *_: int) -> None:
        nonlocal computed
        if what == "Propagating":
            computed = time.perf_counter()

    try:
        scr.propagate(graph, on_progress=on_progress, **settings)
        done = time.perf_counter()
    finally:
        if options.engine == "ray":
            ray.shutdown()
    with (options.out / "hops.npy").open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=8)).hexdigest()
    seconds = {
        "start_seconds": round(ready - started, 2),
        "passes_seconds": round(computed - ready, 2),
        "work_seconds": round(done - ready, 2),
    }
    print(json.dumps({**seconds, "hash": digest}))


def _summary(results: Results) -> None:
    """Medians over the repeats, and what they say."""

    def median(graph: str, engine: str, workers: int, name: str = "work_seconds") -> float | None:
        key = {"graph": graph, "engine": engine, "workers": workers}.items()
        found = [row[name] for row in results.rows if key <= row.items()]
        return statistics.median(found) if found else None

    one_passes = median("large", "ray", 1, "passes_seconds")
    one, local_small = median("large", "ray", 1), median("small", "local", 1)
    small, start = median("small", "ray", 1), median("small", "ray", 1, "start_seconds")
    if small is not None and local_small is not None:
        console.print(
            f"Ray on a small graph: {start:.1f} s for the cluster, then {small:.1f} s where the "
            f"local engine takes {local_small:.1f} s"
        )
    for workers in sorted({row["workers"] for row in results.rows if row["graph"] == "large"}):
        ray, local = median("large", "ray", workers), median("large", "local", workers)
        passes = median("large", "ray", workers, "passes_seconds")
        parts = median("large", "parts", workers)
        if None in (ray, local, one, passes, one_passes):
            continue
        wanted = ""
        if workers == 2:
            is_met = one / ray >= LEAST_GAIN and ray / local <= MOST_COST
            wanted = f"; wanted {LEAST_GAIN} and {MOST_COST}: {'met' if is_met else 'not met'}"
        console.print(
            f"{workers} workers: {ray:.1f} s, {one / ray:.2f} times one worker "
            f"({one_passes / passes:.2f} times until hops are put together), "
            f"{ray / local:.2f} times the seconds of {workers} threads{wanted}"
            + ("" if parts is None else f"; {ray / parts:.2f} times those with parts on the disk"),
            soft_wrap=True,
        )


if __name__ == "__main__":
    main()
