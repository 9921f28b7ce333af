"""Semi-supervised node classification for large graphs, by consistency regularization (SCR).

    graph = scr.load_graph("digits")
    classifier = scr.NodeClassifier(encoder="ssgc", regularizer="scr", seed=0).fit(graph)
    classifier.score("test")

Names are imported when they are first used, so that `import scr` stays instant.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from scr.classifier import NodeClassifier as NodeClassifier
    from scr.consistency import ConfidentSet as ConfidentSet
    from scr.consistency import ConsistencyLoss as ConsistencyLoss
    from scr.consistency import MeanTeacher as MeanTeacher
    from scr.errors import SCRError as SCRError
    from scr.graph import Graph as Graph
    from scr.graph import load_graph as load_graph
    from scr.propagation import Hops as Hops
    from scr.propagation import propagate as propagate

_HOMES = {
    "ConfidentSet": "scr.consistency",
    "ConsistencyLoss": "scr.consistency",
    "Graph": "scr.graph",
    "Hops": "scr.propagation",
    "MeanTeacher": "scr.consistency",
    "NodeClassifier": "scr.classifier",
    "SCRError": "scr.errors",
    "load_graph": "scr.graph",
    "propagate": "scr.propagation",
}
_ROOMS = (
    "completion", "consistency", "encoders", "graph", "prediction", "propagation", "report",
    "sampling", "training",
)  # fmt: skip

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _ROOMS:
        return importlib.import_module(f"scr.{name}")
    raise AttributeError(f"module 'scr' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES, *_ROOMS])
