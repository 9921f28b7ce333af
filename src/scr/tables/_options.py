"""What a user may say about two tables; everything that is left out is found by looking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from scr.errors import ConfigError

Table = Any
"""A path (csv, tsv, txt, also with .gz, parquet, arrow or feather), a pandas or polars DataFrame,
or a `pyarrow.Table`."""
UnknownNodes = Literal["drop", "add", "error"]
KINDS = ("number", "category", "text", "date", "boolean", "drop")
"""What a column of the table of nodes may be."""
NO_COLUMN = "none"
"""The name that says: there is no such column."""


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """How a table of nodes and a table of edges are read."""

    label: str | None = None
    """The column of the classes; none: `label`, if there is one."""
    id_column: str | None = None
    """The column of node ids; none: `id`, else the first column whose values are distinct."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Kinds of columns that are not to be inferred: number, category, text, date, boolean, drop."""
    weight_column: str | None = None
    """Of edges; none: `weight`, else a numeric third column; the word `none`: no weights."""
    split_column: str | None = None
    """The column that says train, valid or test; none: `split`, if there is one."""
    unknown_nodes: UnknownNodes = "drop"
    """What to do with edges to nodes that have no row: drop them, add the nodes, or refuse."""
    directed: bool = False
    """Keep the direction of edges; otherwise each is stored both ways."""
    delimiter: str | None = None
    """Between the cells of text files; none: found by looking at the first rows."""
    encoding: str | None = None
    """Of text files; none: UTF-8, else Windows-1252."""

    def __post_init__(self) -> None:
        for name, kind in self.columns.items():
            if kind not in KINDS:
                raise ConfigError(f"columns.{name}", kind, f"one of {', '.join(KINDS)}")
        if self.unknown_nodes not in get_args(UnknownNodes):
            expected = f"one of {', '.join(get_args(UnknownNodes))}"
            raise ConfigError("unknown_nodes", self.unknown_nodes, expected)
        check_format(self.delimiter, self.encoding)


def check_format(delimiter: str | None, encoding: str | None) -> None:
    """Raise a `ConfigError` on a delimiter or an encoding that text files cannot have."""
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n' or delimiter > "~"):
        raise ConfigError("delimiter", delimiter, "a single character such as `;`, or a tab")
    if encoding is not None:
        try:
            "".encode(encoding)
        except LookupError:
            raise ConfigError("encoding", encoding, "a name such as utf-8 or latin-1") from None
