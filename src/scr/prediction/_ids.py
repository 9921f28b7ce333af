"""Nodes by the names that users have for them: ids of known nodes, and of new ones that join."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.errors import GraphError, SourceError
from scr.graph import Graph, as_numpy, converted_ids, read_nodes

SHOWN_IDS = 5
"""Unknown ids that a message names."""
HEADINGS = ("id", "ids", "node", "nodes", "node_id")
"""First lines of a list of ids that are not ids."""


@dataclass(frozen=True, eq=False)
class NodeIds:
    """The ids of known nodes and, behind them, of new ones."""

    known: NDArray[Any] | None
    """Of the known nodes, int64 or text; none: they are their numbers."""
    count: int
    """Of the known nodes."""
    new: NDArray[Any]
    """Of the new nodes, of the same type."""
    graph: str = "graph"
    """Its name, for messages."""

    @classmethod
    def of(cls, graph: Graph) -> NodeIds:
        """The ids of a graph, without new ones."""
        ids = None if graph.ids is None else np.asarray(graph.ids)
        empty = np.zeros(0, np.int64 if ids is None else ids.dtype)
        return cls(ids, graph.num_targets, empty, graph.name)

    def joined_by(self, ids: Any, count: int) -> NodeIds:
        """The same with so many new nodes.

        Their ids are distinct and no known ones; none, where ids are numbers: the next numbers.
        """
        if ids is None and self.known is not None:
            raise GraphError(
                "The new nodes have no ids, but the known ones have; expected an id for each"
            )
        if ids is None:
            new = np.arange(self.count, self.count + count)
        else:
            new, is_right = self._converted(as_list(ids))
            if not is_right.all():
                wrong = as_list(ids)[int(np.flatnonzero(~is_right)[0])]
                raise GraphError(f"The new id {_text(wrong)} is not a whole number; expected one, "
                                 f"as the ids of the graph `{self.graph}` are")  # fmt: skip
        if len(new) != count:
            raise GraphError(f"There are {len(new):,} new ids; expected {count:,}, one per node")
        values, times = np.unique(new, return_counts=True)
        if (times > 1).any():
            raise GraphError(f"The new id {_text(values[times > 1][0])} is given to several nodes")
        joined = NodeIds(self.known, self.count, new, self.graph)
        if self.known is not None:
            joined.__dict__["_known_order"] = self._known_order  # sorted once
        taken = new[joined._among_known(new) >= 0]
        if len(taken):
            raise GraphError(
                f"{_listed(taken)} of the graph `{self.graph}` already; expected ids that it does "
                "not have",
                hint="predict known nodes by their ids alone, without features and edges",
            )
        return joined

    def numbers(self, ids: Any) -> NDArray[np.int64]:
        """Numbers of nodes, known ones first; unknown ids are named."""
        asked = as_list(ids)
        numbers = self.lookup(asked)
        if (numbers < 0).any():
            missing = [asked[place] for place in np.flatnonzero(numbers < 0)]
            raise UnknownIdsError(missing, self.graph)
        return numbers

    def lookup(self, ids: Any) -> NDArray[np.int64]:
        """The same; -1 for unknown ids."""
        asked = as_list(ids)
        if self.known is not None and self.known.dtype.kind == "U":
            # Each text once: in an array, every one takes the room of the longest.
            places = {text: place for place, text in enumerate(dict.fromkeys(map(str, asked)))}
            distinct = self._looked_up(list(places))
            return distinct[np.array([places[str(each)] for each in asked], np.int64)]
        return self._looked_up(asked)

    def _looked_up(self, ids: Sequence[Any]) -> NDArray[np.int64]:
        values, is_right = self._converted(ids)
        numbers = np.full(len(values), -1, np.int64)
        numbers[is_right] = self._among_known(values[is_right])
        if len(self.new):
            places = _places(values, self.new, self._new_order)
            is_new = is_right & (places >= 0)
            numbers[is_new] = self.count + places[is_new]
        return numbers

    def pairs(self, edges: Any) -> NDArray[np.int64]:
        """Edges between ids as pairs of numbers, shape (edges, 2)."""
        listed = as_numpy(edges)
        if listed.size == 0:
            return np.zeros((0, 2), np.int64)
        if listed.ndim != 2 or listed.shape[1] != 2:
            raise GraphError(
                f"The new edges have the shape {listed.shape}; expected (edges, 2), two ids each"
            )
        return self.numbers(listed.ravel()).reshape(-1, 2)

    def ids_of(self, numbers: NDArray[np.int64]) -> NDArray[Any]:
        """The ids of known nodes."""
        return numbers if self.known is None else np.asarray(self.known[numbers])

    @cached_property
    def _known_order(self) -> NDArray[np.int64]:
        assert self.known is not None
        return np.argsort(self.known, kind="stable")

    @cached_property
    def _new_order(self) -> NDArray[np.int64]:
        return np.argsort(self.new, kind="stable")

    def _among_known(self, values: NDArray[Any]) -> NDArray[np.int64]:
        if self.known is None:
            inside = (values >= 0) & (values < self.count)
            return np.where(inside, values, -1).astype(np.int64)
        return _places(values, self.known, self._known_order)

    def _converted(self, ids: Sequence[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Ids in the type of the known ones, and which of them can have it."""
        return converted_ids(ids, self.known)


