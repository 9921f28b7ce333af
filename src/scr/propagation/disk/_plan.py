"""What a propagation out of core will take: memory of the whole process, disk, passes, time.

The plan picks the widest block of columns (`_out_of_core.py`) that fits, in whole cache lines where
it can: a narrower row costs as much to gather.

Memory counts everything: the interpreter with its libraries, the bounds and scales of the rows,
the buffers of the edges, the two matrices, and what puts the result together at the end.
"""

from __future__ import annotations

import functools
import os
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scr.compute import (
    CACHE_LINE,
    NAMED_SLACK,
    check_memory,
    default_threads,
    process_budget,
    readable_bytes,
    resident_bytes,
)
from scr.config import parse_bytes
from scr.errors import MemoryBudgetError, StoreError
from scr.graph import edge_bytes, selection_bytes
from scr.propagation._config import PropagationConfig
from scr.propagation._normalization import preparing_bytes, turned_bytes
from scr.propagation._plan import NARROWEST_BLOCK, block_widths, fast_block, padded, subset_sizes
from scr.propagation._steps import filling_bytes
from scr.propagation._walks import Subsets, Way, matrices_of, ways_of
from scr.propagation.disk._disk_plan import DiskPlan
from scr.propagation.disk._edge_chunks import CHUNK_EDGES
from scr.propagation.disk._reach import most_rows, reach_bytes
from scr.propagation.disk._team import Team
from scr.propagation.kernel import _rows
from scr.propagation.kernel._tiles import TILED_BYTES, buffer_bytes
from scr.storage import READ_SPEED, WRITE_SPEED

if TYPE_CHECKING:
    from scr.graph import Graph

LINES_PER_SECOND = 40e6
"""Cache lines that one core gathers from all over gigabytes of memory in a second; three times as
many from a few hundred megabytes, where an estimate is of no use anyway."""
STATE_SECONDS = 300.0
"""Work that a kill may cost: a block of columns that takes less begins again, because writing its
hops would slow down every run that is not killed."""
AT_ONCE_BYTES = 256 * 2**20
"""Size of a result from which on its parts are kept in memory if they fit: writing and reading
them would take longer than computing them."""
LIBRARY_BYTES = 128 * 2**20
"""What compiled code, threads and small arrays will take beside the memory in use already."""
WORKER_BYTES = 384 * 2**20
"""As much as a worker of a cluster takes before it has opened the graph, with all libraries."""
SLAB_BYTES = (24 * 2**20, 192 * 2**20)
"""Fewest and most bytes of a slab of the result; some are put together at once, up to the most."""
BEHIND = 2
"""Slabs, or groups of them, that are written and hashed at once, all but one of them while the next
one is read; until they are on the disk, so are their parts."""
SLABS = BEHIND + 2
"""Times that slabs are in memory: those that are written, the next one, and its parts."""
SLAB_ROWS = 1 << 13
"""Slabs are a multiple of this where they can be, so that rows are scaled in the same steps as in
memory."""


