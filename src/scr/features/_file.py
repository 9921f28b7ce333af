"""Features from a file of their own: a `.npy` with one row per node, memory-mapped.

Language models make features that no graph format holds, such as GIANT-XRT's `X.all.xrt-emb.npy`.
The file is checked when it is opened, stays on disk, and keeps its type (float16, float32 or
float64) until a later step reads rows of it. Steps compute in float32, and a store made with the
file holds float32 or float16, so numbers must fit there. Files with pickles are refused.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scr.errors import SourceError
from scr.graph import check_features
from scr.storage import map_array, open_plain

if TYPE_CHECKING:
    from scr.graph import Graph

_MAGIC = b"\x93NUMPY"
_STEP = "took features from"


def read_features(path: Path, num_nodes: int, nodes: str) -> NDArray[Any]:
    """As `open_features`, but whole numbers become floats in memory."""
    features = open_features(path, num_nodes, nodes)
    return features if features.dtype.kind == "f" else features.astype(np.float32)


def open_features(path: Path, num_nodes: int, nodes: str) -> NDArray[Any]:
    """Open a `.npy` of features as it is, memory-mapped; `nodes` says whose, for messages."""
    path = Path(path).expanduser()
    try:
        with open_plain(path) as file:
            begins_as_npy = file.read(len(_MAGIC)) == _MAGIC
        if not begins_as_npy:
            raise SourceError(
                f"`{path}` cannot be read as features: it is not a .npy file",
                hint="write one with `numpy.save(path, array)`",
            )
    except FileNotFoundError:
        raise SourceError(f"`{path}` does not exist; expected a .npy of features") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SourceError(f"`{path}` cannot be read as features: {reason}") from None
    features = map_array(path, what="features", error=SourceError)
    if features.ndim != 2 or len(features) != num_nodes or not features.size:
        raise SourceError(
            f"`{path}` has the shape {features.shape}; expected {num_nodes:,} rows, one for each "
            f"node of {nodes}, and at least one column"
        )
    if features.dtype.kind not in "fiub":
        raise SourceError(f"`{path}` holds {features.dtype}; expected numbers")
    return features


def replace_features(graph: Graph, path: str | Path, nodes: str) -> Graph:
    """The same graph with the features of a `.npy`, which its steps and `features_file` name."""
    features = read_features(Path(path), graph.num_targets, nodes)
    check_features(features, graph.num_targets)
    return dataclasses.replace(
        graph,
        features=features,
        # Whole numbers were copied as floats, so the array itself may not know its file.
        features_file=Path(path).expanduser().resolve(),
        steps=(*graph.steps, features_step(path, features)),
    )


def features_step(path: str | Path, features: NDArray[Any]) -> str:
    """Where features were taken from, in words."""
    rows, columns = features.shape
    # Whole numbers are floats by the time that anybody sees them.
    dtype = features.dtype if features.dtype.kind == "f" else np.dtype(np.float32)
    return f"{_STEP} {Path(path).name}: {rows:,} x {columns:,} of {dtype}"


def took_features(graph: Graph) -> bool:
    """Whether the features came from such a file, now or when the graph's store was made."""
    return any(step.startswith(_STEP) for step in graph.steps)
