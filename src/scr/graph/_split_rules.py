"""Say a split in one word: `per-class:20,30`, `random:0.1,0.1`, or the name of a file of splits.

The command line, recipes and Python share this little language; `_splits.py` does the work.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TypeVar

from scr.errors import ConfigError
from scr.graph._graph import Graph
from scr.graph._splits import Split, per_class_split, random_split, read_splits

_Number = TypeVar("_Number", int, float)


def apply_split(graph: Graph, rule: str | Path, *, number: int = 0, seed: int = 0) -> Graph:
    """Split a graph as a rule says, and record it in its steps.

    Args:
        graph: Any graph with labels.
        rule: `per-class:TRAIN,VALID` (nodes), `random:TRAIN,VALID` (shares), or an `.npz` file.
        number: Which split of the file; a drawn split uses seed + number, so that the numbers
            0, 1, 2... are different draws.
        seed: Of drawn splits.
    """
    split, step = _make_split(graph, str(rule), number, seed)
    parts = {name: nodes if len(nodes) else None for name, nodes in split._asdict().items()}
    return dataclasses.replace(graph.with_split(**parts), steps=(*graph.steps, step))


def _make_split(graph: Graph, rule: str, number: int, seed: int) -> tuple[Split, str]:
    kind, _, values = rule.partition(":")
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
            "`per-class:TRAIN,VALID` or `random:TRAIN,VALID`, such as `per-class:20,30` or "
            "`random:0.1,0.1`"
        )
        raise ConfigError("splits", rule, expected) from None
    return train, valid
