"""From labels as people have them, numbers or names with gaps, to class numbers.

Where nodes have several yes-or-no targets, labels have a column for each. What is missing becomes
-1. Labels that cannot be meant, such as 99 among the numbers 0 to 6, are refused here, before a
model is built with outputs that nothing ever trains.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.errors import GraphError
from scr.graph._arrays import as_numpy

UNKNOWN = -1
"""The label of a node whose class nobody has said."""
_PIECE = 1 << 22
"""Labels looked at in one go."""


def known_labels(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Which nodes have a label; of several targets, for one of them at least."""
    known: NDArray[np.bool_] = labels >= 0
    return known if known.ndim == 1 else np.asarray(known.any(axis=1))


def as_labels(
    labels: Any, num_nodes: int, class_names: tuple[str, ...] | None
) -> tuple[NDArray[Any], tuple[str, ...]]:
    """Number the classes: labels in -1 .. classes - 1, and the names of the classes.

    Labels are class numbers, or class names as text, one per node; what is missing (-1, NaN, none,
    empty text) becomes -1. Or they are 0 and 1, of shape (nodes, targets), for several yes-or-no
    targets per node, which the class names then name.
    """
    if labels is None:
        return np.full(num_nodes, UNKNOWN, np.int64), class_names or ()
    array = as_numpy(labels)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim == 2 and len(array) == num_nodes:
        return _target_labels(array, class_names)
    if array.shape != (num_nodes,):
        raise GraphError(
            f"Labels have the shape {array.shape}; expected ({num_nodes},), one per node"
        )
    if array.dtype.kind in "OUSTb":
        numbers, names = _named_labels(array, class_names)
    else:
        numbers, names = _numbered_labels(array), class_names
    if names is None:
        names = tuple(str(number) for number in range(_count_classes(numbers)))
    bad = np.flatnonzero((numbers < UNKNOWN) | (numbers >= len(names)))
    if len(bad):
        expected = f"0 to {len(names) - 1}, or -1" if names else "-1"
        raise GraphError(
            f"The label of node {bad[0]} is {numbers[bad[0]]}, out of range; expected {expected} "
            "where the class is unknown"
        )
    return numbers, names


def _target_labels(
    array: NDArray[Any], names: tuple[str, ...] | None
) -> tuple[NDArray[np.int8], tuple[str, ...]]:
    """Labels of several targets, int8; what is missing (-1, NaN) becomes -1."""
    if array.dtype.kind not in "biuf":
        raise GraphError(f"Labels of several targets are {array.dtype}; expected 0, 1, or -1")
    if names is None:
        names = tuple(str(number) for number in range(array.shape[1]))
    if len(names) != array.shape[1] or not names:
        raise GraphError(
            f"There are {len(names)} names of targets; expected {array.shape[1]}, one for each "
            "column of the labels, and at least one"
        )
    numbers = np.full(array.shape, UNKNOWN, np.int8)
    for start in range(0, len(array), _PIECE // len(names) + 1):
        part = array[start : start + _PIECE // len(names) + 1]
        if part.dtype.kind == "f":
            part = np.where(np.isnan(part), UNKNOWN, part)
        wrong = np.argwhere(~np.isin(part, (UNKNOWN, 0, 1)))
        if len(wrong):
            node, target = wrong[0].tolist()
            raise GraphError(
                f"The label of node {start + node} for target {target} is {part[node, target]}; "
                "expected 0 or 1, or -1 where it is unknown"
            )
        numbers[start : start + len(part)] = part
    return numbers, names


def _named_labels(
    array: NDArray[Any], class_names: tuple[str, ...] | None
) -> tuple[NDArray[np.int64], tuple[str, ...] | None]:
    # `value != value` is how NaN shows itself among objects.
    missing = np.array([v is None or v != v or v == "" for v in array.tolist()], bool)
    if not missing.all() and all(isinstance(v, (int, float)) for v in array[~missing].tolist()):
        numbers = np.full(len(array), UNKNOWN, np.int64)
        numbers[~missing] = _numbered_labels(array[~missing].astype(np.float64))
        return numbers, class_names
    texts = np.array(["" if gone else str(v) for v, gone in zip(array, missing, strict=True)])
    names = class_names or tuple(np.unique(texts[~missing]).tolist())
    number_of = {name: number for number, name in enumerate(names)} | {"": UNKNOWN}
    unknown = next((text for text in texts.tolist() if text not in number_of), None)
    if unknown is not None:
        raise GraphError(f"The label {unknown!r} is not a class; expected one of {list(names)}")
    return np.array([number_of[text] for text in texts.tolist()], np.int64), names


def _numbered_labels(array: NDArray[Any]) -> NDArray[np.int64]:
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), UNKNOWN, array)
        if not np.array_equal(array, np.rint(array)):
            bad = int(np.flatnonzero(array != np.rint(array))[0])
            raise GraphError(f"The label of node {bad} is {array[bad]}; expected a whole number")
    return array.astype(np.int64)


def _count_classes(numbers: NDArray[np.int64]) -> int:
    """Count classes 0 .. largest label; a mostly unused range is a mistake in the labels."""
    # Piece by piece: sorting the labels of 100 million nodes would take gigabytes.
    pieces = [np.unique(numbers[at : at + _PIECE]) for at in range(0, len(numbers), _PIECE)]
    used = np.unique(np.concatenate(pieces)) if pieces else np.zeros(0, np.int64)
    used = used[used >= 0]
    if len(used) == 0:
        return 0
    count = int(used[-1]) + 1
    if count > 2 * len(used):
        raise GraphError(
            f"The label {count - 1} is out of range: the labels are only {len(used)} different "
            f"numbers, so classes from 0 to {2 * len(used) - 1} at most were expected",
            hint="number the classes from 0 without gaps, or give `class_names`",
        )
    return count
