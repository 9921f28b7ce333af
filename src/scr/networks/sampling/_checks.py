"""Refuse what no sampler can work with, in one sentence, before anything is drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.errors import ConfigError, GraphError
from scr.graph import as_numpy


def check_count(setting: str, value: int, least: int = 1) -> int:
    """A whole number that is large enough."""
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_whole or value < least:
        raise ConfigError(setting, value, f"a whole number of at least {least}")
    return int(value)


def check_nodes(nodes: Any, num_nodes: int) -> NDArray[np.int64]:
    """Node numbers inside the graph, as int64; whether they are distinct is not looked at."""
    array = as_numpy(nodes)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise GraphError(
            f"Nodes are of the type {array.dtype} and shape {array.shape}; "
            "expected a list of node numbers",
            hint="turn a mask into numbers with `numpy.flatnonzero`" if array.ndim == 1 else None,
        )
    if array.size:
        for node in (int(array.min()), int(array.max())):
            if not 0 <= node < num_nodes:
                raise GraphError(
                    f"Node {node} is not in the graph; expected numbers from 0 to {num_nodes - 1}"
                )
    return array.astype(np.int64)
