"""What `scr.fit` may be given, as a graph: two tables, a folder of them, a source, or a graph."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scr.compute import process_budget
from scr.errors import ConfigError, SourceError
from scr.graph import Graph
from scr.sources import check_tables_fit, load_graph
from scr.tables import Preparation, Table, TableOptions, read_table_graph

SUFFIXES = (".csv", ".tsv", ".txt", ".csv.gz", ".parquet", ".arrow", ".feather")
"""Of tables that a folder may have, `nodes` and `edges`."""
OTHER_LAYOUTS = ("graph.toml", "features.npy", "manifest.json")
"""Files beside which tables are read as `scr ingest` reads them."""


@dataclass(frozen=True)
class FitInput:
    """A graph, and how it came about."""

    graph: Graph
    preparation: Preparation | None = None
    """Of the columns of a table; none: features were numbers already."""
    notes: tuple[str, ...] = ()
    """What was found in tables, and what was done."""
    tables: tuple[str, ...] = ()
    """Names of the tables of nodes and edges; none: it was no pair of tables."""


def read_input(nodes: Table | Graph, edges: Table | None, options: TableOptions) -> FitInput:
    """Read and prepare what was given.

    Args:
        nodes: The table of nodes. Or without `edges`: a graph, or a path or name of one.
        edges: The table of edges.
        options: Of the tables; a graph has none.
    """
    if edges is None and isinstance(nodes, str | Path):
        pair = tables_of(Path(nodes).expanduser())
        if pair is not None:
            nodes, edges = pair
    if edges is None:
        is_table = isinstance(nodes, str | Path) and Path(nodes).suffix in SUFFIXES
        if isinstance(nodes, Graph | str | Path) and not is_table:
            _refuse_options(options)
            return FitInput(nodes if isinstance(nodes, Graph) else load_graph(nodes))
        raise SourceError(
            "There is a table of nodes but none of edges; expected both",
            hint="rows without a graph can be linked with `scr.Graph.from_features`",
        )
    if isinstance(nodes, Graph):
        raise SourceError("There are edges beside a graph, which has its own; expected one of them")
    files = [Path(table).expanduser() for table in (nodes, edges) if isinstance(table, str | Path)]
    check_tables_fit(files, process_budget("auto"))
    read = read_table_graph(nodes, edges, options)
    names = (_named(nodes, "nodes"), _named(edges, "edges"))
    return FitInput(read.graph, read.preparation, tuple(read.notes), names)


def tables_of(folder: Path) -> tuple[Path, Path] | None:
    """The tables `nodes` and `edges` of a folder; none where it holds something else."""
    if not folder.is_dir() or any((folder / name).exists() for name in OTHER_LAYOUTS):
        return None
    found = []
    for name in ("nodes", "edges"):
        files = [path for suffix in SUFFIXES if (path := folder / f"{name}{suffix}").is_file()]
        if len(files) > 1:
            raise SourceError(
                f"`{folder}` has both `{files[0].name}` and `{files[1].name}`; expected one of them"
            )
        found += files
    return (found[0], found[1]) if len(found) == 2 else None


def _named(table: Any, role: str) -> str:
    return Path(table).name if isinstance(table, str | Path) else role


def _refuse_options(options: TableOptions) -> None:
    """Columns can be named of tables only."""
    default = TableOptions()
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if value != getattr(default, field.name):
            raise ConfigError(
                field.name, value, "no value where the graph is not made from two tables"
            )
