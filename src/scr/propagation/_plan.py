"""How a propagation fits its memory: what is held, in how many blocks of columns.

Columns of A X do not depend on each other, so a matrix that does not fit is cut into blocks of
columns, and the adjacency is read once per block and hop. In memory, the result itself is held,
and beside it two blocks of a few columns, between which the hops go back and forth before they are
copied to their places. Where memory is short, hops are computed in their places, with one block
beside them (none for `row`, which scales no columns). Where hops of other nodes than those of the
result are computed on the way, of other types or over subsets of relations, there are always two
blocks, and the edges of one subset. `disk/_plan.py` is for results on disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scr.compute import memory_budget, readable_bytes
from scr.errors import MemoryBudgetError
from scr.graph import edge_bytes, edges_by_code, relation_codes
from scr.propagation._config import PropagationConfig
from scr.propagation._normalization import turned_bytes
from scr.propagation._walks import Subsets, matrices_of

if TYPE_CHECKING:
    from scr.graph import Graph

NARROWEST_BLOCK = 16
"""Columns: narrower rows would fill less than the cache line that is read anyway. The kernel's
vectors have as many, so wider blocks are padded to a multiple of them (`padded`)."""
FAST_BYTES = 128
"""Of a row, up to which gathering is fastest: more rows stay in the caches. Of 2.4 million nodes in
float16, 0.078 ns per edge and column with 64 columns, 0.110 with 128 (`benchmarks/block_widths.py`,
2 cores, AMD EPYC)."""
BYTES_PER_NODE = 40
"""Degrees and scales, at their peak."""


def plan_propagation(
    graph: Graph,
    config: PropagationConfig,
    columns: int,
    *,
    memory: str | int = "auto",
    subsets: Subsets = None,
    rows: int | None = None,
) -> int:
    """The widest block of columns that fits, with the result in memory.

    Args:
        graph: As for `propagate`, like all that is not named here.
        columns: Of the features.
        memory: Most memory to use beside the graph and the features.
        subsets: Subsets of relations that are walked apart, if they are.
        rows: Rows that are kept; by default all of the target type.

    Raises:
        MemoryBudgetError: Not even the narrowest block fits; names the smallest budget that works.
    """
    itemsize = np.dtype(config.dtype).itemsize
    matrices = matrices_of(config, subsets)
    edges = 0
    if keeps_some_rows(graph, subsets, rows):
        kept, spares = graph.num_targets if rows is None else rows, 2
        edges = edge_bytes(graph, max(subset_sizes(graph, subsets), default=0))
    else:
        kept, spares = graph.num_nodes, int(config.norm != "row")
    fixed = _fixed_bytes(graph, config, kept * matrices * columns) + edges
    return widest_block(
        columns, fixed, spares * graph.num_nodes * itemsize, memory_budget(memory),
        what=f"{matrices} hops of {kept:,} nodes x {columns:,} columns in {config.dtype} in memory",
        less="; less with the result on disk (`out`), fewer hops or float16",
    )  # fmt: skip


def padded(columns: int) -> int:
    """Columns of a matrix of so many whose rows all begin with a whole vector.

    Vectors that straddle cache lines are slow: 36 columns in float16 took twice the time of 48.
    """
    if columns <= NARROWEST_BLOCK:
        return columns
    return -(-columns // NARROWEST_BLOCK) * NARROWEST_BLOCK


def block_widths(columns: int, line: int) -> list[int]:
    """Widths of blocks worth trying, widest first: each is the narrowest for its count of blocks.

    Whole cache lines first, then half ones, since the narrowest block may be one.
    """
    widths = {columns}
    for unit in (line, NARROWEST_BLOCK):
        widths |= {-(-columns // (n * unit)) * unit for n in range(2, -(-columns // unit) + 1)}
    return sorted((width for width in widths if width <= columns), reverse=True)


def fast_block(columns: int, dtype: str) -> int:
    """Columns that are best multiplied together, where the edges are in memory."""
    return min(columns, FAST_BYTES // np.dtype(dtype).itemsize)


def computes_apart(
    graph: Graph, config: PropagationConfig, columns: int, *, memory: str | int = "auto"
) -> bool:
    """Whether hops of all rows are best computed apart from the result, and that fits.

    In float32, where vectors are whole in the result as well, copying costs what blocks save.
    """
    itemsize = np.dtype(config.dtype).itemsize
    if config.dtype == "float32" and columns % NARROWEST_BLOCK == 0:
        return False
    fixed = _fixed_bytes(graph, config, graph.num_nodes * config.matrices * columns)
    block = 2 * padded(fast_block(columns, config.dtype)) * graph.num_nodes * itemsize
    return fixed + block <= memory_budget(memory)


def _fixed_bytes(graph: Graph, config: PropagationConfig, values: int) -> int:
    """A result of so many numbers, degrees and scales, and edges that were turned."""
    result = values * np.dtype(config.dtype).itemsize
    return turned_bytes(graph, config.direction) + BYTES_PER_NODE * graph.num_nodes + result


def widest_block(
    columns: int, fixed: int, column_bytes: int, budget: int, what: str, less: str, slack: int = 0
) -> int:
    """All columns, or as many cache lines of them as fit beside what is `fixed`.

    The error says what is to fit, what takes less, and the smallest budget, with some slack.
    """
    narrowest = min(columns, NARROWEST_BLOCK)
    if fixed + narrowest * column_bytes > budget:
        smallest = readable_bytes(fixed + narrowest * column_bytes + slack)
        raise MemoryBudgetError(
            f"{what} need {smallest}; the budget is {readable_bytes(budget)}",
            hint=f"the smallest that works is `{smallest}`{less}",
        )
    fitting = (budget - fixed) // max(column_bytes, 1)
    if fitting >= columns:
        return columns
    return max(fitting // NARROWEST_BLOCK * NARROWEST_BLOCK, narrowest)


def keeps_some_rows(graph: Graph, subsets: Subsets, rows: int | None = None) -> bool:
    """Whether hops are computed apart from the result, which holds some rows of them."""
    kept = graph.num_targets if rows is None else rows
    return subsets is not None or kept < graph.num_nodes


def subset_sizes(graph: Graph, subsets: Subsets) -> list[int]:
    """Stored edges of each subset; none of them where the edges need no copy."""
    if subsets is None or graph.edge_types is None:
        return []
    counts = edges_by_code(graph)
    return [int(counts[relation_codes(graph, subset)].sum()) for subset in subsets]
