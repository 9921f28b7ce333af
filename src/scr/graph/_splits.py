"""Which nodes train, validate and test: drawn at random, drawn per class, or read from a file.

Only nodes with a label take part. Everything that is drawn depends on a seed and on nothing else.
The command line, recipes and Python say a split in one word (`apply_split`).
"""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from scr.errors import ConfigError, GraphError, SourceError
from scr.graph._graph import Graph
from scr.graph._labels import known_labels
from scr.storage import array_names, load_arrays

_Number = TypeVar("_Number", int, float)
_SMALL_CLASS_SHARE = 3
"""A small class gives at most one in so many nodes to training, and as many to validation."""
ALL = "all"
"""In `per-class:all`: every labeled node trains or validates, and none tests."""
_VALID_PART = 10
"""With `all`, one in so many nodes of a class validates."""


class Split(NamedTuple):
    """Sorted node numbers that do not overlap."""

    train: NDArray[np.int64]
    valid: NDArray[np.int64]
    test: NDArray[np.int64]


def apply_split(graph: Graph, rule: str | Path, *, number: int = 0, seed: int = 0) -> Graph:
    """Split a graph with labels as a rule says, and record it in its steps.

    The rule is `per-class:TRAIN,VALID` (nodes), `per-class:all` (no test nodes),
    `random:TRAIN,VALID` (shares; with a sum of 1, no test nodes), or an `.npz` file, of which
    `number` is the split. A drawn split uses seed + number, so that the numbers 0, 1, 2... are
    different draws.
    """
    split, step = _make_split(graph, str(rule), number, seed)
    parts = {name: nodes if len(nodes) else None for name, nodes in split._asdict().items()}
    return dataclasses.replace(graph.with_split(**parts), steps=(*graph.steps, step))


def _make_split(graph: Graph, rule: str, number: int, seed: int) -> tuple[Split, str]:
    kind, _, values = rule.partition(":")
    if kind == "per-class" and values == ALL:
        split = _every_label_split(graph.labels, seed=seed + number)
        step = "drew nine tenths of the labeled nodes of each class for training and the rest for"
        return split, f"{step} validation with seed {seed + number}"
    if kind == "per-class":
        train, valid = _two_numbers(rule, values, int)
        split = per_class_split(graph.labels, train, valid, seed=seed + number)
        step = f"drew {train} training and {valid} validation nodes per class"
        return split, f"{step} with seed {seed + number}"
    if kind == "random":
        share, valid_share = _two_numbers(rule, values, float)
        split = random_split(graph.labels, share, valid_share, seed=seed + number)
        step = f"drew {share:.4g} of the labeled nodes for training and {valid_share:.4g} for"
        return split, f"{step} validation with seed {seed + number}"
    split = read_splits(rule, number, labels=graph.labels)
    return split, f"took split {number} of {Path(rule).name}"


def _two_numbers(rule: str, values: str, kind: type[_Number]) -> tuple[_Number, _Number]:
    try:
        train, valid = (kind(value) for value in values.split(","))
    except ValueError:
        expected = (
            "`per-class:TRAIN,VALID`, `per-class:all` or `random:TRAIN,VALID`, such as "
            "`per-class:20,30` or `random:0.1,0.1`"
        )
        raise ConfigError("splits", rule, expected) from None
    return train, valid


def random_split(
    labels: NDArray[np.int64], train: float = 0.1, valid: float = 0.1, seed: int = 0
) -> Split:
    """Draw fractions of the labeled nodes (label 0 or more); the rest is for testing.

    Fractions with a sum of 1 leave no test nodes.
    """
    is_whole = math.isclose(train + valid, 1)
    if not (train > 0 and valid > 0 and (train + valid < 1 or is_whole)):
        raise GraphError(
            f"Splits of {train} for training and {valid} for validation were asked for; "
            "expected two positive fractions with a sum of at most 1"
        )
    labeled = np.flatnonzero(known_labels(np.asarray(labels)))
    shuffled = np.random.default_rng(seed).permutation(labeled)
    counts = max(1, round(train * len(labeled))), max(1, round(valid * len(labeled)))
    if is_whole:
        counts = (first := min(counts[0], len(labeled) - 1)), len(labeled) - first
    if min(counts) < 1 or sum(counts) + (not is_whole) > len(labeled):
        parts = "two" if is_whole else "three"
        raise GraphError(f"There are {len(labeled)} labeled nodes, too few for {parts} splits")
    return _cut(shuffled, *counts)


