"""How a propagation fits its memory: what is held, in how many blocks of columns.

Columns of A X do not depend on each other, so a matrix that does not fit is cut into blocks of
columns, and the adjacency is read once per block and hop. In memory, the result itself is held,
and beside it one block (none for `row`, which scales no columns). `disk_plan.py` is for results on
disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scr.errors import MemoryBudgetError
from scr.propagation.config import PropagationConfig
from scr.propagation.memory import memory_budget, readable_bytes
from scr.propagation.normalization import turned_bytes

if TYPE_CHECKING:
    from scr.graph.graph import Graph

NARROWEST_BLOCK = 16
"""Columns: narrower rows would fill less than the cache line that is read anyway."""
BYTES_PER_NODE = 40
"""Degrees and scales, at their peak."""


@dataclass(frozen=True, kw_only=True)
class PropagationPlan:
    """What a propagation will take."""

    memory_bytes: int
    """Most memory in use, beside the graph and the features."""
    disk_bytes: int
    """Size of the hops on disk; 0 if they stay in memory."""
    block_columns: int
    """Columns that are multiplied together."""
    blocks: int
    passes: int
    """Times that the adjacency is read."""


def plan_propagation(
    graph: Graph, config: PropagationConfig, columns: int, *, memory: str | int = "auto"
) -> PropagationPlan:
    """Choose the widest block of columns that fits, with the result in memory.

    Raises:
        MemoryBudgetError: Not even the narrowest block fits; names the smallest budget that works.
    """
    budget = memory_budget(memory)
    itemsize = np.dtype(config.dtype).itemsize
    result = graph.num_nodes * config.matrices * columns * itemsize
    column_bytes = int(config.norm != "row") * graph.num_nodes * itemsize
    fixed = turned_bytes(graph, config.direction) + BYTES_PER_NODE * graph.num_nodes + result
    narrowest = min(columns, NARROWEST_BLOCK)
    smallest = fixed + narrowest * column_bytes
    if smallest > budget:
        raise MemoryBudgetError(
            f"{config.matrices} hops of {graph.num_nodes:,} nodes x {columns:,} columns in "
            f"{config.dtype} in memory need {readable_bytes(smallest)}; "
            f"the budget is {readable_bytes(budget)}",
            hint=f"the smallest that works is `{readable_bytes(smallest)}`; "
            "less with the result on disk (`out`), fewer hops or float16",
        )
    fitting = (budget - fixed) // max(column_bytes, 1)
    block = columns
    if fitting < columns:
        block = max(fitting // NARROWEST_BLOCK * NARROWEST_BLOCK, narrowest)
    blocks = -(-columns // block) if columns else 0
    return PropagationPlan(
        memory_bytes=fixed + block * column_bytes,
        disk_bytes=0,
        block_columns=block,
        blocks=blocks,
        passes=blocks * (config.matrices - 1),
    )
