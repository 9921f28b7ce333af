"""Time and memory against the size of a graph, and a graph within a given memory.

    python benchmarks/scale.py curve
    python benchmarks/scale.py budget

`curve` makes graphs of 10^5 to 10^8 nodes, all with the same degree and columns, and takes each
through `scr synth`, `scr ingest` and `scr propagate` as a user would, one process per command.
torch and SciPy do the same propagation in memory, in float32, where that fits. `propagate` is
repeated, and the median counts: on a virtual machine, memory that the host took back takes long to
come again, and how much of it did so differs. Writes results/scale.json.

`budget` propagates 20 million nodes and 200 million edges with 128 columns within 4 GiB, compares
the hops with those that NumPy and the engine in memory make of them, then does it again with three
kills at random moments: the hops must be the same bytes. Writes results/budget.json.

Rows are kept as they come; a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from pathlib import Path
from typing import Any

from harness import (
    RESULTS,
    Measured,
    Results,
    console,
    measure,
    remove,
    say,
    scr_command,
    stored_edges,
)

SIZES = (10**5, 10**6, 10**7, 10**8)
PEERS = ("torch", "scipy")
WORKER = Path(__file__).with_name("scale_worker.py")

KEPT_SHARE = 0.03
"""Share of the nodes that are labeled, a third each for training, validation and test."""


def main() -> None:
    """Read the options and run one of the two."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(required=True)
    curve_parser = commands.add_parser("curve", help="time and memory against size")
    curve_parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="nodes")
    curve_parser.add_argument("--degree", type=int, default=5, help="undirected edges per node")
    curve_parser.add_argument("--columns", type=int, default=32)
    curve_parser.add_argument("--hops", type=int, default=2)
    curve_parser.add_argument("--memory", default="12GiB", help="of each command")
    curve_parser.add_argument("--repeats", type=int, default=3, help="of `propagate`")
    curve_parser.add_argument("--peers-to", type=int, default=10**7, help="nodes")
    curve_parser.add_argument("--out", type=Path, default=RESULTS / "scale.json")
    curve_parser.set_defaults(run=curve)
    budget_parser = commands.add_parser("budget", help="a graph within a given memory")
    budget_parser.add_argument("--nodes", type=int, default=20_000_000)
    budget_parser.add_argument("--edges", type=int, default=200_000_000, help="undirected")
    budget_parser.add_argument("--columns", type=int, default=128)
    budget_parser.add_argument("--hops", type=int, default=3)
    budget_parser.add_argument("--memory", default="4GiB")
    budget_parser.add_argument("--kills", type=int, default=3)
    budget_parser.add_argument("--seed", type=int, default=0, help="of the moments of the kills")
    budget_parser.add_argument("--out", type=Path, default=RESULTS / "budget.json")
    budget_parser.set_defaults(run=budget)
    for each in (curve_parser, budget_parser):
        each.add_argument("--work", type=Path, default=Path("scale-work"), help="folder for data")
        each.add_argument("--keep", action="store_true", help="do not remove the data at the end")
    options = parser.parse_args()
    options.work = options.work.resolve()  # commands and linked files name it
    options.run(options)


def curve(options: argparse.Namespace) -> None:
    """One row per size and step."""
    names = ("degree", "columns", "hops", "memory")
    results = Results(options.out, {name: getattr(options, name) for name in names})
    for nodes in options.sizes:
        peers = PEERS if nodes <= options.peers_to else ()
        steps = ("synth", "ingest", "propagate", *peers)
        if all(results.find(nodes=nodes, step=step) for step in steps):
            continue
        folder = options.work / f"{nodes}"
        made = {"synth": folder / "source", "ingest": folder / "store"}
        for step in steps:
            product = made.get(step)
            if results.find(nodes=nodes, step=step) and (product is None or product.exists()):
                continue
            if product is not None:
                remove(product)
            _curve_step(results, options, nodes, step, folder)
        if not options.keep:
            remove(folder)