def per_class_split(
    labels: NDArray[np.int64], train: int = 20, valid: int = 30, seed: int = 0
) -> Split:
    """Draw so many nodes of each class (label 0 or more); the rest is for testing.

    A small class gives at most a third of its nodes to training (but one at least) and a third to
    validation.
    """
    if train < 1 or valid < 0:
        raise GraphError(
            f"{train} training and {valid} validation nodes per class were asked for; "
            "expected at least 1 and 0"
        )
    labels = np.asarray(labels)
    if labels.ndim == 2:
        raise GraphError(
            "A split with so many nodes per class needs one class per node; expected another rule, "
            "since nodes have several targets",
            hint="draw `random:0.1,0.1`, or give a file of splits",
        )
    generator = np.random.default_rng(seed)
    parts = []
    for label in np.unique(labels[labels >= 0]):
        nodes = generator.permutation(np.flatnonzero(labels == label))
        share = len(nodes) // _SMALL_CLASS_SHARE
        parts.append(_cut(nodes, min(train, max(1, share)), min(valid, share)))
    return _joined(parts)


def _every_label_split(labels: NDArray[np.int64], seed: int = 0) -> Split:
    """Draw a tenth of each class, rounded down but at least one node, for validation.

    All other labeled nodes train. The only node of a class trains.
    """
    labels = np.asarray(labels)
    generator = np.random.default_rng(seed)
    parts = []
    for label in np.unique(labels[labels >= 0]):
        nodes = generator.permutation(np.flatnonzero(labels == label))
        valid = min(max(1, len(nodes) // _VALID_PART), len(nodes) - 1)
        parts.append(_cut(nodes, len(nodes) - valid, valid))
    return _joined(parts)


def _joined(parts: list[Split]) -> Split:
    """The splits of all classes as one."""
    if not parts:
        raise GraphError("No node has a label; expected labeled nodes to split")
    return Split(*(np.sort(np.concatenate(pieces)) for pieces in zip(*parts, strict=True)))


def _cut(nodes: NDArray[np.int64], train: int, valid: int) -> Split:
    ends = [train, train + valid]
    return Split(*(np.sort(part) for part in np.split(nodes, ends)))


def read_splits(path: str | Path, index: int = 0, *, labels: NDArray[np.int64]) -> Split:
    """Read the split number `index` of a file, for nodes with these labels, -1 where unknown.

    The `.npz` file holds ``train_0``, ``val_0``, perhaps ``test_0``, ``train_1``...: node numbers.
    Without ``test_0``, all remaining labeled nodes form the test set. Bundles with all their
    public masks in packed bits (``all_train_masks_packbits``, and ``val``, ``test`` likewise) are
    read as well.
    """
    path = Path(path)
    what = "a file of splits"
    names = array_names(path, what=what, error=SourceError)
    wanted = {
        form.format(name=name, index=index)
        for listed in _PART_NAMES.values()
        for name in listed
        for form in ("{name}_{index}", _PACKED)
    } & set(names)
    file = load_arrays(path, what=what, names=sorted(wanted), error=SourceError)
    parts = {part: _read_part(file, part, index, len(labels)) for part in _PART_NAMES}
    has = sorted(name for name in names if name.startswith("train_"))
    train, valid, test = parts["train"], parts["valid"], parts["test"]
    if train is None or valid is None:
        present = f"those it has are {', '.join(has)}" if has else "it has none"
        raise SourceError(
            f"`{path}` has no split {index}: expected `train_{index}` and `val_{index}`; {present}"
        )
    if test is None:
        is_free = known_labels(np.asarray(labels))
        is_free[train] = is_free[valid] = False
        test = np.flatnonzero(is_free)
    return Split(train, valid, test)


_PACKED = "all_{name}_masks_packbits"
_PART_NAMES = {"train": ("train",), "valid": ("val", "valid"), "test": ("test",)}


def _read_part(
    file: dict[str, NDArray[Any]], part: str, index: int, num_nodes: int
) -> NDArray[np.int64] | None:
    """One part of one split, or none if the file does not have it."""
    nodes = None
    for name in _PART_NAMES[part]:
        masks = file.get(_PACKED.format(name=name))
        if f"{name}_{index}" in file:
            nodes = file[f"{name}_{index}"]
        elif masks is not None:
            if masks.ndim != 2 or masks.dtype != np.uint8:
                raise SourceError(
                    f"The packed {part} masks are {masks.dtype} of shape {masks.shape}; expected "
                    "bytes, one row for each split"
                )
            if 0 <= index < len(masks):
                nodes = np.unpackbits(masks[index], count=num_nodes).astype(bool)
    if nodes is None:
        return None
    nodes = np.flatnonzero(nodes) if nodes.dtype == bool else np.unique(nodes)
    if nodes.dtype.kind not in "iu" or (len(nodes) and not 0 <= nodes[0] <= nodes[-1] < num_nodes):
        raise SourceError(
            f"Split {index} holds {part} nodes outside the graph; expected node numbers from 0 to "
            f"{num_nodes - 1}",
            hint="is the file of splits meant for this graph?",
        )
    return nodes.astype(np.int64)
