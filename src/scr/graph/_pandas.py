"""Make a graph from data frames of pandas: one of edges and perhaps one of nodes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from scr.errors import GraphError

if TYPE_CHECKING:
    import pandas as pd

    from scr.graph._graph import Graph

SPLITS = ("train", "valid", "test")


def from_pandas(
    cls: type[Graph],
    edges: pd.DataFrame,
    nodes: pd.DataFrame | None = None,
    *,
    source: Hashable | None = None,
    target: Hashable | None = None,
    weight: Hashable | None = None,
    id_column: Hashable | None = None,
    label: Hashable | None = None,
    split: Hashable | None = None,
    features: Sequence[Hashable] | None = None,
    **settings: Any,
) -> Graph:
    """Make a graph from a frame of edges, whose ends are ids, and a frame of nodes.

    Columns that are not named are looked for under the names of the arguments.

    Args:
        cls: `Graph`.
        edges: One row per edge.
        nodes: One row per node; none: the nodes are the ends of the edges, in sorted order.
        source: Column of the ids that edges start from; none: `source`, else the first column.
        target: Column of the ids that edges lead to; none: `target`, else the second column.
        weight: Column of weights; none: `weight` if there is one.
        id_column: Column of the ids of the nodes; none: `id` if there is one, else the index.
        label: Column of the classes; none: `label` if there is one.
        split: Column that says ``train``, ``valid`` or ``test``; none: `split` if there is one.
        features: Columns of numbers; none: all that are left.
        **settings: As in `from_edges`.
    """
    import pandas as pd

    listed = list(edges.columns)
    if len(set(listed)) < 2:
        shown = ", ".join(map(str, listed))
        raise GraphError(f"The edges have the columns {shown}; expected one for each of both ends")
    start, end = _ends(edges, source, target)
    weighted = _column(edges, weight, "weight", "edges")
    if weighted is not None:
        settings["weights"] = edges[weighted].to_numpy()
    if nodes is None:
        ids = pd.Index(pd.concat([edges[start], edges[end]]).dropna().unique())
        ids = ids.sort_values()
    else:
        named = _column(nodes, id_column, "id", "nodes")
        ids = nodes.index if named is None else pd.Index(nodes[named])
        settings |= _node_settings(nodes, named, label, split, features)
    if not ids.is_unique:
        repeated = ids[ids.duplicated()][0]
        raise GraphError(f"The id {repeated!r} is given to more than one node")
    positions = [_positions(ids, edges[column], column) for column in (start, end)]
    if not pd.api.types.is_integer_dtype(ids):
        ids = ids.astype(str)
    return cls.from_edges(np.stack(positions), num_nodes=len(ids), ids=ids.to_numpy(), **settings)


def _ends(
    edges: pd.DataFrame, source: Hashable | None, target: Hashable | None
) -> tuple[Hashable, Hashable]:
    """The columns of both ends; what is neither named nor usual is the first that is left."""
    start = _column(edges, source, "source", "edges")
    end = _column(edges, target, "target", "edges")
    if start is None:
        start = next(name for name in edges.columns if name != end)
    if end is None:
        end = next(name for name in edges.columns if name != start)
    return start, end


def _column(
    frame: pd.DataFrame, named: Hashable | None, usual: Hashable, what: str
) -> Hashable | None:
    """The column that was named, else the usual one, if there is one."""
    if named is None:
        return usual if usual in frame.columns else None
    if named not in frame.columns:
        known = ", ".join(str(name) for name in frame.columns)
        raise GraphError(f"The {what} have no column `{named}`; expected one of {known}")
    return named


def _positions(ids: pd.Index[Any], ends: pd.Series[Any], column: Hashable) -> Any:
    import pandas as pd

    positions = ids.get_indexer(pd.Index(ends))
    missing = np.flatnonzero(positions < 0)
    if len(missing):
        first = int(missing[0])
        raise GraphError(
            f"{len(missing):,} of {len(ends):,} edges have a `{column}` that is no node, the first "
            f"one {ends.iloc[first]!r} in row {first:,}; expected ids of the nodes",
        )
    return positions


def _node_settings(
    nodes: pd.DataFrame,
    id_column: Hashable | None,
    label: Hashable | None,
    split: Hashable | None,
    features: Sequence[Hashable] | None,
) -> dict[str, Any]:
    """Labels, splits and features, as `from_edges` takes them."""
    import pandas as pd

    settings: dict[str, Any] = {}
    labeled = _column(nodes, label, "label", "nodes")
    if labeled is not None:
        settings["labels"] = nodes[labeled].astype(object).where(nodes[labeled].notna(), None)
    parted = _column(nodes, split, "split", "nodes")
    if parted is not None:
        said = nodes[parted]
        wrong = said[said.notna() & ~said.isin([*SPLITS, ""])]
        if len(wrong):
            raise GraphError(
                f"The column `{parted}` says {wrong.iloc[0]!r}; expected train, valid, test or "
                "nothing"
            )
        masks = {name: (said == name).to_numpy() for name in SPLITS}
        settings |= {name: mask for name, mask in masks.items() if mask.any()}
    taken = {id_column, labeled, parted}
    columns: list[Any] = [name for name in nodes.columns if name not in taken]
    if features is not None:
        columns = [_column(nodes, name, name, "nodes") for name in features]
    if columns:
        other = [name for name in columns if not pd.api.types.is_numeric_dtype(nodes[name])]
        if other:
            raise GraphError(
                f"The columns {', '.join(f'`{name}`' for name in other)} are not numbers; expected "
                "numbers as features",
                hint="name those that are features: `features=[...]`",
            )
        settings["features"] = nodes[columns].to_numpy(np.float32)
    return settings
