"""What a billion nodes would need, by the plan of `scr propagate --plan --workers N`.

    python benchmarks/billion.py

Prints the tables of docs/concepts/billion-nodes.md: costs that were measured, from the files of
results/, and plans for clusters of machines of a stated size and price. Nothing is computed but the
plans: arrays of the graph have their sizes and no memory.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scr.graph import Graph
from scr.propagation import PropagationConfig
from scr.propagation.disk import DiskPlan, DiskRequest, Team
from scr.storage import READ_SPEED, WRITE_SPEED

RESULTS = Path(__file__).parent / "results"
NODES, EDGES, COLUMNS = 10**9, 20 * 10**9, 128
LABELED = 0.01
"""Share of the nodes whose hops are kept where not all are."""
CORES, MEMORY = 32, 160 * 2**30
"""Of a machine."""
DOLLARS = 2.0
"""Assumed price of such a machine for an hour."""
CASES = (
    (3, 1, "all"), (3, 2, "all"), (3, 4, "all"), (3, 8, "all"), (5, 1, "all"), (5, 4, "all"),
    (3, 4, "labeled"), (5, 4, "labeled"),
)  # fmt: skip
"""Hops, machines and rows that are kept."""
ROOM = 10**15
"""Bytes of disk that the plan may count with."""


@dataclass(frozen=True)
class Need:
    """What one case takes."""

    hops: int
    machines: int
    rows: str
    plan: DiskPlan

    @property
    def joining_seconds(self) -> float:
        """Of the disk that all share: parts and result are written, and parts read again."""
        return self.plan.written_bytes / WRITE_SPEED + 2 * self.plan.read_again_bytes / READ_SPEED

    @property
    def passes_seconds(self) -> float:
        """Of the workers."""
        return self.plan.seconds - self.joining_seconds

    @property
    def network(self) -> float:
        """Bytes per second that each worker reads."""
        edges_and_features = self.plan.read_bytes - self.plan.read_again_bytes
        return edges_and_features / self.plan.workers / self.passes_seconds

    @property
    def dollars(self) -> float:
        """Of all machines for the whole time."""
        return self.machines * self.plan.seconds / 3600 * DOLLARS

    def cells(self) -> list[str]:
        """A row of the table."""
        plan = self.plan
        used = f"{self.machines}" if plan.workers == self.machines else (
            f"{self.machines}, {plan.workers} used"
        )  # fmt: skip
        return [
            f"{self.hops}", self.rows, used, f"{plan.block_columns}",
            f"{plan.worker_bytes / 1e9:.0f} GB", f"{self.passes_seconds / 60:.0f} min",
            f"{self.joining_seconds / 60:.0f} min", f"{self.network / 1e9:.1f} GB/s",
            f"{plan.read_bytes / 1e12:.1f} TB", f"{plan.work_bytes / 1e12:.2f} TB",
            f"${self.dollars:.2f}",
        ]  # fmt: skip


def need(
    hops: int, machines: int, rows: str, *, nodes: int = NODES, edges: int = EDGES,
    columns: int = COLUMNS, memory: int = MEMORY,
) -> Need:  # fmt: skip
    """Plan one case; edges are undirected, and stored in both directions."""
    graph = Graph(
        indptr=_unfilled(2 * edges, np.int64, nodes + 1),
        indices=_unfilled(0, np.int32 if nodes < 2**31 else np.int64, 2 * edges),
        labels=_unfilled(-1, np.int64, nodes),
    )
    kept = None if rows == "all" else _unfilled(0, np.int64, round(LABELED * nodes))
    request = DiskRequest(
        graph, PropagationConfig(hops=hops, dtype="float16"),
        _unfilled(0, np.float16, nodes, columns), kept,
        team=Team(workers=machines, cores=CORES, memory_bytes=memory),
    )  # fmt: skip
    return Need(hops, machines, rows, request.plan(Path("hops"), used_bytes=ROOM))


def _unfilled(value: int, dtype: Any, *shape: int) -> Any:
    return np.broadcast_to(np.asarray(value, dtype), shape)


def plans() -> list[str]:
    """The table of plans, line by line."""
    head = ["hops", "rows", "machines", "columns per block", "memory of each", "passes",
            "putting together", "read by each", "read in all", "disk", "cost"]  # fmt: skip
    return _table(head, [need(*case).cells() for case in CASES])


def measured() -> list[str]:
    """The table of measured costs, line by line."""
    return _table(["what", "measured", "by"], list(_costs()))


def _costs() -> Iterator[list[str]]:
    rows = {name: _rows(name) for name in ("papers", "scale", "products")}
    papers = next(row for row in rows["papers"] if row["step"] == "propagate")
    edges = _number(next(row for row in rows["papers"] if row["step"] == "synth"), "--edges")
    hops = _number(papers, "--hops") - 1  # of the last one, few rows are computed
    nanoseconds = papers["processor_seconds"] / (2 * edges * 4 * hops) * 1e9
    yield ["gathering a cache line for an edge, 111 million nodes in 4 blocks of columns",
           f"{nanoseconds:.0f} ns of a core", "`python benchmarks/papers.py all`"]  # fmt: skip
    ingest = max(
        (row for row in rows["scale"] if row["step"] == "ingest"), key=lambda r: r["nodes"]
    )
    yield ["ingesting an undirected edge, two cores",
           f"{ingest['seconds'] / ingest['undirected_edges'] * 1e9:.0f} ns",
           "`python benchmarks/scale.py curve`"]  # fmt: skip
    products = {row["step"]: row for row in rows["products"]}
    nodes = _number(products["synth"], "--nodes")
    yield ["predicting a node by GAMLP, two cores",
           f"{products['predict']['seconds'] / nodes * 1e6:.0f} µs",
           "`python benchmarks/products.py`"]  # fmt: skip
    content = json.loads((RESULTS / "training.json").read_text(encoding="utf-8"))
    trained = content["problem"]["labeled"] + content["problem"]["confident"]
    yield ["training on a row for an epoch (GAMLP + SCR-m, 512 hidden), two cores",
           f"{content['rows']['scr']['seconds_per_epoch'] / trained * 1e6:.0f} µs",
           "`python benchmarks/training.py`"]  # fmt: skip


def _rows(name: str) -> list[dict[str, Any]]:
    content = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return list(content["rows"])


def _number(row: dict[str, Any], option: str) -> int:
    """The value of an option of the command of a row."""
    words = row["command"].split()
    return int(words[words.index(option) + 1])


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(cells)} |" for cells in lines]


def main() -> None:
    """Print both tables."""
    sys.stdout.write("\n".join([*measured(), "", *plans(), ""]))


if __name__ == "__main__":
    main()
