"""What the arrays of a store may hold: types, shapes, and the range of every number.

Compiled loops read at the positions that `indptr` and `indices` name, so a number out of range is a
crash and not an exception. The ranges are looked at in the pass that reads the checksums when a
store is first used, and when a graph is written; a manifest that was forged, with checksums that
agree, does not get past them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from scr.errors import SCRError, StoreError
from scr.graph._labels import UNKNOWN, known_labels
from scr.graph._relations import Relation
from scr.storage import Manifest, ranges, release

SPLITS = ("train", "valid", "test")
_WINDOW = 1 << 18
"""Nodes whose splits are compared in one go."""
_HALF_INFINITY = 0x7C00
"""Bits of float16: without the sign, all that are larger or equal are not finite."""
_LAST_CODE_POINT = 0x10FFFF


@dataclass(frozen=True, kw_only=True)
class StoreDescription:
    """What the metadata of a store say."""

    node_types: Mapping[str, int]
    """Nodes of each type, the target type first."""
    columns: tuple[int, ...]
    """Features of each type."""
    sparse: tuple[bool, ...]
    relations: tuple[Relation, ...]
    class_names: tuple[str, ...]
    name: str
    directed: bool
    steps: tuple[str, ...]


def describe_store(manifest: Manifest) -> StoreDescription:
    """Read the metadata of a store; a `StoreError` if they do not describe a graph."""
    try:
        metadata = manifest.metadata
        types, listed = metadata["node_types"], metadata["relations"]
        names = [str(kind["name"]) for kind in types]
        sizes = [(int(kind["nodes"]), int(kind["features"])) for kind in types]
        if len(set(names)) != len(names) or names[0] != metadata["target_type"]:
            raise ValueError("two types of one name, or another one than the target first")
        if len({bool(each["directed"]) for each in listed}) != 1:
            raise ValueError("relations with and without directions")
        if any(size < 0 for pair in sizes for size in pair):
            raise ValueError("fewer nodes or features than none")
        relations = tuple(
            Relation(str(each["source"]), str(each["name"]), str(each["target"])) for each in listed
        )
        if not {end for each in relations for end in (each.source, each.target)} <= {*names}:
            raise ValueError("a relation of types that there are not")
        return StoreDescription(
            node_types={name: nodes for name, (nodes, _) in zip(names, sizes, strict=True)},
            columns=tuple(columns for _, columns in sizes),
            sparse=tuple(bool(kind["sparse_features"]) for kind in types),
            relations=relations,
            class_names=_texts(metadata["class_names"]),
            name=str(metadata["name"]),
            directed=bool(listed[0]["directed"]),
            steps=_texts(metadata["steps"]),
        )
    except (KeyError, ValueError, TypeError, IndexError, OverflowError):
        raise StoreError(
            f"`{manifest.path}` does not describe its node types and relations"
        ) from None


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        raise TypeError("a list of texts was expected")
    return tuple(values)


@dataclass(frozen=True)
class _Rule:
    """What one array may hold."""

    types: tuple[str, ...]
    shape: tuple[int, ...]
    low: int | None = None
    high: int | None = None
    order: Literal["any", "never falls", "rises"] = "any"
    ends: tuple[int, int] | None = None
    """The first and the last number."""

    @property
    def expected(self) -> str:
        """The range, in words."""
        if self.high is None:
            return "a finite number" + ("" if self.low is None else f", {self.low} or more")
        return f"a number from {self.low} to {self.high}"


class StoreContent:
    """Checks the arrays of a store against its description, piece by piece; a `ContentCheck`."""

    def __init__(
        self,
        description: StoreDescription,
        arrays: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]],
        get: Callable[[str], NDArray[Any]],
        where: Callable[[str], str],
        error: type[SCRError] = StoreError,
    ) -> None:
        """Compare shapes and types, which are at hand.

        Args:
            description: What the numbers must fit.
            arrays: Shape and type of each array.
            get: An array by its name, for those that are compared with each other.
            where: How messages name an array.
            error: Raised for what does not fit.
        """
        self._get, self._where, self._error = get, where, error
        self._targets = next(iter(description.node_types.values()))
        self._arrays = arrays
        self._rules = dict(_rules(description, arrays))
        for name, rule in self._rules.items():
            if name not in arrays:
                continue
            shape, dtype = arrays[name]
            if shape != rule.shape or not _is_one_of(dtype, rule.types):
                wanted = " or ".join(str(np.dtype(kind)) for kind in rule.types)
                wanted = wanted.replace(str(np.dtype("U")), "text")
                raise error(
                    f"{where(name)} holds {dtype} of shape {shape}; "
                    f"expected {wanted} of shape {rule.shape}"
                )

    def piece(self, name: str, values: NDArray[Any], start: int) -> None:
        """Check consecutive numbers of an array, from that at `start` on."""
        rule = self._rules.get(name)
        if rule is None or len(values) == 0:
            return
        if values.dtype.kind == "f":
            self._check_floats(name, rule, values, start)
            return
        if rule.low is None or rule.high is None:
            return
        if values.min() < rule.low or values.max() > rule.high:
            bad = np.flatnonzero((values < rule.low) | (values > rule.high))[0]
            self._refuse(name, rule, start + int(bad), values[bad])
        if rule.order != "any":
            falls = values[1:] < values[:-1]
            if rule.order == "rises":
                falls |= values[1:] == values[:-1]
            if falls.any():
                bad = int(np.argmax(falls)) + 1
                self._refuse(
                    name, rule, start + bad, values[bad],
                    f"{'more than' if rule.order == 'rises' else 'at least'} {values[bad - 1]}",
                )  # fmt: skip
        if rule.ends is not None:
            if start == 0 and values[0] != rule.ends[0]:
                self._refuse(name, rule, 0, values[0], str(rule.ends[0]))
            last = start + len(values) - 1
            if last == rule.shape[0] - 1 and values[-1] != rule.ends[1]:
                self._refuse(name, rule, last, values[-1], str(rule.ends[1]))

    def _check_floats(self, name: str, rule: _Rule, values: NDArray[Any], start: int) -> None:
        if values.dtype == np.float16:
            # NumPy widens each number to ask; bits are compared at once.
            is_fine = (values.view(np.uint16) & 0x7FFF).max() < _HALF_INFINITY
        else:
            is_fine = bool(np.isfinite(values).all())
        if is_fine and (rule.low is None or values.min() >= rule.low):
            return
        wrong = ~np.isfinite(values)
        if rule.low is not None:
            wrong |= values < rule.low
        bad = int(np.argmax(wrong))
        self._refuse(name, rule, start + bad, values[bad])

    def _refuse(
        self, name: str, rule: _Rule, position: int, value: Any, expected: str | None = None
    ) -> NoReturn:
        if len(rule.shape) == 2:
            row, column = divmod(position, rule.shape[1])
            place = f"in row {row}, column {column}"
        else:
            place = f"at position {position}"
        raise self._error(
            f"{self._where(name)} holds {value} {place}; expected {expected or rule.expected}",
            hint="make it again from its source" if self._error is StoreError else None,
        )

    def whole(self) -> None:
        """Check that splits do not share nodes, and that their nodes have labels."""
        if not all(name in self._arrays for name in (*SPLITS, "labels")):
            return
        splits = {name: self._get(name) for name in SPLITS if self._arrays[name][0][0]}
        if not splits:
            return
        labels = self._get("labels")
        for first, last in ranges(self._targets, _WINDOW):
            self._check_window(splits, labels, first, last)
        for array in (*splits.values(), labels):
            release(array)

    def _check_window(
        self, splits: Mapping[str, NDArray[Any]], labels: NDArray[Any], first: int, last: int
    ) -> None:
        """Compare what the splits have of the nodes `first` to `last`."""
        parts = {}
        for name, nodes in splits.items():
            bounds = np.searchsorted(nodes, np.array([first, last], nodes.dtype))
            parts[name] = np.asarray(nodes[bounds[0] : bounds[1]])
        if not any(len(part) for part in parts.values()):
            return
        known, taken = known_labels(np.asarray(labels[first:last])), np.zeros(last - first, np.int8)
        for number, (name, part) in enumerate(parts.items(), 1):
            inside = part - first
            shared = part[taken[inside] > 0]
            if len(shared):
                other = [*parts][taken[shared[0] - first] - 1]
                raise self._error(
                    f"{self._where(name)} holds node {shared[0]}, which is in the {other} split "
                    "too; expected splits that do not overlap"
                )
            unknown = part[~known[inside]]
            if len(unknown):
                raise self._error(
                    f"{self._where(name)} holds node {unknown[0]}, whose label is unknown; "
                    "expected a label for each node of a split"
                )
            taken[inside] = number


def _is_one_of(dtype: np.dtype[Any], types: Iterable[str]) -> bool:
    if not dtype.isnative:
        return False
    return any(dtype.kind == "U" if kind == "U" else dtype == np.dtype(kind) for kind in types)


def _rules(
    description: StoreDescription, arrays: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]
) -> Iterable[tuple[str, _Rule]]:
    """What each array that may be in a store must be like."""

    def rows(name: str) -> int:
        shape, _ = arrays.get(name, ((0,), None))
        return shape[0] if shape else 0

    sizes, classes = [*description.node_types.values()], len(description.class_names)
    nodes, targets, edges = sum(sizes), sizes[0], rows("indices")
    codes, integers = 2 * len(description.relations) - 1, ("i8", "i4", "i2", "i1")
    yield "indptr", _Rule(("i8",), (nodes + 1,), 0, edges, "never falls", (0, edges))
    yield "indices", _Rule(("i4", "i8"), (edges,), 0, nodes - 1)
    yield "weights", _Rule(("f4",), (edges,), 0)
    yield "edge_types", _Rule(("u1", "u2"), (edges,), 0, codes)
    if "labels" in arrays and len(arrays["labels"][0]) == 2:
        yield "labels", _Rule(("i1",), (targets, classes), UNKNOWN, 1)
    else:
        yield "labels", _Rule(integers, (targets,), UNKNOWN, classes - 1)
    for name in SPLITS:
        yield name, _Rule(("i8",), (rows(name),), 0, targets - 1, "rises")
    is_text = "ids" in arrays and arrays["ids"][1].kind == "U"
    bounds = (0, _LAST_CODE_POINT) if is_text else (None, None)
    yield "ids", _Rule(("i8", "U"), (targets,), *bounds)
    for number, (count, columns) in enumerate(zip(sizes, description.columns, strict=True)):
        suffix = f".{number}" if number else ""
        if not description.sparse[number]:
            if columns:
                yield f"features{suffix}", _Rule(("f4", "f2"), (count, columns))
            continue
        stored = rows(f"features_data{suffix}")
        yield f"features_data{suffix}", _Rule(("f4", "f2"), (stored,))
        yield (
            f"features_indices{suffix}", _Rule(("i4", "i8"), (stored,), 0, columns - 1)
        )  # fmt: skip
        yield (
            f"features_indptr{suffix}",
            _Rule(("i4", "i8"), (count + 1,), 0, stored, "never falls", (0, stored)),
        )
