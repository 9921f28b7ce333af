"""Read `graph.toml`: which tables of a folder hold the nodes of which type, and which relations.

    target = "paper"                 the type whose nodes are classified

    [nodes.paper]                    one section for each type
    file = "papers.parquet"          else nodes-paper or nodes/paper, as .csv or .parquet
    id = "id"                        else `id`, else the first column
    label = "label"                  of the target only, as is `split`
    features = "paper.npy"           or columns, ["year", "pages"]; else all that are left

    [nodes.author]                   without a table: ids are those that the edges name

    [[edges]]                        one for each relation
    source = "author"
    name = "writes"
    target = "paper"
    file = "writes.csv"              else edges-writes or edges/writes
    weight = "times"                 else `weight`, if there is such a column

Only names and paths are checked here; `_typed_tables.py` reads the tables.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scr.errors import SourceError
from scr.sources.readers._tables import TableColumns, table_file

FILE = "graph.toml"
_NODE_KEYS = ("file", "id", "label", "split", "features")
_EDGE_KEYS = ("source", "name", "target", "file", "weight")


@dataclass(frozen=True, kw_only=True)
class NodeTable:
    """Where the nodes of a type are described."""

    path: Path | None
    """None: nowhere; the edges name them."""
    columns: TableColumns
    features: Path | tuple[str, ...] | None
    """A `.npy`, some columns, or none: all columns that are left."""


@dataclass(frozen=True, kw_only=True)
class EdgeTable:
    """Where the edges of a relation are listed."""

    relation: tuple[str, str, str]
    path: Path
    weight: str | None
    """The column of weights; none: `weight`, if there is one."""


@dataclass(frozen=True, kw_only=True)
class TypedTables:
    """What `graph.toml` says."""

    target: str
    nodes: Mapping[str, NodeTable]
    edges: tuple[EdgeTable, ...]


def is_typed_tables(folder: Path) -> bool:
    """Whether a folder holds tables of several types."""
    return (folder / FILE).is_file()


def read_graph_toml(folder: Path) -> TypedTables:
    """Read and check the description of a folder of tables."""
    path = folder / FILE
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SourceError(f"`{path}` cannot be read: {error}") from None
    _check_keys(content, ("target", "nodes", "edges"), path, "at the top")
    sections, listed = content.get("nodes"), content.get("edges")
    if not isinstance(sections, dict) or not sections:
        raise SourceError(f"`{path}` has no types of nodes; expected a section `[nodes.TYPE]` each")
    if not isinstance(listed, list) or not listed:
        raise SourceError(f"`{path}` has no relations; expected a section `[[edges]]` for each")
    target = content.get("target")
    if target is None and len(sections) == 1:
        target = next(iter(sections))
    if not isinstance(target, str) or target not in sections:
        found = "missing" if target is None else f"{target!r}"
        raise SourceError(
            f"`target` in `{path}` is {found}; expected one of the types {', '.join(sections)}"
        )
    edges = tuple(_edge_table(folder, each, sections) for each in listed)
    relations = [each.relation for each in edges]
    for relation in relations:
        if relations.count(relation) > 1:
            raise SourceError(
                f"`{path}` has the relation {':'.join(relation)} twice; expected each once",
                hint="put all its edges into one table, or give the relations different names",
            )
    nodes = {
        kind: _node_table(folder, kind, section, is_target=kind == target)
        for kind, section in sections.items()
    }
    return TypedTables(target=target, nodes=nodes, edges=edges)


def _check_keys(table: Any, expected: Iterable[str], path: Path, where: str) -> None:
    if not isinstance(table, dict):
        raise SourceError(f"`{path}`, {where}: found {table!r}; expected a section with settings")
    unknown = next((key for key in table if key not in expected), None)
    if unknown is not None:
        raise SourceError(
            f"`{path}`, {where}: there is no setting `{unknown}`; "
            f"expected some of {', '.join(expected)}"
        )


def _text(table: Mapping[str, Any], key: str, path: Path, where: str) -> str | None:
    value = table.get(key)
    if value is not None and (not isinstance(value, str) or not value):
        raise SourceError(f"`{path}`, {where}: `{key}` is {value!r}; expected text")
    return value


def _node_table(folder: Path, kind: str, section: Any, *, is_target: bool) -> NodeTable:
    path, where = folder / FILE, f"[nodes.{kind}]"
    keys = _NODE_KEYS if is_target else tuple(k for k in _NODE_KEYS if k not in ("label", "split"))
    _check_keys(section, keys, path, where)
    file = _text(section, "file", path, where)
    table = _named_file(folder, file, where) or _usual_file(
        folder, f"nodes-{kind}", f"nodes/{kind}"
    )
    columns = TableColumns(
        ids=_text(section, "id", path, where),
        label=_text(section, "label", path, where) if is_target else "none",
        split=_text(section, "split", path, where) if is_target else "none",
    )
    if table is None and (is_target or len(section)):
        raise SourceError(
            f"`{folder}` has no table of the nodes `{kind}`; expected `nodes-{kind}.csv` or "
            f"`nodes-{kind}.parquet` in it, or a `file` in {where}",
            hint=None
            if is_target
            else f"an empty section {where} says that the edges name all nodes of the type",
        )
    return NodeTable(path=table, columns=columns, features=_features(folder, section, where))


def _features(folder: Path, section: Any, where: str) -> Path | tuple[str, ...] | None:
    given = section.get("features")
    if isinstance(given, list) and all(isinstance(name, str) for name in given):
        return tuple(given)
    if given is None:
        return None
    return _named_file(folder, _text(section, "features", folder / FILE, where), where)


def _edge_table(folder: Path, section: Any, types: Mapping[str, Any]) -> EdgeTable:
    path, where = folder / FILE, "[[edges]]"
    _check_keys(section, _EDGE_KEYS, path, where)
    ends = []
    for key in ("source", "name", "target"):
        value = _text(section, key, path, where)
        if value is None:
            raise SourceError(
                f"`{path}`: a relation has no `{key}`; expected `source`, `name` and `target` in "
                f"each {where}"
            )
        ends.append(value)
    relation = (ends[0], ends[1], ends[2])
    for kind in (relation[0], relation[2]):
        if kind not in types:
            raise SourceError(
                f"The relation {':'.join(relation)} in `{path}` is between unknown types: there is "
                f"no type `{kind}`; expected types among {', '.join(types)}",
                hint=f"add a section `[nodes.{kind}]`, which may be empty",
            )
    name = relation[1]
    table = _named_file(folder, _text(section, "file", path, where), where)
    table = table or _usual_file(folder, f"edges-{name}", f"edges/{name}")
    if table is None:
        raise SourceError(
            f"`{folder}` has no table of the relation {':'.join(relation)}; expected "
            f"`edges-{name}.csv` or `edges-{name}.parquet` in it, or a `file` in its {where}"
        )
    return EdgeTable(relation=relation, path=table, weight=_text(section, "weight", path, where))


def _named_file(folder: Path, name: str | None, where: str) -> Path | None:
    if name is None:
        return None
    path = folder / Path(name).expanduser()
    if not path.is_file():
        raise SourceError(f"There is no file `{path}`, which {where} in `{folder / FILE}` names")
    return path


def _usual_file(folder: Path, *names: str) -> Path | None:
    found = [path for name in names if (path := table_file(folder, name)) is not None]
    if len(found) > 1:
        raise SourceError(
            f"There are both `{found[0]}` and `{found[1]}`; expected one, or a `file` in `{FILE}`"
        )
    return found[0] if found else None
