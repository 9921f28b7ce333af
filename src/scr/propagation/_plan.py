"""How a propagation fits its memory: what is held, in how many blocks of columns.

Columns of A X do not depend on each other, so a matrix that does not fit is cut into blocks of
columns, and the adjacency is read once per block and hop. In memory, the result itself is held,
and beside it one block (none for `row`, which scales no columns). Where hops of other nodes than
those of the result are computed on the way, of other types or over subsets of relations, two blocks
of all nodes are held beside it, and the edges of one subset. `_plan.py` is for results on disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scr.compute import memory_budget, readable_bytes
from scr.errors import MemoryBudgetError
from scr.propagation._config import PropagationConfig
from scr.propagation._normalization import turned_bytes
from scr.propagation._subset_edges import codes_of, edges_by_code, subset_bytes
from scr.propagation._walks import Subsets, matrices_of

if TYPE_CHECKING:
    from scr.graph import Graph

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
    graph: Graph,
    config: PropagationConfig,
    columns: int,
    *,
    memory: str | int = "auto",
    subsets: Subsets = None,
    rows: int | None = None,
) -> PropagationPlan:
    """Choose the widest block of columns that fits, with the result in memory.

    Args:
        graph: The graph.
        config: What is propagated.
        columns: Of the features.
        memory: Most memory to use beside the graph and the features.
        subsets: Subsets of relations that are walked apart, if they are.
        rows: Rows that are kept, of a graph of several types; by default all of the target type.

    Raises:
        MemoryBudgetError: Not even the narrowest block fits; names the smallest budget that works.
    """
    budget = memory_budget(memory)
    itemsize = np.dtype(config.dtype).itemsize
    matrices = matrices_of(config, subsets)
    fixed = turned_bytes(graph, config.direction) + BYTES_PER_NODE * graph.num_nodes
    if keeps_targets_only(graph, subsets):
        kept, spares = graph.num_targets if rows is None else rows, 2
        fixed += largest_subset_bytes(graph, subsets)
    else:
        kept, spares = graph.num_nodes, int(config.norm != "row")
    column_bytes = spares * graph.num_nodes * itemsize
    fixed += kept * matrices * columns * itemsize
    narrowest = min(columns, NARROWEST_BLOCK)
    smallest = fixed + narrowest * column_bytes
    if smallest > budget:
        raise MemoryBudgetError(
            f"{matrices} hops of {kept:,} nodes x {columns:,} columns in "
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
        passes=blocks * (matrices - 1),
    )


def keeps_targets_only(graph: Graph, subsets: Subsets) -> bool:
    """Whether hops are computed apart from the result, which holds some rows of them."""
    return subsets is not None or graph.num_targets < graph.num_nodes


def largest_subset_bytes(graph: Graph, subsets: Subsets) -> int:
    """Memory, or disk, of the edges of the largest subset."""
    return subset_bytes(graph, max(subset_sizes(graph, subsets), default=0))


def subset_sizes(graph: Graph, subsets: Subsets) -> list[int]:
    """Stored edges of each subset; none of them where the edges need no copy."""
    if subsets is None or graph.edge_types is None:
        return []
    counts = edges_by_code(graph)
    return [int(counts[codes_of(graph, subset)].sum()) for subset in subsets]
