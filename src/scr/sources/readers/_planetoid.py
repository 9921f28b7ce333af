"""Read Planetoid's raw files `ind.NAME.*` (Yang et al. 2016), as Cora and PubMed are handed out.

Eight files: features of the labeled training rows (``x``), of all rows but the test rows
(``allx``) and of the test rows (``tx``), their one-hot labels (``y``, ``ally``, ``ty``), a
dictionary of neighbors (``graph``) and, as text, where the rows of ``tx`` belong (``test.index``).
In Citeseer some of those places have no row at all: such nodes get no features and no label.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from scr.errors import SourceError
from scr.sources.readers._pickles import read_pickle
from scr.sources.readers._raw import RawGraph
from scr.storage import check_budget, open_plain

_PICKLED = ("x", "y", "tx", "ty", "allx", "ally", "graph")
# The public split validates on the 500 rows that follow the training rows (Yang et al. 2016).
_VALIDATION_NODES = 500


def planetoid_prefix(path: Path) -> Path | None:
    """The common beginning of the files, such as `folder/ind.cora`, or none if it is not Planetoid.

    The path may be a folder with the files, their common beginning, or any one of them.
    """
    if path.is_dir():
        found = sorted(path.glob("ind.*.allx"))
        if len(found) > 1:
            names = ", ".join(file.name.removesuffix(".allx") for file in found)
            raise SourceError(
                f"`{path}` holds several Planetoid graphs: {names}",
                hint=f"name one of them, such as `{found[0].with_suffix('')}`",
            )
        return found[0].with_suffix("") if found else None
    if not path.name.startswith("ind."):
        return None
    if path.is_file():
        name = path.name.removesuffix(".test.index")
        return path.with_name(name) if name != path.name else path.with_suffix("")
    return path if any(path.parent.glob(f"{path.name}.*")) else None


def read_planetoid(prefix: Path) -> RawGraph:
    """Read the eight files that begin with `prefix`, such as `folder/ind.cora`."""
    parts = {part: _read_part(prefix, part) for part in _PICKLED}
    first, count = parts["allx"].shape[0], parts["y"].shape[0]
    order = _read_test_index(prefix, first, parts["tx"].shape[0], len(parts["graph"]))
    _check_shapes(prefix, parts)
    num_nodes = max(first, int(order.max(initial=-1)) + 1)
    check_budget(f"Reading `{prefix}.ally`", 8 * num_nodes * parts["ally"].shape[1], None)
    one_hot = _place_rows(parts["ally"], parts["ty"], order, num_nodes).toarray()
    labels = np.where(one_hot.any(axis=1), one_hot.argmax(axis=1), -1).astype(np.int64)
    missing = int((labels < 0).sum())
    note = f"{missing} nodes have no row in the files: no features, no label"
    return RawGraph(
        name=prefix.name.removeprefix("ind."),
        edges=_edges(parts["graph"], prefix),
        num_nodes=num_nodes,
        features=_place_rows(parts["allx"], parts["tx"], order, num_nodes),
        labels=labels,
        train=np.arange(count, dtype=np.int64),
        valid=np.arange(count, min(count + _VALIDATION_NODES, first), dtype=np.int64),
        test=np.sort(order),
        notes=(note,) if missing else (),
    )


@contextmanager
def _open_part(prefix: Path, part: str) -> Iterator[IO[bytes]]:
    path = prefix.with_name(f"{prefix.name}.{part}")
    try:
        with open_plain(path) as file:
            check_budget(f"Reading `{path}`", path.stat().st_size, None)
            yield file
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SourceError(
            f"A Planetoid graph needs `{path}`, which cannot be read: {reason}"
        ) from None


def _read_part(prefix: Path, part: str) -> Any:
    with _open_part(prefix, part) as file:
        value = read_pickle(file, what=f"`{prefix}.{part}`")
    is_array = isinstance(value, (np.ndarray, scipy.sparse.csr_array))
    is_matrix = is_array and value.ndim == 2 and value.dtype.kind in "fiub"
    if not (isinstance(value, dict) if part == "graph" else is_matrix):
        raise SourceError(
            f"`{prefix}.{part}` holds a {type(value).__name__}, not what `{part}` should be"
        )
    return value


def _read_test_index(prefix: Path, first: int, rows: int, limit: int) -> NDArray[np.int64]:
    """Where the test rows belong: so many different rows, from `first` on and below `limit`."""
    with _open_part(prefix, "test.index") as file:
        words = file.read().split()
    try:
        order = np.array(words, dtype=np.int64)
    except (ValueError, OverflowError) as error:
        raise SourceError(
            f"`{prefix}.test.index` should be one row number per line: {error}"
        ) from None
    distinct = np.unique(order)
    inside = not rows or (len(distinct) and first <= distinct[0] and distinct[-1] < limit)
    if not (len(order) == len(distinct) == rows and inside):
        raise SourceError(
            f"`{prefix}.test.index` should name {rows} different rows from {first} to "
            f"{limit - 1}; it names {len(distinct)} in {len(order)} lines"
        )
    return order


def _check_shapes(prefix: Path, parts: dict[str, Any]) -> None:
    """Rows of features and labels must match, and so must the columns of all parts."""
    for features, labels in (("x", "y"), ("tx", "ty"), ("allx", "ally")):
        shapes = parts[features].shape, parts[labels].shape
        columns = parts["allx"].shape[1], parts["ally"].shape[1]
        if shapes[0][0] != shapes[1][0] or (shapes[0][1], shapes[1][1]) != columns:
            raise SourceError(
                f"`{prefix}.{features}` has the shape {shapes[0]} and `{prefix}.{labels}` "
                f"{shapes[1]}; expected as many rows, and {columns[0]} and {columns[1]} columns"
            )


def _place_rows(
    known: Any, test: Any, order: NDArray[np.int64], rows: int
) -> scipy.sparse.csr_array:
    """Stack the known rows above the test rows, each of which goes where `order` says."""
    source = scipy.sparse.csr_array(scipy.sparse.vstack([known, test], format="csr"))
    targets = np.concatenate([np.arange(known.shape[0]), order])
    ones, shape = np.ones(len(targets), dtype=source.dtype), (rows, source.shape[0])
    move = scipy.sparse.csr_array((ones, (targets, np.arange(len(targets)))), shape=shape)
    matrix = scipy.sparse.csr_array(move @ source)
    matrix.sort_indices()
    return matrix


def _edges(graph: dict[Any, Any], prefix: Path) -> NDArray[np.int64]:
    """A dictionary from node to neighbors, as edges."""
    try:
        counts = [len(neighbors) for neighbors in graph.values()]
        sources = np.repeat(np.fromiter(graph, dtype=np.int64, count=len(graph)), counts)
        targets = np.fromiter(itertools.chain.from_iterable(graph.values()), np.int64, sum(counts))
    except (TypeError, ValueError, OverflowError) as error:
        raise SourceError(f"`{prefix}.graph` should list neighbors by number: {error}") from None
    return np.stack([sources, targets])
