"""Parts that all of OGB's node-property folders share: tables, class names, official splits.

*edge.csv.gz  *node-feat.csv.gz  *node-label.csv.gz       numbers without a header
mapping/labelidx2*.csv.gz              number and name of each class, with a header
split/NAME/{train,valid,test}.csv.gz   node numbers, one per row
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.errors import SourceError
from scr.sources.readers._gzip_csv import count_columns, fill_matrix, read_cells, read_column

SPLITS = ("train", "valid", "test")
UNKNOWN = -1
_LABEL_CHUNK = 1 << 24


def graph_name(folder: Path) -> str:
    """What to call the graph of a folder: `ogbn_products` is `ogbn-products` everywhere else."""
    name = folder.resolve().name
    return name.replace("_", "-") if name.startswith("ogbn_") else name


def read_count(path: Path) -> int:
    """The number in a file such as `num-node-list.csv.gz`, which has a row for each graph."""
    return one_count(read_column(path), f"`{path}`")


def one_count(counts: NDArray[Any], what: str) -> int:
    """The only number of a list with one entry for each graph."""
    if counts.shape != (1,) or counts[0] < 0:
        raise SourceError(f"{what} is {counts.tolist()[:5]}; expected one number, for one graph")
    return int(counts[0])


def read_features_table(path: Path, rows: int, counted_by: str) -> NDArray[np.float32]:
    """A file of features; one row per node."""
    features = np.empty((rows, count_columns(path)), np.float32)
    fill_matrix(path, features, counted_by=counted_by)
    return features


def read_edge_table(path: Path, rows: int, counted_by: str) -> NDArray[np.int32]:
    """A file of edges, two node numbers in each row, as shape (2, edges)."""
    edges = np.empty((2, rows), np.int32)
    fill_matrix(path, edges.T, counted_by=counted_by)
    return edges


def read_label_table(
    path: Path, rows: int, counted_by: str, names: tuple[str, ...] | None
) -> NDArray[np.int64]:
    """A file of one class number per node, empty where it is unknown."""
    values = np.empty((rows, 1), np.float64)
    fill_matrix(path, values, counted_by=counted_by)
    return whole_labels(values, str(path), names)


def class_names(folder: Path) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """Names of the classes from the folder `mapping`, and what had to be decided about them.

    Names that are empty become the number of the class, and equal names get the number added.
    """
    files = sorted((folder / "mapping").glob("labelidx2*.csv.gz"))
    if not files:
        return None, ()
    cells = [[cell.strip() for cell in row] for row in read_cells(files[0])]
    found = {int(row[0]): row[-1] for row in cells if len(row) > 1 and row[0].isdecimal()}
    if not found or set(found) != set(range(len(found))):
        return None, (f"the classes in {files[0].name} are not numbered from 0: left out",)
    names = [found[number] or str(number) for number in range(len(found))]
    repeated = {name for name in names if names.count(name) > 1}
    return tuple(
        f"{name} ({number})" if name in repeated else name for number, name in enumerate(names)
    ), ()


def whole_labels(
    values: NDArray[Any], where: str, names: tuple[str, ...] | None
) -> NDArray[np.int64]:
    """Make labels of numbers in which NaN means unknown.

    Args:
        values: Shape (nodes,) or (nodes, 1), possibly a memory map, which is read in chunks.
        where: The file, for messages.
        names: Names of the classes, if they are known: no label may lie beyond them.
    """
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1 or values.dtype.kind not in "iuf":
        raise SourceError(
            f"The labels in `{where}` are {values.dtype} of shape {values.shape}; "
            "expected one number per node"
        )
    labels = np.empty(len(values), np.int64)
    most = len(names) - 1 if names is not None else None
    for start in range(0, len(values), _LABEL_CHUNK):
        part = np.asarray(values[start : start + _LABEL_CHUNK])
        part = np.where(np.isnan(part), UNKNOWN, part)
        is_wrong = (part != np.rint(part)) | (part < UNKNOWN) | ~np.isfinite(part)
        if most is not None:
            is_wrong |= part > most
        if is_wrong.any():
            row = int(np.flatnonzero(is_wrong)[0])
            expected = "0 or more" if most is None else f"from 0 to {most}"
            raise SourceError(
                f"`{where}`, row {start + row + 1}: the label is {part[row]:g}; expected the "
                f"number of a class, {expected}, or nothing"
            )
        labels[start : start + len(part)] = part
    return labels


def split_folder(folder: Path) -> Path:
    """The folder of the official split, such as `split/time`."""
    found = sorted(path for path in (folder / "split").iterdir() if path.is_dir())
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise SourceError(
            f"`{folder / 'split'}` has the folders {names}; expected one, with the official split"
        )
    return found[0]


def read_split(folder: Path, num_nodes: int) -> dict[str, Any]:
    """Nodes of train, valid and test, in the file's order; none where a file is empty."""
    split: dict[str, Any] = {}
    for part in SPLITS:
        path = folder / f"{part}.csv.gz"
        nodes = read_column(path)
        outside = np.flatnonzero((nodes < 0) | (nodes >= num_nodes))
        if len(outside):
            row = int(outside[0])
            raise SourceError(
                f"`{path}`, row {row + 1}: there is no node {nodes[row]}; "
                f"expected numbers from 0 to {num_nodes - 1}"
            )
        split[part] = nodes if len(nodes) else None
    return split
