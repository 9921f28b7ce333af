"""Commands with `--memory`, given as little as they accept: the process never takes more than that.

Most cases are forks of a process that has imported scr, with less allowed for libraries than in
life, so that an array that was forgotten in a plan shows on small graphs; some start from nothing,
with all constants as they are. The system says how much memory a process had at most (VmHWM).
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from campaigns import _fork
from campaigns._campaign import NOTE, Campaign, Result
from campaigns._refusals import complaint
from campaigns._scenarios import run_well

MEGABYTE = 1 << 20
LIBRARIES: Mapping[str, Any] = {
    "scr.propagation.disk._plan:LIBRARY_BYTES": 84 * MEGABYTE,
    "scr.ingest._plan:MARGIN_BYTES": 84 * MEGABYTE,
    "scr.ingest._plan:LARGE_EDGES": 1,
    "scr.ingest._plan:SMALLEST_BUCKET": 1 << 16,
}
"""Compiled loops and pages of libraries that a fork touches take 70 MB on the smallest graph."""
DIRECT: Mapping[str, Any] = {"scr.storage._file_rows:DIRECT_BYTES": MEGABYTE}
"""Small files are read past the page cache as well."""
NAMED_SLACK = 16 * MEGABYTE
"""What the error of `scr propagate` adds to the least that is accepted."""
FIRST, MOST_TRIES = 64 * MEGABYTE, 6
"""The budget that is tried first, which is too small for any command."""
SHAPE = "--nodes 120000 --edges 500000 --features 64 --classes 4"
SOURCES: Mapping[str, str] = {
    "shards": f"synth --source shards {SHAPE}",
    "parquet": f"synth --source parquet --shards parquet {SHAPE}",
    "ogb": "synth --ogb ogb --nodes 30000 --edges 200000 --features 16 --classes 4",
    "dense": f"synth dense {SHAPE}",
    "half": f"synth half {SHAPE} --dtype float16",
}
PROPAGATIONS = (
    "dense", "dense --scale standard", "dense --scale unit", "half", "half --scale standard",
    "directed --direction separate", "directed --direction in", "sparse", "sparse --scale tfidf",
    "sparse --scale standard", "sparse --reduce svd --reduce-to 64",
    "typed", "typed --subsets single", "foreign", "weighted --scale row",
)  # fmt: skip
INGESTS = ("shards", "parquet", "ogb", "tables", "bundle.npz", "typed.npz")


@dataclass(frozen=True)
class _Run:
    """How a command ended, and the most memory that it had."""

    ended: _fork.Ended
    peak: int


class Budgets(Campaign):
    """Peaks of memory against budgets."""

    name = "budgets"
    title = "`propagate` and `ingest` with the least `--memory` they accept, and more"
    cases = 300
    minutes = 8
    seconds = 400
    good = frozenset({"within"})

    def skip(self) -> str | None:
        """Peaks are counted as Linux does."""
        return None if sys.platform == "linux" else "peaks of memory are those of Linux"

    def prepare(self, shared: Path) -> None:
        """Make sources and stores of all kinds."""
        _fork.import_everything()
        for line in SOURCES.values():
            run_well(line, shared, shared / "log.txt")
        _write_sources(shared)
        _write_stores(shared)
        _compile(shared)

    def start(self, shared: Path) -> None:
        """Import scr once, and use its compiled loops, which stay in memory."""
        self.shared = shared
        _fork.import_everything()

    def run(self, number: int, random: np.random.Generator, folder: Path) -> Result:
        """One command with one budget."""
        words, kind = self._command(number, random, folder)
        is_fresh = number % 12 == 11
        constants = {} if is_fresh else dict(LIBRARIES)
        if random.random() < 0.5 and not is_fresh:
            constants |= DIRECT
        more = float(random.choice([1.0, 1.0, 1 + 0.5 * random.random()]))
        what = f"scr {' '.join(words)}" + (", a process of its own" if is_fresh else "")
        (folder / NOTE).write_text(f"{kind}\n{what}", encoding="utf-8")
        budget, log = FIRST, folder / "log.txt"
        for _ in range(MOST_TRIES):
            given = [*words, "--memory", str(int(budget))]
            done = (_fresh if is_fresh else _forked)(given, folder, log, constants)
            if done.ended.code == 0:
                break
            outcome, detail = complaint(done.ended, names_file=False)
            if outcome:
                return Result(outcome=outcome, kind=kind, what=what, detail=detail)
            smallest = _named(done.ended.output)
            if smallest is None:
                return Result(
                    outcome="another refusal", kind=kind, what=what, detail=done.ended.output[-300:]
                )
            budget = _next(budget, smallest, more, is_propagated=words[0] == "propagate")
        else:
            return Result(
                outcome="named budget refused", kind=kind, what=what,
                detail=done.ended.output[-300:],
            )  # fmt: skip
        found = f"{done.peak / MEGABYTE:.1f} of {budget / MEGABYTE:.1f} MB"
        outcome = "within" if done.peak <= budget else "over"
        return Result(outcome=outcome, kind=kind, what=f"{what} --memory {budget}", detail=found)

    def _command(
        self, number: int, random: np.random.Generator, folder: Path
    ) -> tuple[list[str], str]:
        """The words of a command, and what it is counted as."""
        kinds = [*PROPAGATIONS, *(f"ingest {name}" for name in INGESTS)]
        kind = kinds[number % len(kinds)]
        if kind.startswith("ingest "):
            return ["ingest", str(self.shared / kind.split()[1]), "made"], kind
        name, *options = kind.split()
        store = self.shared / name
        if name == "foreign":
            store = folder / name
            shutil.copytree(self.shared / "dense", store)
            (store / "verified.json").unlink(missing_ok=True)
        options += ["--hops", str(random.integers(1, 4)), "--out", "hops"]
        options += [] if "--reduce" in options else ["--reduce", "none"]
        options += ["--dtype", str(random.choice(["float32", "float16"]))]
        options += ["--threads", str(random.choice([1, 2, 4]))]
        if "--subsets" not in options:
            options += ["--norm", str(random.choice(["sym", "row"]))]
        if random.random() < 0.3:
            options += ["--rows", "labeled"]
        return ["propagate", str(store), *options], f"propagate {kind}"


def _named(output: str) -> int | None:
    """The largest size that a refusal names."""
    from scr.config import parse_bytes

    sizes = re.findall(r"\d+(?:\.\d+)?[KMG]iB", output.replace("\n", " "))
    return max((parse_bytes(size) for size in sizes), default=None)


def _next(before: int, named: int, more: float, *, is_propagated: bool) -> int:
    """The budget to try next: the least that may be accepted, or somewhat more."""
    least = named - NAMED_SLACK + MEGABYTE // 4 if is_propagated else named
    if least <= before:
        least = max(named, before) + MEGABYTE
    return int(least * more)


def _forked(words: list[str], folder: Path, log: Path, constants: Mapping[str, Any]) -> _Run:
    peak = folder / "peak.txt"
    ended = _fork.run_command(
        words, folder, log, constants=constants, timeout=300, before=lambda: _report_peak(peak)
    )
    return _Run(ended, int(peak.read_text()) if peak.exists() else 0)


def _report_peak(file: Path) -> None:
    """Write the peak of this process when it ends."""
    end = os._exit

    def report(code: int) -> None:
        from scr.compute import peak_bytes

        file.write_text(str(peak_bytes()))
        end(code)

    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    os._exit = report  # type: ignore[assignment]


_FRESH = """
import sys
from scr.cli import main
from scr.compute import peak_bytes
try:
    main(sys.argv[2:])
