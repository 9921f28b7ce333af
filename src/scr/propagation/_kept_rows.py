"""Which nodes' hops are kept: all, those with a label to train or to score with, or a list.

Hops of nodes that nobody trains on or predicts for are needed only while later hops are computed.
On a graph of which one node in a hundred has a label, the hops on disk are a hundredth.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scr.errors import ConfigError, GraphError
from scr.graph import as_numpy, known_labels
from scr.storage import in_memory, ranges, stream_rows

if TYPE_CHECKING:
    from scr.graph import Graph

LABELS_PER_STEP = 1 << 22


def kept_rows(graph: Graph, rows: Any = "all") -> NDArray[np.int64] | None:
    """Sorted numbers of the nodes to keep; none: all of the target type.

    Args:
        graph: The graph; hops of other types than the target are never kept.
        rows: `all`, `labeled`, or node numbers or a mask of nodes.
    """
    if rows is None or (isinstance(rows, str) and rows == "all"):
        return None
    if isinstance(rows, str):
        if rows != "labeled":
            raise ConfigError("rows", rows, "`all`, `labeled` or node numbers")
        labeled = labeled_nodes(graph)
        if len(labeled) == 0:
            raise GraphError(
                "The graph has no node with a label or in a split; expected some to keep",
                hint="keep all rows, or name the nodes",
            )
        return None if len(labeled) == graph.num_targets else labeled
    nodes = as_numpy(rows)
    if nodes.dtype == bool and nodes.shape == (graph.num_targets,):
        nodes = np.flatnonzero(nodes)
    if nodes.ndim != 1 or nodes.dtype.kind not in "iu" or nodes.size == 0:
        raise ConfigError(
            "rows", f"{nodes.dtype} of shape {nodes.shape}", "a list of node numbers, or a mask"
        )
    kept = _ascending(nodes)
    if kept[0] < 0 or kept[-1] >= graph.num_targets:
        wrong = int(kept[0] if kept[0] < 0 else kept[-1])
        raise GraphError(
            f"The rows to keep hold node {wrong}; "
            f"expected numbers from 0 to {graph.num_targets - 1}"
        )
    return None if len(kept) == graph.num_targets else kept


def labeled_nodes(graph: Graph) -> NDArray[np.int64]:
    """Nodes of the splits; without splits, nodes whose label is known."""
    splits = [in_memory(np.asarray(nodes)) for nodes in (graph.train, graph.valid, graph.test)]
    if any(len(nodes) for nodes in splits):
        return _ascending(np.concatenate(splits))
    parts = ranges(graph.num_targets, LABELS_PER_STEP)
    read = zip(parts, stream_rows([np.asarray(graph.labels)], parts), strict=True)
    found = [start + np.flatnonzero(known_labels(labels)) for (start, _), (labels,) in read]
    return np.concatenate([np.zeros(0, np.int64), *found])


def _ascending(nodes: NDArray[Any]) -> NDArray[np.int64]:
    """Nodes in order, each once; parts that are in order are merged, which `np.unique` does not."""
    ordered = np.sort(nodes.astype(np.int64, copy=False), kind="stable")
    is_first = np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(ordered)]
    return np.asarray(ordered[is_first])


def positions_of(nodes: NDArray[np.int64], kept: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where nodes are among the kept ones; a node that is not among them is refused."""
    positions = np.asarray(np.searchsorted(kept, nodes))
    is_kept = np.asarray(positions < len(kept))
    is_kept[is_kept] = kept[positions[is_kept]] == nodes[is_kept]
    if not is_kept.all():
        raise GraphError(
            f"Node {nodes[~is_kept][0]} has no hops; they were kept for {len(kept):,} nodes",
            hint="propagate again with `rows` that hold this node, such as `all`",
        )
    return positions


def rows_hash(rows: NDArray[np.int64]) -> str:
    """A short name for a set of nodes."""
    data = np.ascontiguousarray(rows, dtype=np.int64)
    return hashlib.blake2b(data.data, digest_size=6).hexdigest()
