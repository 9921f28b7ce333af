"""Semi-supervised node classification for large graphs, by consistency regularization (SCR).

    classifier = scr.fit("nodes.csv", "edges.csv", label="category")   # from two tables

    graph = scr.load_graph("digits")                                    # or step by step
    classifier = scr.NodeClassifier(encoder="ssgc", regularizer="scr", seed=0).fit(graph)
    classifier.score("test")

Names are imported when they are first used, so that `import scr` stays instant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scr._front_door import front_door

__version__ = "0.1.0"

if TYPE_CHECKING:
    from scr.classifier import NodeClassifier as NodeClassifier
    from scr.consistency import ConfidentSet as ConfidentSet
    from scr.consistency import ConsistencyLoss as ConsistencyLoss
    from scr.consistency import MeanTeacher as MeanTeacher
    from scr.errors import SCRError as SCRError
    from scr.fitting import fit as fit
    from scr.graph import Graph as Graph
    from scr.propagation import Hops as Hops
    from scr.propagation import propagate as propagate
    from scr.sources import load_graph as load_graph
else:
    __all__, __getattr__, __dir__ = front_door(__name__)