@dataclass(frozen=True, eq=False)
class DiskRequest:
    """What is to be propagated to disk, and within what."""

    graph: Graph
    config: PropagationConfig
    source: Any
    """X, as `check_features` returns it."""
    rows: NDArray[np.int64] | None = None
    """Sorted numbers of the nodes to keep; none: all of the target type."""
    memory: str | int = "auto"
    """Most memory of the whole process."""
    disk: str | int = "auto"
    """Most disk for the work and the result; `auto`: all that is free."""
    threads: int | None = None
    subsets: Subsets = None
    """Subsets of relations that are walked apart, if they are."""
    team: Team | None = None
    """Workers of a cluster that compute the blocks; none: this process does."""
    copy_to: Path | None = None
    """Folder of each machine of the cluster for a copy of the store; none: all read the store."""

    def plan(
        self, target: Path, *, used_bytes: int = 0, block_columns: int | None = None
    ) -> DiskPlan:
        """Choose the widest block of columns that fits memory and the disk of the target.

        Disk that earlier work on the same target takes, `used_bytes`, will be used again; the width
        of its blocks, `block_columns`, is taken if it fits. Errors name what it takes at least.
        """
        narrowest = min(self.columns, NARROWEST_BLOCK)
        budget = process_budget(self.memory) if self.team is None else self.team.memory_bytes
        spare_rows = self.graph.num_nodes
        if self._memory_bytes(self.columns, spare_rows) > budget:
            spare_rows = self._spare_rows()  # which takes a look at all rows
        memory = functools.partial(self._memory_bytes, spare_rows=spare_rows)
        if memory(narrowest) > budget:
            raise self._too_little_memory(budget, memory(narrowest) + NAMED_SLACK)
        widths = block_widths(self.columns, CACHE_LINE // self._item)
        fitting = [each for each in widths if memory(each) <= budget] or [narrowest]
        if block_columns is not None and block_columns <= fitting[0]:
            width = block_columns
        elif self.team is None:
            width = fitting[0]
        else:
            # Every worker should have a block. Of widths that take as long, the widest is best.
            width = min(fitting, key=lambda each: self._passes_seconds(each, 0))
            if width > NARROWEST_BLOCK:  # padded to as many columns, all have as much to write
                even = -(-self.columns // -(-self.columns // width))
                width = max(even, NARROWEST_BLOCK)
        free = _free_disk(target, self.disk) + used_bytes
        if self._disk_bytes > free:
            raise StoreError(
                f"The hops and the work on them take {readable_bytes(self._disk_bytes)} on disk at "
                f"`{target.parent}`; {readable_bytes(free)} may be used",
                hint="free some space, write elsewhere, or keep fewer rows (those of labeled "
                "nodes), fewer hops or float16",
            )
        at_once = block_columns is None and self._is_held(budget)
        if at_once:
            width = self.columns
        state = 0 if at_once else self._state_bytes(width)
        is_stored = (
            state > 0 and self.team is None and self.config.hops > 1
            and self._block_seconds(width, 0) > STATE_SECONDS
        )  # fmt: skip
        slots = min((free - self._disk_bytes) // state, 2) if is_stored else 0
        slabs = (
            1
            if at_once
            else self._slabs(
                width * (self.graph.num_nodes + spare_rows), free - self._disk_bytes - slots * state
            )
        )
        blocks = -(-self.columns // width) if self.columns else 0
        # Parts and what they are put together to, or that alone.
        result, parts = self._result_bytes, 0 if at_once else self._parts_bytes
        again = parts if parts == result or at_once else parts + self._features_bytes
        own, of_worker = memory(width), 0
        if self.team is not None:
            of_worker = own
            own = resident_bytes() + LIBRARY_BYTES + slabs * self._slabs_bytes
            own += filling_bytes(self.source, self.threads)
            check_memory(
                "Putting the hops together takes", own, process_budget(self.memory),
                hint="give this process more with `--memory`; that of the workers is apart",
                slack=NAMED_SLACK,
            )  # fmt: skip
        return DiskPlan(
            memory_bytes=self._at_once_bytes if at_once else own,
            budget_bytes=process_budget(self.memory),
            disk_bytes=result,
            work_bytes=self._disk_bytes + slots * state + BEHIND * (slabs - 1) * self._slab_bytes,
            free_bytes=free, block_columns=width, spare_rows=spare_rows, blocks=blocks,
            passes=blocks * (self.matrices - 1),
            state_slots=slots if self._has_others else None, slab_rows=self._slab_rows,
            slabs=slabs, chunk_edges=self._chunk_edges, rows=self._kept,
            at_once=at_once,
            seconds=self._passes_seconds(width, slots)
            + (parts + result) / WRITE_SPEED + 2 * again / READ_SPEED,
            read_bytes=blocks * self._block_read_bytes + again,
            read_again_bytes=again, written_bytes=parts + result,
            workers=0 if self.team is None else min(self.team.workers, max(blocks, 1)),
            worker_bytes=of_worker,
        )  # fmt: skip

    @property
    def columns(self) -> int:
        """Of the features."""
        return int(self.source.shape[1])

    @property
    def matrices(self) -> int:
        """Matrices per row of the result."""
        return matrices_of(self.config, self.subsets)

    @cached_property
    def walks(self) -> list[tuple[Way, int]]:
        """All walks, each with its number of stored edges."""
        ways = ways_of(self.config, self.subsets)
        edges = subset_sizes(self.graph, self.subsets) or [self.graph.num_edges] * len(ways)
        return list(zip(ways, edges, strict=bool(ways)))

    @property
    def picked(self) -> NDArray[np.int64] | None:
        """Numbers of the rows of the result among all nodes; none: there are no others."""
        if self.rows is None and self._has_others:
            return np.arange(self._kept)
        return self.rows

    def _spare_rows(self) -> int:
        """Rows of the second matrix of a block at most: all, unless few are needed of every hop."""
        graph, config, kept = self.graph, self.config, self.picked
        if kept is None or config.hops > 2:
            return graph.num_nodes
        if config.hops < 2:
            return len(kept)
        if self.subsets is not None or (graph.directed and config.direction != "out"):
            return graph.num_nodes  # edges are those of another matrix
        rows = most_rows(graph.indptr, kept, self_loops=config.self_loops)
        return graph.num_nodes if rows is None else rows

    @property
    def reads_features_again(self) -> bool:
        """Whether hop 0 of the result is read from the features, not from parts."""
        return self.picked is None and isinstance(self.source, np.ndarray)

    @property
    def _kept(self) -> int:
        return self.graph.num_targets if self.rows is None else len(self.rows)

    @property
    def _has_others(self) -> bool:
        return self.rows is not None or self._kept < self.graph.num_nodes

    @property
    def _item(self) -> int:
        return np.dtype(self.config.dtype).itemsize

    @property
    def _cores(self) -> int:
        return self.threads or default_threads() if self.team is None else self.team.cores

    @property
    def _row_bytes(self) -> int:
        """Bytes of one row of the result."""
        return max(self.matrices * self.columns * self._item, 1)

    @property
    def _chunk_edges(self) -> int:
        return max(min(CHUNK_EDGES, self.graph.num_edges), _rows.HUB_EDGES)

    @property
    def _slab_rows(self) -> int:
        # Slabs take no more than half of the narrowest block, which is given back by then.
        narrowest = min(self.columns, NARROWEST_BLOCK) * 2 * self.graph.num_nodes * self._item
        rows = max(
            max(SLAB_BYTES[0], min(SLAB_BYTES[1], narrowest // (2 * SLABS))) // self._row_bytes, 1
        )
        return rows // SLAB_ROWS * SLAB_ROWS or rows

    def _memory_bytes(self, width: int, spare_rows: int) -> int:
        """Most memory with blocks of so many columns: what is always held, and the largest step."""
        filling = filling_bytes(self.source, self._cores)
        row = padded(width) * self._item
        matrix, spare = row * self.graph.num_nodes, row * spare_rows
        slabs = self._slabs_bytes if self.team is None else 0
        block = matrix + max(spare, preparing_bytes(self.graph))
        return self._held_bytes + filling + max(block, slabs)

    def _is_held(self, budget: int) -> bool:
        """Whether the result is put together in memory."""
        is_worth_it = self._result_bytes >= AT_ONCE_BYTES
        if self.subsets is not None or self.team is not None or not is_worth_it:
            return False
        is_short = self._block_seconds(self.columns, 0) <= STATE_SECONDS  # lost if it is killed
        return is_short and self._at_once_bytes <= budget

    @property
    def _at_once_bytes(self) -> int:
        """Most memory with the whole result in it, and its edges, which may be a memory map."""
        columns = padded(fast_block(self.columns, self.config.dtype))
        blocks = 2 * self.graph.num_nodes * columns * self._item
        edges = edge_bytes(self.graph, self.graph.num_edges)
        filling = filling_bytes(self.source, self._cores)
        copied = 0 if self.rows is None else self._kept * self.columns * self._item
        parts = self._result_bytes + blocks + max(filling, copied)
        return self._held_bytes + edges + max(parts, preparing_bytes(self.graph))

    @property
    def _slabs_bytes(self) -> int:
        """What puts the result together, slab by slab."""
        return SLABS * self._slab_bytes

    @property
    def _slab_bytes(self) -> int:
        return min(self._slab_rows, self._kept) * self._row_bytes

    def _slabs(self, numbers: int, free: int) -> int:
        """Slabs to put together at once, in the memory of so many numbers, and on free disk."""
        room = numbers * self._item
        if self.team is not None:
            room = process_budget(self.memory) - resident_bytes() - LIBRARY_BYTES
            room -= filling_bytes(self.source, self.threads)
        slab = max(self._slab_bytes, 1)
        most = min(room // (SLABS + 1), SLAB_BYTES[1], slab + max(free, 0) // BEHIND)
        return int(max(min(most // slab, -(-self._kept // max(self._slab_rows, 1))), 1))

    @property
    def _held_bytes(self) -> int:
        """Interpreter, bounds and scales of rows, edges or their buffers, kernel's buffers."""
        graph, config = self.graph, self.config
        directions = 2 if graph.directed and config.direction == "separate" else 1
        per_node = 8 + 4 * (1 if config.norm == "row" else 2)
        turned = turned_bytes(graph, config.direction)
        # Turning touches all edges, which may be a memory map: they count like a copy.
        edges = turned + edge_bytes(graph, graph.num_edges)
        if not turned:
            edges = 2 * edge_bytes(graph, self._chunk_edges)
        process = resident_bytes() + LIBRARY_BYTES if self.team is None else WORKER_BYTES
        held = directions * per_node * graph.num_nodes + edges + process
        if self._has_others:
            item = edge_bytes(graph, 1)
            reach = reach_bytes(graph.num_nodes, self._kept, config.hops, item)
            held += 8 * self._kept + directions * reach
        if graph.num_nodes * CACHE_LINE >= TILED_BYTES:
            held += buffer_bytes(self._cores)
        if self.subsets is not None:
            # The edges of each subset are written and normalized while both matrices are held.
            held += selection_bytes(graph) + preparing_bytes(graph)
        return int(held)

    @property
    def _result_bytes(self) -> int:
        return self._kept * self.matrices * self.columns * self._item

    @property
    def _parts_bytes(self) -> int:
        """Parts of hops; hop 0 has none where it is read from the features again."""
        hop = self._result_bytes // self.matrices
        return self._result_bytes - (hop if self.reads_features_again else 0)

    @property
    def _disk_bytes(self) -> int:
        """The result and some slabs of it, its rows, and the edges of the largest subset."""
        subset = 0
        if self.subsets is not None and self.graph.edge_types is not None:
            subset = edge_bytes(self.graph, max((edges for _, edges in self.walks), default=0))
        return self._result_bytes + BEHIND * self._slab_bytes + 8 * self._kept + subset

    def _state_bytes(self, width: int) -> int:
        """A whole hop of a block, kept to resume from where parts have only some of its rows."""
        is_stored = self._has_others and self.subsets is None
        return self.graph.num_nodes * width * self._item if is_stored else 0

    def _passes_seconds(self, width: int, slots: int) -> float:
        """Estimated time of all blocks; edges are read while the cores work."""
        blocks = -(-self.columns // width) if self.columns else 0
        rounds = blocks if self.team is None else -(-blocks // self.team.workers)
        return rounds * self._block_seconds(width, slots)

    @property
    def _block_read_bytes(self) -> int:
        """Edges of every hop, and features of every walk."""
        edges = sum(edge_bytes(self.graph, count) for _, count in self.walks)
        return int(self.config.hops * edges + max(len(self.walks), 1) * self._features_bytes)

    @property
    def _features_bytes(self) -> int:
        return int(self.graph.num_nodes * self.columns * self.source.dtype.itemsize)

    def _block_seconds(self, width: int, slots: int) -> float:
        """Of one block of columns, with so many states."""
        graph, cores = self.graph, self._cores
        if self.team is None:
            cores = min(cores, os.cpu_count() or 1)
        state, total = self._state_bytes(width) / WRITE_SPEED, 0.0
        for _, count in self.walks:
            gathered = count * -(-width * self._item // CACHE_LINE) / (LINES_PER_SECOND * cores)
            read = edge_bytes(graph, count) / READ_SPEED
            per_pass = max(gathered, read, state * (slots == 2))
            per_pass += state * (slots == 1)  # only two states are written while the cores work
            # Of the last hop of each walk, only rows that are kept are computed.
            last = max(gathered * self._kept / max(graph.num_nodes, 1), read)
            total += (self.config.hops - 1) * per_pass + last
        return float(total + self._features_bytes / READ_SPEED * max(len(self.walks), 1))

    def _too_little_memory(self, budget: int, smallest: int) -> MemoryBudgetError:
        kind = self.config.dtype
        whose = "budget" if self.team is None else "budget of a worker"
        return MemoryBudgetError(
            f"{self.matrices} hops of {self.graph.num_nodes:,} nodes x {self.columns:,} columns in "
            f"{kind} on disk need {readable_bytes(smallest)} with the interpreter; "
            f"the {whose} is {readable_bytes(budget)}",
            hint=f"the smallest that works is `{readable_bytes(smallest)}`"
            + ("" if kind == "float16" else "; less with float16"),
        )


def _free_disk(target: Path, disk: str | int) -> int:
    place = target.parent
    while not place.exists() and place != place.parent:
        place = place.parent
    free = shutil.disk_usage(place).free
    return free if disk == "auto" else min(parse_bytes(disk, setting="disk"), free)