finally:
    with open(sys.argv[1], "w") as file:
        file.write(str(peak_bytes()))
"""


def _fresh(words: list[str], folder: Path, log: Path, constants: Mapping[str, Any]) -> _Run:
    assert not constants
    peak, began = folder / "peak.txt", time.monotonic()
    with log.open("wb") as output:
        done = subprocess.run(
            [sys.executable, "-c", _FRESH, str(peak), *words], cwd=folder, stdout=output,
            stderr=output, check=False, timeout=300,
        )  # fmt: skip
    text = log.read_text(encoding="utf-8", errors="replace")
    ended = _fork.Ended(done.returncode, time.monotonic() - began, text)
    return _Run(ended, int(peak.read_text()) if peak.exists() else 0)


def _compile(shared: Path) -> None:
    """Run everything once: compiling takes more memory than `LIBRARIES` leaves for it."""
    for kind in PROPAGATIONS:
        name, *words = kind.split()
        if name == "foreign":
            continue
        norms = [] if "--subsets" in words else ["--norm sym", "--norm row"]
        for dtype, norm in itertools.product(("float32", "float16"), norms or [""]):
            options = f"{' '.join(words)} --dtype {dtype} {norm} --hops 2 --out compiled"
            for rows in ("", "--rows labeled"):
                run_well(f"propagate {name} {options} {rows}", shared, shared / "log.txt")
                shutil.rmtree(shared / "compiled")
    for name in INGESTS:
        run_well(f"ingest {name} compiled", shared, shared / "log.txt")
        shutil.rmtree(shared / "compiled")


def _write_sources(shared: Path) -> None:
    """Tables and `.npz` files."""
    import pyarrow as pa
    import pyarrow.csv

    random, nodes, edges = np.random.default_rng(0), 60_000, 300_000
    (shared / "tables").mkdir()
    columns = {f"x{column}": random.random(nodes) for column in range(12)}
    table = {"id": np.arange(nodes), "label": random.integers(0, 3, nodes)} | columns
    pa.csv.write_csv(pa.table(table), shared / "tables" / "nodes.csv")
    ends = random.integers(0, nodes, (2, edges))
    pa.csv.write_csv(
        pa.table({"source": ends[0], "target": ends[1]}), shared / "tables" / "edges.csv"
    )
    features = random.standard_normal((nodes, 64), dtype=np.float32)
    labels, half = random.integers(0, 3, nodes), nodes // 2
    np.savez_compressed(shared / "bundle.npz", edge_index=ends, x=features, y=labels)
    np.savez(
        shared / "typed.npz", node_types=["paper", "author"], num_nodes=[half, half],
        target_type="paper", y=labels[:half],
        **{"x:paper": features[:half], "x:author": features[half:],
           "rel:author:writes:paper": ends % half, "rel:paper:cites:paper": ends[::-1] % half},
    )  # fmt: skip


def _write_stores(shared: Path) -> None:
    """Graphs with directions, with weights, with sparse features and of two types."""
    import scipy.sparse as sp

    from scr.graph import Graph, write_store

    random, nodes, edges = np.random.default_rng(0), 120_000, 500_000
    labels = np.where(np.arange(nodes) % 10, -1, np.arange(nodes) % 4)
    ends = (nodes * random.random((2, edges)) ** 2).astype(np.int64)
    features = random.standard_normal((nodes, 48), dtype=np.float32)
    train = np.arange(0, nodes, 10)
    common: dict[str, Any] = {"labels": labels, "features": features, "train": train}
    write_store(Graph.from_edges(ends, undirected=False, **common), shared / "directed")
    weights = random.random(edges).astype(np.float32)
    write_store(Graph.from_edges(ends, weights=weights, **common), shared / "weighted")
    sparse = sp.random_array((nodes, 200), density=0.4, format="csr", rng=random, dtype=np.float32)
    write_store(
        Graph.from_edges(ends, labels=labels, features=sparse, train=train), shared / "sparse"
    )
    half = nodes // 2
    relations = {
        ("author", "writes", "paper"): ends % half,
        ("paper", "cites", "paper"): ends[::-1] % half,
    }
    typed = Graph.from_relations(
        relations, features={"paper": features[:half]}, labels=labels[:half], target="paper",
        train=train[: len(train) // 2],
        num_nodes={"paper": half, "author": half},
    )  # fmt: skip
    write_store(typed, shared / "typed")
