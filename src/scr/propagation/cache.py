"""Hops beside their store, found again by what they were made from.

The name of the folder is a hash of the edges, the features, how features were prepared, and the
settings of propagation. Whoever asks with the same gets the same hops; whoever changes one of
them gets another name, so a stale result is never found.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from scr.errors import StoreError
from scr.propagation.config import PropagationConfig
from scr.propagation.engine import hop_settings
from scr.propagation.hops import SCHEMA, Hops

if TYPE_CHECKING:
    from scr.graph.graph import Graph

FOLDER = "hops"


def hops_key(graph: Graph, config: PropagationConfig, steps: Sequence[str] = ()) -> str:
    """Hash all that decides the numbers of the hops.

    Args:
        graph: Its edges and features count, labels and splits do not.
        config: Its settings of labels do not count.
        steps: How features were prepared, in the words of `PreparedFeatures.steps`.
    """
    parts = {
        "schema": SCHEMA,
        "graph": graph.fingerprint("edges", "features"),
        "directed": graph.directed,
        "steps": list(steps),
        **hop_settings(config),
    }
    return hashlib.blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=10).hexdigest()


def cached_hops_path(
    graph: Graph, config: PropagationConfig, steps: Sequence[str] = ()
) -> Path | None:
    """Where the hops of a stored graph belong; none if the graph has no store."""
    if graph.path is None:
        return None
    return graph.path / FOLDER / hops_key(graph, config, steps)


def load_cached_hops(
    graph: Graph, config: PropagationConfig, steps: Sequence[str] = ()
) -> Hops | None:
    """Hops that `scr propagate` left beside the store, or none.

    Damaged hops count as none: they can be made again.
    """
    path = cached_hops_path(graph, config, steps)
    if path is None or not path.is_dir():
        return None
    try:
        hops = Hops.open(path)
    except StoreError:
        return None
    return hops if hops.shape[:2] == (graph.num_nodes, config.matrices) else None