class UnknownIdsError(GraphError):
    """Some ids are of no node."""

    def __init__(self, ids: Sequence[Any], graph: str) -> None:
        self.ids = list(ids)
        super().__init__(f"{_listed(self.ids, 'not ')} of the graph `{graph}`; expected its ids")


def as_list(ids: Any) -> list[Any]:
    """Ids as plain values of Python."""
    if isinstance(ids, (list, tuple)):
        return [each.item() if getattr(each, "shape", None) == () else each for each in ids]
    return list(np.atleast_1d(as_numpy(ids)).tolist())


def named_nodes(text: str, ids: NodeIds) -> NDArray[Any]:
    """Numbers of known nodes, as the command line names them.

    Args:
        text: A `.npy` of numbers or a mask, a file with one id per line or a CSV of one column, or
            ids with commas between them.
        ids: Of the graph's nodes.
    """
    path = Path(text).expanduser()
    if path.suffix == ".npy":
        return read_nodes(path)
    is_file = path.is_file()
    listed = _read_list(path) if is_file else [part.strip() for part in text.split(",")]
    listed = [each for each in listed if each]
    if is_file and listed and listed[0].lower() in HEADINGS and ids.lookup(listed[:1])[0] < 0:
        listed = listed[1:]
    if not listed:
        raise SourceError(f"`{text}` names no nodes; expected at least one id")
    try:
        return ids.numbers(listed)
    except UnknownIdsError as error:
        if is_file or path.suffix == "":
            raise
        raise SourceError(f"There is no file `{text}`; expected a file, or ids of the graph "
                          f"`{ids.graph}` with commas between them") from error  # fmt: skip


def is_table_of_nodes(text: str) -> bool:
    """Whether the command line names a table of new nodes: a file of several columns."""
    path = Path(text).expanduser()
    if not path.is_file() or path.suffix == ".npy":
        return False
    if path.suffix not in (".csv", ".tsv", ".txt"):
        return True
    first = ",".join(cell for row in _rows(path, most=1) for cell in row)
    separators = ",\t" if path.suffix == ".txt" else ",;\t|"
    return any(each in first for each in separators)


def _read_list(path: Path) -> list[str]:
    rows = _rows(path)
    if any(len(row) > 1 for row in rows):
        raise SourceError(f"`{path}` has several columns; expected one id per line")
    return [row[0].strip() for row in rows if row]


def _rows(path: Path, most: int | None = None) -> list[list[str]]:
    separator = "\t" if path.suffix == ".tsv" else ","
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=separator)
            return [row for row, _ in zip(reader, range(most), strict=False)] if most else [*reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SourceError(f"`{path}` cannot be read as a list of ids: {error}") from None


def _places(
    values: NDArray[Any], listed: NDArray[Any], order: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Where values are in a list, -1 where they are not; `order` sorts the list."""
    if len(listed) == 0 or len(values) == 0:
        return np.full(len(values), -1, np.int64)
    near = np.minimum(np.searchsorted(listed, values, sorter=order), len(listed) - 1)
    places = order[near]
    return np.where(listed[places] == values, places, -1)


def _listed(ids: Any, word: str = "") -> str:
    shown = ", ".join(_text(each) for each in list(ids)[:SHOWN_IDS])
    more = f" and {len(ids) - SHOWN_IDS:,} more" if len(ids) > SHOWN_IDS else ""
    if len(ids) == 1:
        return f"The id {shown} is {word}one"
    return f"The ids {shown}{more} are {word}ids"


def _text(value: Any) -> str:
    text = str(value)
    return f"`{text if len(text) <= 60 else text[:57] + '...'}`"
