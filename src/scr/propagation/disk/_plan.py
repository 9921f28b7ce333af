"""What a propagation out of core will take: memory of the whole process, disk, passes, time.

The plan picks the widest block of columns (`_out_of_core.py`) that fits, in whole cache lines where
it can: a narrower row costs as much to gather.

Memory counts everything: the interpreter with its libraries, the bounds and scales of the rows,
the buffers of the edges, the two matrices, and what puts the result together at the end.
"""

from __future__ import annotations

import functools
import math
import shutil
from dataclasses import dataclass, replace
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
from scr.propagation.disk._costs import Costs
from scr.propagation.disk._disk_plan import DiskPlan
from scr.propagation.disk._edge_chunks import CHUNK_EDGES
from scr.propagation.disk._joining_plan import plan_joining
from scr.propagation.disk._reach import most_rows, reach_bytes
from scr.propagation.disk._row_ranges import Cuts, listed_bytes
from scr.propagation.disk._team import Team
from scr.propagation.kernel import _rows
from scr.propagation.kernel._tiles import TILED_BYTES, buffer_bytes
from scr.storage import CHUNK_BYTES, READ_SPEED, WRITE_SPEED

if TYPE_CHECKING:
    from scr.graph import Graph

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
SLAB_BYTES = (8 * 2**20, 192 * 2**20)
"""Fewest and most bytes of a slab of the result, of which all parts are read, then written."""
MOST_SLABS = 1 << 13
"""Of a result, as far as memory allows: the journal holds a number for each slab of each part."""
SLABS = 4
"""Times that slabs are in memory: one that is written, the next one, and parts of that."""
LEAST_GAIN = 0.9
"""Share of the time of whole blocks that ranges of rows must stay below to be chosen."""
RANGE_SLABS = 8
"""Fewest slabs of a range of rows, so that ranges between slabs are about equal."""
SLAB_ROWS = 1 << 13
"""Slabs are a multiple of this where they can be, so that rows are scaled in the same steps as in
memory, and a block's part of one is about a megabyte."""


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
        self,
        target: Path,
        *,
        used_bytes: int = 0,
        block_columns: int | None = None,
        row_ranges: int = 1,
    ) -> DiskPlan:
        """Choose the widest block of columns that fits memory and the disk of the target.

        Disk that earlier work on the same target takes, `used_bytes`, will be used again; the width
        of its blocks, `block_columns`, and their ranges of rows are taken if they fit. Errors name
        what it takes at least.
        """
        narrowest = min(self.columns, NARROWEST_BLOCK)
        budget = process_budget(self.memory) if self.team is None else self.team.memory_bytes
        spare_rows = self.graph.num_nodes
        if self._memory_bytes(self.columns, spare_rows) > budget:
            spare_rows = self._spare_rows()  # which takes a look at all rows
        memory = functools.partial(self._memory_bytes, spare_rows=spare_rows)
        if memory(narrowest) > budget:
            raise self._too_little_memory(budget, memory(narrowest) + NAMED_SLACK)
        widths = block_widths(self.columns, CACHE_LINE // self.item)
        fitting = [each for each in widths if memory(each) <= budget] or [narrowest]
        free = _free_disk(target, self.disk) + used_bytes
        if self._disk_bytes > free:
            raise StoreError(
                f"The hops and the work on them take {readable_bytes(self._disk_bytes)} on disk at "
                f"`{target.parent}`; {readable_bytes(free)} may be used",
                hint="free some space, write elsewhere, or keep fewer rows (those of labeled "
                "nodes), fewer hops or float16",
            )
        costs = None
        if block_columns is not None and row_ranges > 1:
            costs = self._by_ranges(block_columns, row_ranges, budget)
        elif block_columns is not None and block_columns <= fitting[0]:
            costs = Costs(self, block_columns)
        at_once = block_columns is None and self._is_held(budget)
        if at_once:
            costs = Costs(self, self.columns)
        costs = costs or self._divided(widths, fitting, budget)
        width, count = costs.width, costs.count
        state = 0 if at_once else self._state_bytes(width)
        is_stored = state > 0 and self.team is None and self.config.hops > 1
        is_stored = is_stored and costs.block_seconds > STATE_SECONDS
        slots = min((free - self._disk_bytes) // state, 2) if is_stored else 0
        spare_rows = spare_rows if costs.cuts is None else costs.cuts.most_rows
        own = self._memory_bytes(width, spare_rows)
        own += 0 if costs.cuts is None else listed_bytes(self.graph.num_nodes)
        edges = edge_bytes(self.graph, self.graph.num_edges)
        edges_fit = not at_once and self.subsets is None and own + edges <= budget
        own += edges_fit * edges
        costs = replace(costs, slots=slots)
        used = self._disk_bytes + slots * state
        result, parts = self._result_bytes, 0 if at_once else self._parts_bytes
        again = parts if parts == result or at_once else parts + costs.features_bytes
        of_worker, at_work = 0, 1
        if self.team is not None:
            of_worker, own = own, resident_bytes() + LIBRARY_BYTES
            check_memory(
                "Handing out the work takes", own, process_budget(self.memory),
                hint="give this process more with `--memory`; that of the workers is apart",
                slack=NAMED_SLACK,
            )  # fmt: skip
            at_work = min(self.team.workers, max(costs.blocks, 1) * costs.ranges)
        joining = plan_joining(
            result, self._slab_bytes(count), at_work=at_work, free_bytes=free - used,
            memory_bytes=width * (self.graph.num_nodes + spare_rows) * self.item // SLABS,
        )  # fmt: skip
        return DiskPlan(
            memory_bytes=self._at_once_bytes if at_once else own,
            budget_bytes=process_budget(self.memory),
            disk_bytes=result,
            work_bytes=used + (0 if at_once else joining.disk_bytes),
            free_bytes=free, block_columns=width, spare_rows=spare_rows,
            row_ranges=count, tasks=costs.tasks, blocks=costs.blocks,
            passes=costs.blocks * (self.matrices - 1), edges_fit=edges_fit,
            state_slots=slots if self.has_others else None, slab_rows=self._slab_rows(count),
            slabs=joining.slabs, stretch_chunks=joining.stretch_chunks,
            stretches=joining.stretches, chunk_edges=self._chunk_edges, rows=self.kept,
            at_once=at_once, read_again_bytes=again,
            seconds=costs.seconds + (parts + result) / WRITE_SPEED + 2 * again / READ_SPEED,
            read_bytes=costs.read_bytes + again,
            written_bytes=parts + result,
            workers=0 if self.team is None else at_work,
            worker_bytes=of_worker,
        )  # fmt: skip

    def _divided(self, widths: list[int], fitting: list[int], budget: int) -> Costs:
        """The widest blocks; of a team, those by which, or by ranges of rows, all are busy."""
        if self.team is None:
            return Costs(self, fitting[0])
        # Every worker should have a block. Of widths that take as long, the widest is best.
        whole = min((Costs(self, each) for each in fitting), key=lambda each: each.seconds)
        best, workers = whole, self.team.workers
        for width in widths:
            blocks = Costs(self, width).blocks or 1
            for count in {-(-workers // blocks), workers // math.gcd(workers, blocks)}:
                found = self._by_ranges(width, count, budget)
                if found is not None and found.seconds < best.seconds:
                    best = found
        if best.seconds < LEAST_GAIN * whole.seconds:
            return best
        if whole.width <= NARROWEST_BLOCK:
            return whole
        # Padded to as many columns, all have as much to write.
        return Costs(self, max(-(-self.columns // whole.blocks), NARROWEST_BLOCK))

    def _by_ranges(self, width: int, count: int, budget: int) -> Costs | None:
        """Blocks in ranges of rows, if the result has all rows and a worker the memory."""
        if count == 1 or self.has_others or self.subsets is not None or not self.config.hops:
            return None
        cuts = self.cuts(count)
        needed = self._memory_bytes(width, cuts.most_rows) + listed_bytes(self.graph.num_nodes)
        return Costs(self, width, count, cuts) if len(cuts) > 1 and needed <= budget else None

    def cuts(self, count: int) -> Cuts:
        """So many ranges of rows."""
        return Cuts.of(self.graph.indptr, self.kept, count, self._slab_rows(count))

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
        if self.rows is None and self.has_others:
            return np.arange(self.kept)
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
    def kept(self) -> int:
        """Rows of the result."""
        return self.graph.num_targets if self.rows is None else len(self.rows)

    @property
    def has_others(self) -> bool:
        """Whether hops have other rows than the result."""
        return self.rows is not None or self.kept < self.graph.num_nodes

    @property
    def item(self) -> int:
        """Bytes of a number of the result."""
        return np.dtype(self.config.dtype).itemsize

    @property
    def cores(self) -> int:
        """Threads of a worker, or of this process."""
        return self.threads or default_threads() if self.team is None else self.team.cores

    @property
    def _row_bytes(self) -> int:
        """Bytes of one row of the result."""
        return max(self.matrices * self.columns * self.item, 1)

    @property
    def _chunk_edges(self) -> int:
        return max(min(CHUNK_EDGES, self.graph.num_edges), _rows.HUB_EDGES)

    def _slab_rows(self, count: int = 1) -> int:
        # Slabs take no more than half of the narrowest block, which is given back by then.
        narrowest = min(self.columns, NARROWEST_BLOCK) * 2 * self.graph.num_nodes * self.item
        least, most = SLAB_BYTES
        most = max(least, min(most, narrowest // (2 * SLABS)))
        wanted = max(SLAB_ROWS, self.kept // MOST_SLABS) * self._row_bytes
        rows = min(max(least, wanted), most) // self._row_bytes
        if count > 1:
            rows = min(rows, self.kept // (count * RANGE_SLABS))
        return max(rows // SLAB_ROWS * SLAB_ROWS or rows, 1)

    def _memory_bytes(self, width: int, spare_rows: int) -> int:
        """Most memory with blocks of so many columns: what is always held, and the largest step."""
        filling = filling_bytes(self.source, self.cores)
        row = padded(width) * self.item
        matrix, spare = row * self.graph.num_nodes, row * spare_rows
        slabs = SLABS * self._slab_bytes()
        block = matrix + max(spare, preparing_bytes(self.graph))
        return self._held_bytes + filling + max(block, slabs)

    def _is_held(self, budget: int) -> bool:
        """Whether the result is put together in memory."""
        is_worth_it = self._result_bytes >= AT_ONCE_BYTES
        if self.subsets is not None or self.team is not None or not is_worth_it:
            return False
        is_short = Costs(self, self.columns).block_seconds <= STATE_SECONDS  # lost if it is killed
        return is_short and self._at_once_bytes <= budget

    @property
    def _at_once_bytes(self) -> int:
        """Most memory with the whole result in it, and its edges, which may be a memory map."""
        columns = padded(fast_block(self.columns, self.config.dtype))
        blocks = 2 * self.graph.num_nodes * columns * self.item
        edges = edge_bytes(self.graph, self.graph.num_edges)
        filling = filling_bytes(self.source, self.cores)
        copied = 0 if self.rows is None else self.kept * self.columns * self.item
        parts = self._result_bytes + blocks + max(filling, copied)
        return self._held_bytes + edges + max(parts, preparing_bytes(self.graph))

    def _slab_bytes(self, count: int = 1) -> int:
        return min(self._slab_rows(count), self.kept) * self._row_bytes

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
        if self.has_others:
            item = edge_bytes(graph, 1)
            reach = reach_bytes(graph.num_nodes, self.kept, config.hops, item)
            held += 8 * self.kept + directions * reach
        if graph.num_nodes * CACHE_LINE >= TILED_BYTES:
            held += buffer_bytes(self.cores)
        if self.subsets is not None:
            # The edges of each subset are written and normalized while both matrices are held.
            held += selection_bytes(graph) + preparing_bytes(graph)
        return int(held)

    @property
    def _result_bytes(self) -> int:
        return self.kept * self.matrices * self.columns * self.item

    @property
    def _parts_bytes(self) -> int:
        """Parts of hops; hop 0 has none where it is read from the features again."""
        hop = self._result_bytes // self.matrices
        return self._result_bytes - (hop if self.reads_features_again else 0)

    @property
    def _disk_bytes(self) -> int:
        """The result, a chunk and a slab beside their parts, its rows, the edges of a subset."""
        subset = 0
        if self.subsets is not None and self.graph.edge_types is not None:
            subset = edge_bytes(self.graph, max((edges for _, edges in self.walks), default=0))
        beside = min(CHUNK_BYTES, self._result_bytes) + self._slab_bytes()
        return self._result_bytes + beside + 8 * self.kept + subset

    def _state_bytes(self, width: int) -> int:
        """A whole hop of a block, kept to resume from where parts have only some of its rows."""
        is_stored = self.has_others and self.subsets is None
        return self.graph.num_nodes * width * self.item if is_stored else 0

    def _too_little_memory(self, budget: int, smallest: int) -> MemoryBudgetError:
        kind, whose = self.config.dtype, "budget" + " of a worker" * (self.team is not None)
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
