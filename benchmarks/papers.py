"""A graph of the size of ogbn-papers100M, from raw files to predictions, on one small machine.

    python benchmarks/papers.py all                         every step that has no row yet
    python benchmarks/papers.py train --epochs 20           one step, again
    python benchmarks/papers.py all --fraction 0.01         a trial: nodes and edges a hundredth

A synthetic graph with as many nodes, edges, features, classes and labeled nodes as the real one,
which is too large to be handed around. Each step is one command of `scr` in a process of its own:

    synth       raw shards, as a download would leave them
    ingest      a store; then all that is raw is removed but the features, which it links to
    propagate   6 hops, kept for labeled nodes alone
    train       GAMLP + SCR, a few epochs, from those hops
    predict     a Parquet file with all nodes that are kept

Wall seconds, peak memory and disk of each step are written to results/papers.json as they come; a
trial writes beside its data. Memory and disk are those of the whole step, libraries included.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness import RESULTS, Measured, Results, console, measure, remove, say, scr_command, size
from scale import keep_features_only, work_seconds

NODES, EDGES, FEATURES, CLASSES = 111_059_956, 1_615_685_872, 128, 172
TRAIN, VALID, TEST = 1_207_179, 125_265, 214_338
"""Of ogbn-papers100M (Hu et al. 2020, Open Graph Benchmark)."""
STEPS = ("synth", "ingest", "propagate", "train", "predict")
MEMORY_LIMIT, DISK_LIMIT, MINUTES_LIMIT = 16 * 2**30, 75e9, 35
"""Raw files, the store and the buckets between them are on the disk at once while edges are sorted,
which is faster than sorting them in memory."""

Command = list[str]


def main() -> None:
    """Run the steps asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("step", choices=(*STEPS, "all"))
    parser.add_argument("--fraction", type=float, default=1.0, help="of the nodes and edges")
    parser.add_argument("--hops", type=int, default=6)
    parser.add_argument("--ingest-memory", default="16GiB")
    parser.add_argument("--propagate-memory", default="16GiB")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--batch-size", type=int, default=20_000)
    parser.add_argument("--unlabeled-per-batch", type=int, default=5_000)
    parser.add_argument("--refresh-sample", type=int, default=100_000)
    parser.add_argument("--set", action="append", default=[], dest="settings", help="for train")
    parser.add_argument("--work", type=Path, default=Path("papers-work"), help="folder for data")
    parser.add_argument("--out", type=Path, help="JSON to write")
    options = parser.parse_args()
    options.work = options.work.resolve()
    whole = options.fraction == 1
    out = options.out or (RESULTS / "papers.json" if whole else options.work / "papers.json")
    options.work.mkdir(parents=True, exist_ok=True)
    results = Results(out, {"fraction": options.fraction, "hops": options.hops})
    for step in STEPS if options.step == "all" else (options.step,):
        if options.step != "all" or results.find(step=step) is None:
            run_step(step, options, results)
    summarize(results)


def run_step(step: str, options: argparse.Namespace, results: Results) -> None:
    """Run one step anew and record what it took."""
    makers: dict[str, Callable[[argparse.Namespace], Command]] = {
        "synth": synth, "ingest": ingest, "propagate": propagate, "train": train,
        "predict": predict,
    }  # fmt: skip
    products = {
        "synth": ["source", "store"], "ingest": ["store"], "propagate": ["store/hops"],
        "train": ["run"], "predict": ["predictions.parquet"],
    }  # fmt: skip
    remove(*(options.work / name for name in products[step]))
    command = makers[step](options)
    with console.status(step):
        measured = measure(command, folders=[options.work])
    more = after(step, measured, options.work)
    for later in STEPS[STEPS.index(step) + 1 :]:  # they told of what was there before
        results.remove(step=later)
    say(step, results.add({"step": step}, {**measured.row(), **more}))


