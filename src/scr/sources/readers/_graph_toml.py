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
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scr.errors import SourceError
from scr.sources.readers._tables import table_file

FILE = "graph.toml"
Relation = tuple[str, str, str]
"""Source type, name and target type."""


@dataclass(frozen=True, kw_only=True)
class NodeTable:
    """Where the nodes of a type are described."""

    path: Path | None
    """None: nowhere; the edges name them."""
    columns: Mapping[str, str]
    """Names of the columns `id`, `label` and `split`, where they are given."""
    features: Path | tuple[str, ...] | None
    """A `.npy`, some columns, or none: all columns that are left."""


@dataclass(frozen=True, kw_only=True)
class EdgeTable:
    """Where the edges of a relation are listed."""

    relation: Relation
    path: Path
    weight: str | None
    """The column of weights; none: `weight`, if there is one."""


def is_typed_tables(folder: Path) -> bool:
    """Whether a folder holds tables of several types."""
    return (folder / FILE).is_file()


def read_graph_toml(folder: Path) -> tuple[str, dict[str, NodeTable], list[EdgeTable]]:
    """The target type, the tables of all types, and those of all relations, checked."""
    path = folder / FILE
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SourceError(f"`{path}` cannot be read: {error}") from None
    _Section(folder, "at the top", content, ("target", "nodes", "edges"))
    types, listed = content.get("nodes"), content.get("edges")
    if not isinstance(types, dict) or not types:
        raise SourceError(f"`{path}` has no types of nodes; expected a section `[nodes.TYPE]` each")
    if not isinstance(listed, list) or not listed:
        raise SourceError(f"`{path}` has no relations; expected a section `[[edges]]` for each")
    target = content.get("target", next(iter(types)) if len(types) == 1 else None)
    if not isinstance(target, str) or target not in types:
        actual = "missing" if target is None else f"{target!r}"
        raise SourceError(
            f"`target` in `{path}` is {actual}; expected one of the types {', '.join(types)}"
        )
    edges = [_edge_table(folder, each, types) for each in listed]
    for relation, times in Counter(each.relation for each in edges).items():
        if times > 1:
            raise SourceError(
                f"`{path}` has the relation {':'.join(relation)} twice; expected each once",
                hint="put all its edges into one table, or give the relations different names",
            )
    nodes = {
        kind: _node_table(folder, kind, content, is_target=kind == target)
        for kind, content in types.items()
    }
    return target, nodes, edges


class _Section:
    """Some settings of `graph.toml`, each checked when it is read."""

    def __init__(self, folder: Path, name: str, content: Any, keys: Iterable[str]) -> None:
        self.folder, self.name, self.content = folder, name, content
        if not isinstance(content, dict):
            raise self.error(f"found {content!r}; expected a section with settings")
        unknown = next((key for key in content if key not in keys), None)
        if unknown is not None:
            raise self.error(f"there is no setting `{unknown}`; expected some of {', '.join(keys)}")

    def error(self, problem: str) -> SourceError:
        """The error about something in this section."""
        return SourceError(f"`{self.folder / FILE}`, {self.name}: {problem}")

    def text(self, key: str) -> str | None:
        """A setting that is text; none where it is not given."""
        value = self.content.get(key)
        if value is not None and (not isinstance(value, str) or not value):
            raise self.error(f"`{key}` is {value!r}; expected text")
        return value

    def file(self, key: str) -> Path | None:
        """A setting that names a file of the folder."""
        name = self.text(key)
        if name is None:
            return None
        path = self.folder / Path(name).expanduser()
        if not path.is_file():
            where = f"{self.name} in `{self.folder / FILE}`"
            raise SourceError(f"There is no file `{path}`, which {where} names")
        return path

    def table(self, kind: str, name: str) -> Path | None:
        """The table that is named, else the one of the usual name, such as `nodes-paper.csv`."""
        named = self.file("file")
        usual = (table_file(self.folder, f"{kind}{separator}{name}") for separator in "-/")
        paths = [path for path in usual if path is not None and named is None]
        if len(paths) > 1:
            raise SourceError(
                f"There are both `{paths[0]}` and `{paths[1]}`; expected one, or a `file` in "
                f"`{FILE}`"
            )
        return named or next(iter(paths), None)


def _node_table(folder: Path, kind: str, content: Any, *, is_target: bool) -> NodeTable:
    of_target = ("label", "split") if is_target else ()
    name, keys = f"[nodes.{kind}]", ("file", "id", *of_target, "features")
    section = _Section(folder, name, content, keys)
    path = section.table("nodes", kind)
    columns = {} if is_target else {"label": "none", "split": "none"}
    columns |= {role: text for role in ("id", *of_target) if (text := section.text(role))}
    if path is None and (is_target or content):
        raise SourceError(
            f"`{folder}` has no table of the nodes `{kind}`; expected `nodes-{kind}.csv` or "
            f"`nodes-{kind}.parquet` in it, or a `file` in {name}",
            hint=None
            if is_target
            else f"an empty section {name} says that the edges name all nodes of the type",
        )
    features = content.get("features")
    if isinstance(features, list) and all(isinstance(each, str) for each in features):
        return NodeTable(path=path, columns=columns, features=tuple(features))
    return NodeTable(path=path, columns=columns, features=section.file("features"))


def _edge_table(folder: Path, content: Any, types: Mapping[str, Any]) -> EdgeTable:
    path, ends = folder / FILE, ("source", "name", "target")
    section = _Section(folder, "[[edges]]", content, (*ends, "file", "weight"))
    for key in ends:
        if section.text(key) is None:
            raise SourceError(
                f"`{path}`: a relation has no `{key}`; expected `source`, `name` and `target` in "
                f"each {section.name}"
            )
    source, name, target = (content[key] for key in ends)
    for kind in (source, target):
        if kind not in types:
            raise SourceError(
                f"The relation {source}:{name}:{target} in `{path}` is between unknown types: "
                f"there is no type `{kind}`; expected types among {', '.join(types)}",
                hint=f"add a section `[nodes.{kind}]`, which may be empty",
            )
    table = section.table("edges", name)
    if table is None:
        raise SourceError(
            f"`{folder}` has no table of the relation {source}:{name}:{target}; expected "
            f"`edges-{name}.csv` or `edges-{name}.parquet` in it, or a `file` in its "
            f"{section.name}"
        )
    return EdgeTable(relation=(source, name, target), path=table, weight=section.text("weight"))
