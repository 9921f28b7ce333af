"""Read OGB's folders with several types of nodes, such as ogbn-mag.

raw/num-node-dict.csv.gz                     a header of types, and how many nodes each has
raw/triplet-type-list.csv.gz                 source type, relation, target type in each row
raw/relations/SRC___REL___DST/{edge,num-edge-list}.csv.gz
raw/node-feat/TYPE/node-feat.csv.gz          of the types that have features
raw/nodetype-has-label.csv.gz                a header of types, and True or False for each
raw/node-label/TYPE/node-label.csv.gz
split/NAME/TYPE/{train,valid,test}.csv.gz
"""

from __future__ import annotations

from pathlib import Path

from scr.errors import SourceError
from scr.sources._options import IngestOptions
from scr.sources.readers._gzip_csv import read_cells
from scr.sources.readers._ogb import (
    class_names,
    is_ogb,
    read_edges,
    read_features_table,
    read_label_table,
    read_split,
)
from scr.sources.readers._raw import RawTypedGraph

_COUNTS = "num-node-dict.csv.gz"
_RELATIONS = "triplet-type-list.csv.gz"


def is_ogb_typed(folder: Path) -> bool:
    """Whether a folder is one of OGB's with several types of nodes."""
    return is_ogb(folder) and (folder / "raw" / _RELATIONS).exists()


def read_ogb_typed(folder: Path, options: IngestOptions) -> RawTypedGraph:
    """Read all types and relations; no features of the labeled type if the options have others."""
    raw, (names, notes) = folder / "raw", class_names(folder)
    counts = _counts(raw / _COUNTS)
    target = _target(raw / "nodetype-has-label.csv.gz", counts)
    label_file = raw / "node-label" / target / "node-label.csv.gz"
    return RawTypedGraph(
        num_nodes=counts,
        relations={
            relation: read_edges(raw / "relations" / "___".join(relation))
            for relation in _relations(raw / _RELATIONS, counts)
        },
        features={
            name: read_features_table(file, nodes, _COUNTS)
            for name, nodes in counts.items()
            if (options.features is None or name != target)
            and (file := raw / "node-feat" / name / "node-feat.csv.gz").exists()
        },
        target=target,
        labels=read_label_table(label_file, counts[target], _COUNTS, names),
        class_names=names,
        **read_split(folder, counts[target], notes, target),
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


def _counts(path: Path) -> dict[str, int]:
    values = _by_type(path)
    for name, value in values.items():
        if not value.isdecimal() or len(value) > 18:
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


def _relations(path: Path, counts: dict[str, int]) -> list[tuple[str, str, str]]:
    relations = []
    for number, row in enumerate(read_cells(path), start=1):
        if len(row) != 3 or {row[0], row[2]} - set(counts) or not _is_plain(row[1]):
            raise SourceError(
                f"`{path}`, row {number}: found {row}; expected source type, relation and target "
                f"type, with types among {list(counts)}"
            )
        relations.append((row[0], row[1], row[2]))
    return relations
