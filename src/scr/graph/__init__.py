"""What a graph is, in memory and on disk, and every way to get one.

`Graph` is the one type that later steps read. It comes from arrays (`Graph.from_edges` and its
sisters), from a store on disk (`open_store`) or from any supported source or name (`load_graph`).
Names are imported when they are first used, so that importing this package stays instant.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scr.graph.features import FeatureConfig as FeatureConfig
    from scr.graph.features import prepare_features as prepare_features
    from scr.graph.graph import Graph as Graph
    from scr.graph.sources import load_graph as load_graph
    from scr.graph.splits import per_class_split as per_class_split
    from scr.graph.splits import random_split as random_split
    from scr.graph.splits import read_splits as read_splits
    from scr.graph.store import open_store as open_store
    from scr.graph.store import verify_store as verify_store
    from scr.graph.store import write_store as write_store

_HOMES = {
    "FeatureConfig": "scr.graph.features",
    "Graph": "scr.graph.graph",
    "load_graph": "scr.graph.sources",
    "open_store": "scr.graph.store",
    "per_class_split": "scr.graph.splits",
    "prepare_features": "scr.graph.features",
    "random_split": "scr.graph.splits",
    "read_splits": "scr.graph.splits",
    "verify_store": "scr.graph.store",
    "write_store": "scr.graph.store",
}

# `digits` is reached as `scr.graph.digits.digits`: a lazy name equal to its module's name would
# turn from the function into the module once the module has been imported.
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'scr.graph' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
