"""How long a propagation out of core will take, and what it reads and writes beside its result."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from scr.compute import CACHE_LINE
from scr.graph import edge_bytes
from scr.storage import READ_SPEED, WRITE_SPEED

if TYPE_CHECKING:
    from scr.propagation.disk._plan import DiskRequest
    from scr.propagation.disk._row_ranges import Cuts

LINES_PER_SECOND = 40e6
"""Cache lines that one core gathers from all over gigabytes of memory in a second; three times as
many from a few hundred megabytes, where an estimate is of no use anyway."""
TASK_SECONDS = 0.2
"""What a range of rows of one hop takes beside its work: to be asked for, and to open and close
files."""


@dataclass(frozen=True)
class Costs:
    """Of what is requested, with blocks of so many columns, and ranges of rows."""

    request: DiskRequest
    width: int
    count: int = 1
    """Ranges of rows of each hop, as far as slabs allow; 1: a worker computes whole blocks."""
    cuts: Cuts | None = None
    """These ranges."""
    slots: int = 0
    """Whole hops of a block that are kept where the result has only some rows of them."""

    @property
    def blocks(self) -> int:
        """Blocks of columns."""
        return -(-self.request.columns // self.width) if self.request.columns else 0

    @property
    def ranges(self) -> int:
        """Of rows, that workers share."""
        return 1 if self.cuts is None else len(self.cuts)

    @property
    def tasks(self) -> int:
        """That are given to workers."""
        hops = self.request.config.hops * len(self.request.walks)
        hops += not self.request.reads_features_again
        return self.blocks * (1 if self.ranges == 1 else self.ranges * hops)

    @property
    def seconds(self) -> float:
        """Of all blocks; edges are read while the cores work."""
        team = self.request.team
        rounds = self.blocks if team is None else -(-self.blocks * self.ranges // team.workers)
        return rounds * (
            self.block_seconds if self.cuts is None else self._range_seconds(self.cuts)
        )

    @cached_property
    def block_seconds(self) -> float:
        """Of one block."""
        config, graph, total = self.request.config, self.request.graph, 0.0
        state, slots = self._hop_bytes / WRITE_SPEED, self.slots
        for _, count in self.request.walks:
            gathered, read = self._gathering(count), edge_bytes(graph, count) / READ_SPEED
            per_pass = max(gathered, read, state * (slots == 2))
            per_pass += state * (slots == 1)  # only two states are written while the cores work
            # Of the last hop of each walk, only rows that are kept are computed.
            last = max(gathered * self.request.kept / max(graph.num_nodes, 1), read)
            total += (config.hops - 1) * per_pass + last
        return total + self.features_bytes / READ_SPEED * max(len(self.request.walks), 1)

    def _range_seconds(self, cuts: Cuts) -> float:
        """Of the largest range of rows in all hops of one block."""
        total, hops = 0.0, self.request.config.hops
        for _, count in self.request.walks:
            read = edge_bytes(self.request.graph, count) / READ_SPEED
            loaded = self.features_bytes + (hops - 1) * self._hop_bytes
            total += cuts.largest * hops * max(self._gathering(count), read)
            total += loaded / READ_SPEED + hops * TASK_SECONDS
        return total

    @property
    def read_bytes(self) -> int:
        """Edges of every hop, and features of every walk; ranges of rows read the hops before."""
        request, edges = self.request, 0
        for _, count in request.walks:
            edges += request.config.hops * edge_bytes(request.graph, count)
        loaded = max(len(request.walks), 1) * self.features_bytes
        if self.ranges > 1:
            loaded += len(request.walks) * (request.config.hops - 1) * self._hop_bytes
        return int(self.blocks * (edges + self.ranges * loaded))

    @property
    def features_bytes(self) -> int:
        """Of all columns."""
        request = self.request
        return int(request.graph.num_nodes * request.columns * request.source.dtype.itemsize)

    @property
    def _hop_bytes(self) -> int:
        """Of all rows of one hop of a block."""
        return self.request.graph.num_nodes * self.width * self.request.item

    def _gathering(self, edges: int) -> float:
        """Seconds of the cores for one hop of a block."""
        cores = self.request.cores
        if self.request.team is None:
            cores = min(cores, os.cpu_count() or 1)
        lines = -(-self.width * self.request.item // CACHE_LINE)
        return edges * lines / (LINES_PER_SECOND * cores)
