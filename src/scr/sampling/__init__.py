"""Subgraphs to train graph neural networks on: sampled neighbors, clusters, GraphSAINT.

Every sampler reads the edges of a `Graph` and gives `SubgraphBatch` objects of NumPy arrays, which
know nothing of a trainer or of torch. What is drawn is a function of the seed and of the number of
the step, so it is the same for any number of threads and in any order of steps. Names are imported
when they are first used, so that importing this package stays instant.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scr.sampling.batch import SubgraphBatch as SubgraphBatch
    from scr.sampling.clusters import ClusterSampler as ClusterSampler
    from scr.sampling.clusters import partition as partition
    from scr.sampling.neighbors import NeighborSampler as NeighborSampler
    from scr.sampling.saint import SaintSampler as SaintSampler
    from scr.sampling.subgraph import induced_subgraph as induced_subgraph

_HOMES = {
    "ClusterSampler": "scr.sampling.clusters",
    "NeighborSampler": "scr.sampling.neighbors",
    "SaintSampler": "scr.sampling.saint",
    "SubgraphBatch": "scr.sampling.batch",
    "induced_subgraph": "scr.sampling.subgraph",
    "partition": "scr.sampling.clusters",
}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'scr.sampling' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
