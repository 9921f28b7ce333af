"""Hops beside their store, found again by what they were made from.

The name of the folder is a hash of the edges, the features, how features were prepared, and the
settings of propagation. The same inputs find the same hops; a change of any of them gives
another name, so a stale result is never found.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scr.errors import StoreError
from scr.propagation._config import PropagationConfig
from scr.propagation._hops import ARRAY, ROWS, SCHEMA, Hops
from scr.propagation._kept_rows import labeled_nodes, rows_hash
from scr.propagation._walks import Subsets, hop_settings, matrices_of
from scr.storage import MANIFEST, VERIFIED

if TYPE_CHECKING:
    from scr.graph import Graph

FOLDER = "hops"


def hops_key(
    graph: Graph, config: PropagationConfig, steps: Sequence[str] = (), *, subsets: Subsets = None
) -> str:
    """Hash all that decides the numbers of the hops: not labels and splits, nor their settings.

    How features were prepared, `FittedFeatures.identity`, is in `steps`.
    """
    parts = {
        "schema": SCHEMA,
        "graph": graph.fingerprint("edges", "features"),
        "directed": graph.directed,
        "steps": list(steps),
        **hop_settings(config, subsets),
    }
    return hashlib.blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=10).hexdigest()


def cached_hops_path(
    graph: Graph,
    config: PropagationConfig,
    steps: Sequence[str] = (),
    rows: NDArray[np.int64] | None = None,
    *,
    subsets: Subsets = None,
) -> Path | None:
    """Where the hops of a stored graph belong; none if the graph has no store.

    Args:
        graph: Its edges and features count, labels and splits do not.
        config: Its settings of labels do not count.
        steps: How features were prepared: `FittedFeatures.identity`.
        rows: Sorted numbers of the nodes that are kept; none: all.
        subsets: Subsets of relations that are walked apart, if they are.
    """
    if graph.path is None:
        return None
    key = hops_key(graph, config, steps, subsets=subsets)
    return graph.path / FOLDER / (key if rows is None else f"{key}-rows{rows_hash(rows)}")


def load_cached_hops(
    graph: Graph,
    config: PropagationConfig,
    steps: Sequence[str] = (),
    *,
    nodes: NDArray[Any] | None = None,
    subsets: Subsets = None,
) -> Hops | None:
    """Hops that `scr propagate` left beside the store, or none.

    Hops of all rows come first; otherwise hops that hold all of some nodes are looked for, the
    fewest rows first. What is not as it was written is read once; damaged hops count as none, with
    a warning, since they can be made again.

    Args:
        graph: As for `cached_hops_path`, like all that is not named here.
        nodes: Numbers of the nodes that must be among the rows; by default those of the splits
            or, where there are none, with a known label.
    """
    path = cached_hops_path(graph, config, steps, subsets=subsets)
    if path is None or not path.parent.is_dir():
        return None
    count = matrices_of(config, subsets)
    every = _open(path, count)
    if every is not None and every.nodes == graph.num_targets and every.nodes_kept is None:
        return every
    wanted = labeled_nodes(graph) if nodes is None else np.asarray(nodes)
    found = [_open(folder, count) for folder in path.parent.glob(f"{path.name}-rows*")]
    fitting = [hops for hops in found if hops is not None and _holds(hops, wanted)]
    return min(fitting, key=len, default=None)


def has_hops_of_some_rows(graph: Graph) -> bool:
    """Whether hops of some nodes are beside the store, so that its splits may find different ones.

    Not whether they would be found: that depends on all settings.
    """
    return graph.path is not None and any((graph.path / FOLDER).glob("*-rows*"))


def _open(path: Path, count: int) -> Hops | None:
    if not path.is_dir():
        return None
    try:
        hops = Hops.open(path)
    except StoreError as error:
        _discard(path)
        warnings.warn(f"{error.message}; these hops are not used but made again", stacklevel=3)
        return None
    return hops if hops.count == count else None


def _discard(path: Path) -> None:
    """Remove the files of damaged hops, and their folder if there is nothing else in it."""
    if (path / MANIFEST).exists() and not os.access(path / MANIFEST, os.R_OK):
        return  # whoever may read them may find them whole
    with suppress(OSError):
        for name in (MANIFEST, VERIFIED, f"{ARRAY}.npy", f"{ROWS}.npy"):
            (path / name).unlink(missing_ok=True)
        path.rmdir()


def _holds(hops: Hops, nodes: NDArray[Any]) -> bool:
    # Without any node to ask for, nothing says that these are the rows that are needed.
    kept = hops.nodes_kept
    if kept is None or len(kept) != hops.nodes or len(nodes) == 0:
        return False
    return bool(np.isin(nodes, kept, assume_unique=True).all())
