"""METIS by way of pymetis, in a process of its own, with checked input and output.

Paper: Karypis and Kumar 1998, "A Fast and High Quality Multilevel Scheme for Partitioning Irregular
Graphs".
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scr.errors import ConfigError, SCRError
from scr.graph import Graph
from scr.networks.sampling import _metis_process as metis_process

_LARGEST = 2**31 - 1
"""Of METIS's 32-bit numbers."""
_INSTEAD = 'use `method="label-propagation"`, which needs nothing else'


def metis_partition(graph: Graph, parts: int, seed: int) -> NDArray[np.int32]:
    """The part of each node, with few edges between parts of about equal size."""
    if parts == 1:  # METIS divides by zero
        return np.zeros(graph.num_nodes, np.int32)
    indptr, indices = symmetric_rows(graph)
    if indptr[-1] > _LARGEST:
        raise SCRError(
            f"METIS takes at most {_LARGEST:,} stored edges; the graph has {indptr[-1]:,}",
            hint=_INSTEAD,
        )
    with tempfile.TemporaryDirectory(prefix="scr-metis-") as name:
        folder = Path(name)
        np.save(folder / "indptr.npy", indptr)
        np.save(folder / "indices.npy", indices)
        words = [sys.executable, "-P", metis_process.__file__, name, str(parts), str(seed)]
        ended = subprocess.run(words, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if ended.returncode == metis_process.MISSING:
            raise ConfigError(
                "method", "metis", "one that is installed, but pymetis cannot be imported",
                hint="install it with `pip install pymetis`",
            )  # fmt: skip
        if ended.returncode != 0:
            raise _failure(ended.returncode, ended.stdout.decode(errors="replace"))
        membership: NDArray[np.int32] = np.load(folder / "membership.npy", allow_pickle=False)
    is_within = membership.size == 0 or (membership.min() >= 0 and membership.max() < parts)
    if membership.shape != (graph.num_nodes,) or not is_within:
        raise SCRError(
            f"METIS gave an array of shape {membership.shape} that is not a partition into "
            f"{parts} parts",
            hint=_INSTEAD,
        )
    return membership


def symmetric_rows(graph: Graph) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Row offsets and neighbors with every edge in both directions, without self-loops.

    METIS may crash or never end on anything else, so it is not left to the graph's word.
    """
    ones = np.ones(graph.num_edges, np.int8)
    shape = (graph.num_nodes, graph.num_nodes)
    rows = sp.csr_array((ones, graph.indices, graph.indptr), shape=shape)
    both = (rows.astype(bool) + rows.T.astype(bool)).tocoo()
    apart = both.row != both.col
    kept = sp.csr_array((both.data[apart], (both.row[apart], both.col[apart])), shape=shape)
    return kept.indptr.astype(np.int64), kept.indices.astype(graph.indices.dtype)


def _failure(code: int, output: str) -> SCRError:
    ended = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    said = f" and said `{lines[-1]}`" if lines else ""
    return SCRError(f"METIS {ended}{said}; expected a partition", hint=_INSTEAD)