def synth(options: argparse.Namespace) -> Command:
    """Raw shards."""
    nodes = round(options.fraction * NODES)
    return scr_command(
        "synth", "--source", options.work / "source", "--nodes", nodes,
        "--edges", round(options.fraction * EDGES), "--features", FEATURES, "--classes", CLASSES,
        "--dtype", "float16", "--label-fraction", round(TRAIN / NODES, 6),
        "--valid-fraction", round(VALID / NODES, 6), "--test-fraction", round(TEST / NODES, 6),
    )  # fmt: skip


def ingest(options: argparse.Namespace) -> Command:
    """A store that links to the raw features."""
    source, store = options.work / "source", options.work / "store"
    if not list(source.glob("edges-*")):
        raise SystemExit(f"the raw edges in {source} are gone; run the step `synth` again")
    return scr_command("ingest", source, store, "--link", "--memory", options.ingest_memory)


def propagate(options: argparse.Namespace) -> Command:
    """Hops of labeled nodes, beside the store."""
    return scr_command(
        "propagate", options.work / "store", "--hops", options.hops, "--dtype", "float16",
        "--scale", "none", "--rows", "labeled", "--memory", options.propagate_memory,
    )  # fmt: skip


def train(options: argparse.Namespace) -> Command:
    """GAMLP + SCR; propagation is set as it was done, so that the hops are found."""
    settings = [
        f"propagation.hops={options.hops}", "propagation.dtype=float16", "propagation.norm=sym",
        "data.scale=none", f"encoder.hidden={options.hidden}", f"training.epochs={options.epochs}",
        f"training.batch_size={options.batch_size}",
        f"training.unlabeled_per_batch={options.unlabeled_per_batch}",
        "training.evaluate_every=2", f"consistency.warmup={max(options.epochs // 3, 1)}",
        f"consistency.refresh_sample={options.refresh_sample}", *options.settings,
    ]  # fmt: skip
    return scr_command(
        "train", options.work / "store", "--out", options.work / "run", "--encoder", "gamlp",
        "--regularizer", "scr", "--preset", "many-labels",
        *(word for text in settings for word in ("--set", text)),
    )  # fmt: skip


def predict(options: argparse.Namespace) -> Command:
    """All nodes that are kept."""
    out = options.work / "predictions.parquet"
    return scr_command("predict", options.work / "run", "--out", out, "--probabilities", "top-5")


def after(step: str, measured: Measured, work: Path) -> dict[str, Any]:
    """What else is to be done and told of a step."""
    if step == "ingest":
        keep_features_only(work / "source")
    if step == "propagate":
        return {"work_seconds": work_seconds(measured)}
    if step == "train":
        metrics = json.loads((work / "run" / "metrics.json").read_text(encoding="utf-8"))
        run = json.loads((work / "run" / "run.json").read_text(encoding="utf-8"))
        if run["rows_kept"] == "all":
            raise SystemExit("training did not find the hops that `scr propagate` made")
        names = ("epochs", "train_seconds", "propagate_seconds", "valid_accuracy", "test_accuracy")
        return {name: metrics[name] for name in names}
    if step == "predict":
        import pyarrow.parquet

        file = pyarrow.parquet.ParquetFile(work / "predictions.parquet")
        return {"predicted_nodes": file.metadata.num_rows}
    return {}


def summarize(results: Results) -> None:
    """Print the peaks over all steps beside the limits."""
    if not results.rows:
        return
    memory = max(row["memory_bytes"] for row in results.rows)
    disk = max(row["disk_peak_bytes"] for row in results.rows)
    minutes = sum(row["seconds"] for row in results.rows) / 60
    console.print(
        f"{len(results.rows)} of {len(STEPS)} steps: {minutes:,.1f} of {MINUTES_LIMIT} minutes, "
        f"peak memory {size(memory)} of {size(MEMORY_LIMIT)}, peak disk {size(disk)} of "
        f"{size(DISK_LIMIT)}"
    )
    if memory > MEMORY_LIMIT or disk > DISK_LIMIT or minutes > MINUTES_LIMIT:
        raise SystemExit("more than the limits allow")


if __name__ == "__main__":
    main()