def _curve_step(
    results: Results, options: argparse.Namespace, nodes: int, step: str, folder: Path
) -> None:
    source, store = folder / "source", folder / "store"
    drawn = nodes * options.degree
    commands = {
        "synth": synth_command(source, nodes=nodes, edges=drawn, columns=options.columns),
        "ingest": scr_command("ingest", source, store, "--link", "--memory", options.memory),
        "propagate": scr_command(
            "propagate", store, "--hops", options.hops, "--dtype", "float16", "--scale", "none",
            "--rows", "labeled", "--memory", options.memory,
        ),
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    worker = [sys.executable, WORKER, step, store, "--hops", options.hops]
    found = []
    for _ in range(options.repeats if step == "propagate" else 1):
        remove(store / "hops")
        found.append(measure(commands.get(step, worker), folders=[folder]))
    measured = sorted(found, key=work_seconds)[len(found) // 2]
    row = {**measured.row(), "undirected_edges": drawn}
    if len(found) > 1:
        row["work_seconds_of_repeats"] = [work_seconds(each) for each in found]
    if step == "ingest":
        keep_features_only(source)
        row["disk_bytes"] = measured.disk_bytes  # as the command left it
    elif step != "synth":
        seconds = work_seconds(measured)
        row["stored_edges"] = stored_edges(store)
        row["work_seconds"] = seconds
        # Of the last hop, ours computes the kept rows only: it counts as the share that they are.
        hops = options.hops - 1 + KEPT_SHARE if step == "propagate" else options.hops
        row["ns_per_edge_and_hop"] = round(seconds / row["stored_edges"] / hops * 1e9, 3)
    say(f"{nodes:,} nodes, {step}", results.add({"nodes": nodes, "step": step}, row))


def synth_command(source: Path, *, nodes: int, edges: int, columns: int) -> list[str]:
    """Shards of a graph with few labels."""
    return scr_command(
        "synth", "--source", source, "--nodes", nodes, "--edges", edges, "--features", columns,
        "--dtype", "float16", "--classes", 16, "--label-fraction", KEPT_SHARE / 3,
        "--valid-fraction", KEPT_SHARE / 3, "--test-fraction", KEPT_SHARE / 3,
    )  # fmt: skip


def keep_features_only(source: Path) -> None:
    """Free the disk of what the store holds now; the features stay, the store links to them."""
    for file in source.iterdir():
        if file.name != "features.npy":
            file.unlink()


def work_seconds(measured: Measured) -> float:
    """Seconds that a command says of its own work, without its start; else all its seconds."""
    said = re.findall(r"\bin ([0-9.]+) s\b", measured.output)
    return float(said[-1]) if said else measured.seconds


def budget(options: argparse.Namespace) -> None:
    """Propagate within the budget, compare, then do it again with kills."""
    names = ("nodes", "edges", "columns", "hops", "memory", "kills", "seed")
    results = Results(options.out, {name: getattr(options, name) for name in names})
    source, store = options.work / "source", options.work / "store"
    options.work.mkdir(parents=True, exist_ok=True)
    propagate = scr_command(
        "propagate", store, "--hops", options.hops, "--dtype", "float16", "--scale", "none",
        "--memory", options.memory,
    )  # fmt: skip
    drawn = synth_command(source, nodes=options.nodes, edges=options.edges, columns=options.columns)
    if not (results.find(step="ingest") and store.exists()):
        for step in ("synth", "ingest", "propagate", "check", "killed"):
            results.remove(step=step)
        remove(store, source)
        _record(results, "synth", measure(drawn, folders=[options.work]))
        ingest = scr_command("ingest", source, store, "--link", "--memory", options.memory)
        _record(results, "ingest", measure(ingest, folders=[options.work]))
        keep_features_only(source)
    if not results.find(step="propagate"):
        remove(store / "hops")
        measured = measure(propagate, folders=[options.work])
        more = {
            "hash": _check(options, store, "hash")["hash"],
            "work_seconds": work_seconds(measured),
        }
        _record(results, "propagate", measured, **more)
        _require(measured.memory_bytes < _bytes(options.memory), "the memory is within the budget")
    if not results.find(step="check"):
        found = _check(options, store, "check")
        results.add({"step": "check"}, found)
        console.print(f"compared: {found}")
        _require(found["in_memory_equal"], "16 columns of all hops are those made in memory")
        _require(found["worst_error"] < 1, "sampled rows of hop 1 are those of NumPy")
    if not results.find(step="killed"):
        _with_kills(options, results, propagate, store)
    if not options.keep:
        remove(options.work)


def _with_kills(
    options: argparse.Namespace, results: Results, propagate: list[str], store: Path
) -> None:
    """The same propagation, killed several times and started again."""
    undisturbed = results.find(step="propagate")
    assert undisturbed is not None
    draw, left = random.Random(options.seed), float(undisturbed["seconds"])
    remove(store / "hops")
    moments: list[float] = []
    for _ in range(options.kills):
        measured = measure(
            propagate, folders=[options.work], kill_after=draw.uniform(0.1, 0.6) * left, check=False
        )
        _require(measured.code == -9, "a kill comes before the end")
        moments.append(round(measured.seconds, 1))
        left = max(left - measured.seconds, 0.2 * left)
        console.print(f"killed after {measured.seconds:.1f} s")
    measured = measure(propagate, folders=[options.work])
    found = _check(options, store, "hash")["hash"]
    _record(results, "killed", measured, killed_after_seconds=moments, hash=found,
            same_bytes=found == undisturbed["hash"])  # fmt: skip
    _require(found == undisturbed["hash"], "hops after kills are the same bytes")


def _record(results: Results, step: str, measured: Measured, **more: Any) -> None:
    say(step, results.add({"step": step}, {**measured.row(), **more}))


def _check(options: argparse.Namespace, store: Path, what: str) -> dict[str, Any]:
    command = [sys.executable, WORKER, what, store, "--hops", str(options.hops)]
    found: dict[str, Any] = json.loads(measure(command).output.strip().splitlines()[-1])
    return found


def _require(truth: bool, what: str) -> None:
    if not truth:
        raise SystemExit(f"not so: {what}")
    console.print(f"[green]✓[/] {what}")


def _bytes(text: str) -> int:
    from scr.config import parse_bytes

    return parse_bytes(text)


if __name__ == "__main__":
    main()
