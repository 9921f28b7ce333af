"""Compute X, A X, A^2 X, ... once, before training: the step that makes encoders decoupled.

`propagate` keeps every hop, in memory or in an artifact on disk, a block of columns at a time if
memory is short. `propagate_mixture` keeps only a running sum, for encoders that read nothing but
a fixed weighted sum of the hops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scr.compute import check_memory, memory_budget
from scr.errors import ConfigError, GraphError
from scr.features import LazyFeatures
from scr.graph import GraphPart
from scr.propagation._config import Direction, HopScale, Norm, PropagationConfig, StorageType
from scr.propagation._hops import Hops
from scr.propagation._in_memory import each_hop, hops_in_memory
from scr.propagation._kept_rows import kept_rows
from scr.propagation._plan import computes_apart, fast_block, plan_propagation
from scr.propagation._steps import add_scaled
from scr.propagation._subsets import as_subsets
from scr.propagation._walks import hop_settings
from scr.propagation.disk import DiskRequest, copy_folder, opened_team, propagate_to_disk

if TYPE_CHECKING:
    from scr.graph import Graph


def propagate(
    graph: Graph,
    hops: int = 5,
    norm: Norm | None = None,
    self_loops: bool = False,
    direction: Direction = "both",
    dtype: StorageType = "float32",
    memory: str | int = "auto",
    features: Any = None,
    *,
    hop_scale: HopScale = "none",
    out: str | Path | None = None,
    overwrite: bool = False,
    threads: int | None = None,
    rows: Any = "all",
    disk: str | int = "auto",
    on_progress: Callable[[str, int, int], None] | None = None,
    subsets: Iterable[Any] | None = None,
    engine: str = "local",
    address: str | None = None,
    workers: int | None = None,
    worker_cores: int | None = None,
    worker_memory: str | int = "auto",
    copy_to: str | Path | None = None,
) -> Hops:
    """Multiply the features by the first powers of the normalized adjacency.

    Args:
        graph: The graph; its arrays may be memory maps.
        hops: K, the largest power.
        norm: `row`, `sym` or `col`; see `normalization`. By default `sym`, with subsets `row`: a
            hop is then the mean over all edges of the subset that enter a node.
        self_loops: Add the identity to the adjacency first.
        direction: `both`, `out`, `in`, or `separate`: X, then K hops along the edges, then K hops
            against them.
        dtype: Storage of the hops; sums are taken in float32.
        memory: Most memory to use, such as `4GiB`; `auto` is 80% of what is available. With `out`
            it is that of the whole process.
        features: X, dense or sparse; by default the graph's own. Of a graph of several types, it
            has a row for each node of each type.
        hop_scale: `unit` gives every row of every hop length 1 at the end.
        out: Folder to write the hops to, instead of keeping them in memory. A call that was killed
            resumes where it stopped when it is repeated.
        overwrite: Replace hops that are there already.
        threads: Cores to use; all by default. The result does not depend on it.
        rows: Nodes whose hops are kept: `all`, `labeled` (those of the splits; where there are
            none, with a known label), node numbers or a mask.
        disk: Most disk for the work and the hops, with `out`; `auto` is all that is free.
        on_progress: Called with what is being done, how much of it is done, and how much there is.
        subsets: Subsets of relations (`_subsets.py`) that features are propagated over, each apart
            from the others; none: over all edges alike.
        engine: `local`, or `ray`: blocks of columns are computed by workers of a Ray cluster, which
            see the graph and `out` under the same paths as this process.
        address: Of the Ray cluster; none: of RAY_ADDRESS, one that runs here, or a new one here.
        workers: Most workers of the cluster; none: as many as run at once.
        worker_cores: Threads of each worker; none: all of the smallest machine.
        worker_memory: Most memory of each worker; `auto`: its share of the smallest machine.
        copy_to: Folder on the disk of each machine of the cluster, to which the store is copied
            once, for this call and later ones; none: all workers read the store itself.

    Returns:
        Hops of shape (nodes, K + 1, columns), or (nodes, 2 K + 1, columns) for `separate`; with
        fewer rows where not all are kept. Rows are nodes of the target type. With S subsets the
        shape is (nodes, 1 + S K, columns): X, then K hops over the first subset, and so on.
    """
    chosen = None if subsets is None else as_subsets(graph, subsets)
    if norm is None:
        norm = "sym" if chosen is None else "row"
    config = PropagationConfig(
        hops=hops, norm=norm, self_loops=self_loops, direction=direction, dtype=dtype,
        hop_scale=hop_scale,
    )  # fmt: skip
    source = check_features(graph, features)
    kept = kept_rows(graph, rows)
    if out is not None:
        request = DiskRequest(graph, config, source, kept, memory, disk, threads, chosen)
        with opened_team(
            engine, address, workers=workers, cores=worker_cores, memory=worker_memory
        ) as (opened, team):
            request = replace(request, team=team, copy_to=copy_folder(copy_to, graph, team))
            return propagate_to_disk(request, Path(out), overwrite, on_progress, opened)
    if engine != "local":
        raise ConfigError(
            "engine", engine, "`local` without `out`",
            hint="pass `out=`, a folder that all machines of the cluster see",
        )  # fmt: skip
    copy_folder(copy_to, graph, None)
    count = graph.num_targets if kept is None else len(kept)
    width = plan_propagation(
        graph, config, int(source.shape[1]), memory=memory, subsets=chosen, rows=count
    )
    apart = count == graph.num_nodes and computes_apart(
        graph, config, int(source.shape[1]), memory=memory
    )
    array = hops_in_memory(
        graph, config, source, kept=kept, subsets=chosen, width=width, apart=apart, threads=threads
    )
    return Hops(array, settings=hop_settings(config, chosen), nodes_kept=kept)


def propagate_mixture(
    graph: Graph,
    weights: Sequence[float] | NDArray[Any],
    norm: Norm = "sym",
    self_loops: bool = False,
    direction: Direction = "both",
    dtype: StorageType = "float32",
    memory: str | int = "auto",
    features: Any = None,
    *,
    hop_scale: HopScale = "none",
    threads: int | None = None,
) -> NDArray[np.float32]:
    r"""Weighted sum of the hops, with two matrices in memory beside the sum.

    Equation: sum_k weights_k * scale(A^k X), where `scale` is the identity or, for
        `hop_scale="unit"`, divides every row by its length.

    Args:
        graph: As for `propagate`, like all that is not named here.
        weights: One per matrix that `propagate` would return, hop 0 first.

    Returns:
        Shape (nodes, columns), of the nodes of the target type; of a `GraphPart`, of the nodes
        that it was cut around.
    """
    factors = [float(weight) for weight in weights]
    ways = 2 if direction == "separate" else 1
    if not factors or (len(factors) - 1) % ways:
        expected = f"{'2 K' if ways == 2 else 'K'} + 1 numbers, one per hop"
        raise ConfigError("weights", factors, expected)
    config = PropagationConfig(
        hops=(len(factors) - 1) // ways, norm=norm, self_loops=self_loops, direction=direction,
        dtype=dtype, hop_scale=hop_scale,
    )  # fmt: skip
    source = check_features(graph, features)
    shape, targets = (graph.num_nodes, int(source.shape[1])), graph.num_targets
    needed = shape[1] * (4 * targets + 2 * shape[0] * np.dtype(dtype).itemsize)
    check_memory(
        f"A mixture of hops of {shape[0]:,} nodes x {shape[1]:,} columns needs",
        needed, memory_budget(memory), hint="reduce the columns (`data.reduce`), or use float16",
    )  # fmt: skip
    if isinstance(graph, GraphPart):
        targets = graph.reach[0]
    total = np.zeros((targets, shape[1]), dtype=np.float32)
    is_unit = config.hop_scale == "unit"
    width = fast_block(shape[1], dtype)
    if is_unit:  # which takes whole rows
        width = shape[1]
    for place, block, hop in each_hop(graph, config, width, source, None, threads):
        add_scaled(total[:, block], hop[:targets], factors[place], is_unit, threads)
    return total


def check_features(graph: Graph, features: Any = None) -> Any:
    """The matrix X, as an array or in CSR form, checked against the graph."""
    source: Any = graph.features if features is None else features
    if source is None:
        raise GraphError(
            "The graph has no features; expected a matrix with one row per node",
            hint="pass `features=`, or ingest the graph with a features file",
        )
    sparse = sp.issparse(source)
    if not isinstance(source, LazyFeatures):
        source = sp.csr_array(source) if sparse else np.asarray(source)
    if source.ndim == 2 and features is None and source.shape[0] < graph.num_nodes:
        raise GraphError(
            f"There are features of {source.shape[0]:,} nodes of the type `{graph.target}`; "
            f"expected {graph.num_nodes:,} rows, for the nodes of all types",
            hint="pass `features=scr.typed_features.complete_features(graph).matrix`",
        )
    if source.ndim != 2 or source.shape[0] != graph.num_nodes:
        raise GraphError(
            f"The features have shape {tuple(source.shape)}; "
            f"expected ({graph.num_nodes}, columns), one row per node"
        )
    return source
