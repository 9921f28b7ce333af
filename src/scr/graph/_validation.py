"""Checks that a graph is consistent with itself, each with a sentence that says what to fix.

The readers and constructors run them once, when a graph is made; a store was checked before it was
written, and its checksums say that it has not changed since.
"""

from __future__ import annotations

import itertools
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scr.errors import GraphError
from scr.graph._labels import known_labels
from scr.storage import ranges, stream_rows

if TYPE_CHECKING:
    from scr.graph._graph import Graph

_BLOCK_VALUES = 1 << 21
"""Values looked at in one go, so that checking a file stays within a few dozen megabytes."""
_HALF_EXPONENT = np.uint16(0x7C00)


def check_features(features: NDArray[Any] | sp.csr_array | None, num_nodes: int) -> None:
    """Raise a `GraphError` on features of the wrong length, or on values that are not finite."""
    if features is None:
        return
    if features.shape[0] != num_nodes:
        raise GraphError(
            f"Features have {features.shape[0]:,} rows; expected {num_nodes:,}, one for each node"
        )
    if isinstance(features, np.ndarray):
        rows_per_block = max(1, _BLOCK_VALUES // max(1, features.shape[1]))
        blocks = ranges(num_nodes, rows_per_block)
        for (start, _), (rows,) in zip(blocks, stream_rows([features], blocks), strict=True):
            check_finite(rows, start)
        return
    bad = np.flatnonzero(~np.isfinite(features.data))
    if len(bad):
        row = int(np.searchsorted(features.indptr, bad[0], side="right")) - 1
        _refuse(features.data[bad[0]], row, int(features.indices[bad[0]]))


def check_finite(block: NDArray[Any], first_row: int) -> None:
    """Raise a `GraphError` on a value that is not finite in float32, in rows from so many on."""
    if block.dtype == np.float16:
        # NumPy widens each number to ask; a number is finite unless all bits of its exponent are 1.
        finite = (block.view(np.uint16) & _HALF_EXPONENT) != _HALF_EXPONENT
    else:
        is_wide = block.dtype.kind == "f" and block.dtype.itemsize > 4
        with np.errstate(over="ignore"):  # too large for float32, in which all steps compute
            finite = np.isfinite(block.astype(np.float32) if is_wide else block)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        _refuse(block[row, column], first_row + int(row), int(column))


def _refuse(value: Any, node: int, column: int) -> None:
    raise GraphError(
        f"Feature {column} of node {node} is {float(value)}; expected a finite number"
        f"{' that fits float32' if np.isfinite(value) else ''}",
        hint="fill or drop such values before making the graph",
    )


def check_splits(
    splits: dict[str, NDArray[np.int64]], labels: NDArray[np.int64]
) -> dict[str, NDArray[np.int64]]:
    """Check that splits do not overlap and that their nodes have labels; returns what is left.

    Validation and test nodes without a label cannot be scored: they leave the split, with a
    warning. A training node without a label is an error.
    """
    for (first, ours), (second, theirs) in itertools.combinations(splits.items(), 2):
        is_ours = np.zeros(len(labels), bool)  # a byte per node, where sorting would take many
        is_ours[ours] = True
        shared = theirs[is_ours[theirs]]
        if len(shared):
            raise GraphError(
                f"Node {shared[0]} is in both the {first} and the {second} split "
                f"({len(shared):,} such nodes); expected splits that do not overlap"
            )
    kept = {}
    for name, nodes in splits.items():
        labeled = _is_known(labels, nodes)
        missing = len(nodes) - int(np.count_nonzero(labeled))
        if missing and (name == "train" or missing == len(nodes)):
            raise GraphError(
                f"{missing:,} of {len(nodes):,} nodes of the {name} split have no label, "
                f"such as node {nodes[~labeled][0]}; expected a label for each"
            )
        if missing:
            warnings.warn(
                f"{missing:,} nodes of the {name} split have no label and were left out of it",
                stacklevel=3,
            )
        kept[name] = nodes[labeled] if missing else nodes
    return kept


def _is_known(labels: NDArray[np.int64], nodes: NDArray[np.int64]) -> NDArray[np.bool_]:
    known = np.empty(len(nodes), bool)
    for start, stop in ranges(len(nodes), _BLOCK_VALUES):
        known[start:stop] = known_labels(labels[nodes[start:stop]])
    return known


def warn_missing_classes(graph: Graph) -> None:
    """Warn of classes that no training node has: a model can never learn to predict them."""
    if len(graph.train) == 0:
        return
    if graph.is_multilabel:
        _warn_constant_targets(graph)
        return
    counts = np.bincount(graph.labels[graph.train], minlength=graph.num_classes)
    missing = [graph.class_names[number] for number in np.flatnonzero(counts == 0)]
    if missing:
        shown = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        warnings.warn(
            f"{len(missing)} of {graph.num_classes} classes have no training label ({shown}); "
            "they will not be predicted",
            stacklevel=3,
        )


def _warn_constant_targets(graph: Graph) -> None:
    """Warn of targets for which training nodes do not have both labels."""
    labels = np.asarray(graph.labels[graph.train])
    constant = ~((labels == 0).any(axis=0) & (labels == 1).any(axis=0))
    missing = [graph.class_names[number] for number in np.flatnonzero(constant)]
    if missing:
        shown = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        warnings.warn(
            f"{len(missing)} of {graph.num_classes} targets do not have both labels among training "
            f"nodes ({shown}); they cannot be learned",
            stacklevel=4,
        )
