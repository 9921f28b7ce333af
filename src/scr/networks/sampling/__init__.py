"""Subgraphs to train graph neural networks on: sampled neighbors, clusters, GraphSAINT.

Every sampler reads the edges of a `Graph` and gives `SubgraphBatch` objects of NumPy arrays, which
know nothing of a trainer or of torch. What is drawn is a function of the seed and of the number of
the step, so it is the same for any number of threads and in any order of steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scr._front_door import front_door

if TYPE_CHECKING:
    from scr.networks.sampling._batch import SubgraphBatch as SubgraphBatch
    from scr.networks.sampling._clusters import ClusterSampler as ClusterSampler
    from scr.networks.sampling._clusters import partition as partition
    from scr.networks.sampling._neighbors import NeighborSampler as NeighborSampler
    from scr.networks.sampling._saint import SaintSampler as SaintSampler
    from scr.networks.sampling._subgraph import induced_subgraph as induced_subgraph
else:
    __all__, __getattr__, __dir__ = front_door(__name__)
