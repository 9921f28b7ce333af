"""A synthetic graph in memory, which what is streamed to disk must equal."""

import numpy as np

from scr.graph import Graph
from scr.synth import SynthConfig
from scr.synth._model import SynthEdges, draw_nodes, feature_blocks


def synth_graph(config=None, **settings):
    config = config or SynthConfig(**settings)
    nodes = draw_nodes(config)
    blocks = list(feature_blocks(config, nodes.classes))
    return Graph.from_edges(
        np.asarray(SynthEdges(config)),
        features=np.concatenate(blocks) if blocks else None,
        labels=nodes.labels.astype(np.int64, copy=False),
        num_nodes=config.nodes,
        class_names=config.class_names(),
        name="synth",
        steps=(config.step(),),
        **{name: part if len(part) else None for name, part in nodes.splits.items()},
    )
