"""Read OGB's folders with several types of nodes, of which ogbn-mag is the one with node labels.

    raw/num-node-dict.csv.gz                     a header of types, and how many nodes each has
    raw/triplet-type-list.csv.gz                 source type, relation, target type in each row
    raw/relations/SRC___REL___DST/{edge,num-edge-list}.csv.gz
    raw/node-feat/TYPE/node-feat.csv.gz          of the types that have features
    raw/nodetype-has-label.csv.gz                a header of types, and True or False for each
    raw/node-label/TYPE/node-label.csv.gz
    split/NAME/TYPE/{train,valid,test}.csv.gz

`read_ogb_typed` gives all of it; `read_ogb_papers` the labeled type alone, with the edges among
its nodes: in ogbn-mag, papers that cite papers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.errors import SourceError
from scr.sources.readers._gzip_csv import read_cells
from scr.sources.readers._ogb_parts import (
    class_names,
    graph_name,
    read_count,
    read_edge_table,
    read_features_table,
    read_label_table,
    read_split,
    split_folder,
)
from scr.sources.readers._raw import RawGraph, RawTypedGraph

Relation = tuple[str, str, str]
"""Source type, name and target type of a kind of edges."""

_COUNTS = "num-node-dict.csv.gz"


def is_ogb_typed(folder: Path) -> bool:
    """Whether a folder of OGB's has several types of nodes."""
    return (folder / "raw" / "triplet-type-list.csv.gz").exists()


def read_ogb_typed(folder: Path, *, with_features: bool = True) -> RawTypedGraph:
    """Read all types and relations of a folder such as `ogbn_mag`.

    Args:
        folder: Has `raw` and `split` in it.
        with_features: Whether to read the features of the labeled type.
    """
    return _read(folder, only_target=False, with_features=with_features)


def read_ogb_papers(folder: Path, *, with_features: bool = True) -> RawGraph:
    """Read the labeled type and the edges among its nodes as a graph of one type.

    Args:
        folder: Such as `ogbn_mag`.
        with_features: Whether to read the features.
    """
    typed = _read(folder, only_target=True, with_features=with_features)
    if not typed.relations:
        raise SourceError(
            f"`{folder}` has no relation from `{typed.target}` to `{typed.target}`, "
            "so its labeled nodes are no graph of their own"
        )
    kept = " and ".join("-".join(relation) for relation in typed.relations)
    others = ", ".join(name for name in typed.num_nodes if name != typed.target) or "none"
    note = f"took the {typed.target} nodes with {kept}; other types were left out: {others}"
    return RawGraph(
        name=typed.name,
        edges=np.concatenate(list(typed.relations.values()), axis=1),
        num_nodes=typed.num_nodes[typed.target],
        features=typed.features.get(typed.target),
        labels=typed.labels,
        class_names=typed.class_names,
        train=typed.train,
        valid=typed.valid,
        test=typed.test,
        notes=(note, *typed.notes),
    )


def _read(folder: Path, *, only_target: bool, with_features: bool = True) -> RawTypedGraph:
    raw = folder / "raw"
    counts = _whole_numbers(_by_type(raw / _COUNTS), raw / _COUNTS)
    target = _target(raw / "nodetype-has-label.csv.gz", counts)
    relations = _relations(raw / "triplet-type-list.csv.gz", counts)
    if only_target:
        relations = [each for each in relations if each[0] == each[2] == target]
    types = [target] if only_target else list(counts)
    names, notes = class_names(folder)
    official = split_folder(folder)
    return RawTypedGraph(
        name=graph_name(folder),
        num_nodes=counts,
        relations={each: _read_relation(raw, each) for each in relations},
        features={
            name: read_features_table(file, counts[name], _COUNTS)
            for name in types
            if (with_features or name != target)
            and (file := raw / "node-feat" / name / "node-feat.csv.gz").exists()
        },
        target=target,
        labels=read_label_table(
            raw / "node-label" / target / "node-label.csv.gz", counts[target], _COUNTS, names
        ),
        class_names=names,
        notes=(f"took OGB's official split `{official.name}`", *notes),
        **read_split(official / target, counts[target]),
    )


def _by_type(path: Path) -> dict[str, str]:
    """A file with a header of types and one row of values."""
    cells = read_cells(path)
    if len(cells) != 2 or len(cells[0]) != len(cells[1]):
        raise SourceError(
            f"`{path}` has {len(cells)} rows; expected the names of the types and one row of "
            "values, for one graph"
        )
    return dict(zip(cells[0], cells[1], strict=True))


def _whole_numbers(values: dict[str, str], path: Path) -> dict[str, int]:
    for name, value in values.items():
        if not value.isdecimal():
            raise SourceError(f"`{path}`: `{name}` has {value!r} nodes; expected a whole number")
        if not _is_plain(name):
            raise SourceError(f"`{path}`: {name!r} cannot be the name of a type of nodes")
    return {name: int(value) for name, value in values.items()}


def _is_plain(name: str) -> bool:
    """Whether a name is only a name: it becomes part of a path."""
    return name not in ("", ".", "..") and not set(name) & set("/\\\0")


def _target(path: Path, counts: dict[str, int]) -> str:
    labeled = [name for name, value in _by_type(path).items() if value.lower() == "true"]
    if len(labeled) != 1 or labeled[0] not in counts:
        raise SourceError(
            f"`{path}` says that the types {labeled} have labels; expected one of {list(counts)}"
        )
    return labeled[0]


def _relations(path: Path, counts: dict[str, int]) -> list[Relation]:
    relations: list[Relation] = []
    for number, row in enumerate(read_cells(path), start=1):
        if len(row) != 3 or {row[0], row[2]} - set(counts) or not _is_plain(row[1]):
            raise SourceError(
                f"`{path}`, row {number}: found {row}; expected source type, relation and target "
                f"type, with types among {list(counts)}"
            )
        relations.append((row[0], row[1], row[2]))
    return relations


def _read_relation(raw: Path, relation: Relation) -> NDArray[Any]:
    folder = raw / "relations" / "___".join(relation)
    edges = read_count(folder / "num-edge-list.csv.gz")
    return read_edge_table(folder / "edge.csv.gz", edges, "num-edge-list.csv.gz")
