"""Rows of the results files with the version of the code that each was recorded with.

A row is what a table shows in one line: all seeds of an encoder with a regularizer, or one step of
a speed benchmark. It is current if every record in it is of today's code, or was confirmed with it.
Files that a search wrote are no rows: they choose the settings of rows, and rows name them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from code_version import UNKNOWN, code_version, is_current

RESULTS = Path(__file__).parent / "results"
BY_ROW = (
    "heterogeneous",
    "budget",
    "cluster",
    "inference",
    "papers",
    "products",
    "scale",
    "stand_ins",
    "stand_ins_larger",
    "typed",
)
"""Kinds whose files get their rows one by one, perhaps on different days."""
NAMING = ("nodes", "label", "step", "name")
"""Keys that name a row of such a file."""


@dataclass(frozen=True, eq=False)
class StoredRow:
    """One row of a results file."""

    kind: str
    file: Path
    name: str
    records: list[dict[str, Any]]
    """Parts of the file's content, by seed where there are several; the file itself where it was
    written at once."""

    @property
    def current(self) -> bool:
        """Whether all of it holds for the code as it is."""
        version = code_version(self.kind)
        return all(is_current(record, version) for record in self.records)

    @property
    def recorded(self) -> str:
        """The versions it was recorded with."""
        return ", ".join(dict.fromkeys(record.get("code", UNKNOWN) for record in self.records))


def results_files(folder: Path = RESULTS) -> list[tuple[str, Path]]:
    """All results files with their kinds."""
    files = [file for file in sorted(folder.rglob("*.json")) if not file.stem.endswith("-search")]
    kinds = [
        file.stem if file.parent == folder else file.relative_to(folder).parts[0] for file in files
    ]
    return [pair for pair in zip(kinds, files, strict=True) if pair[0] != "search"]


def stored_rows(kind: str, file: Path, content: dict[str, Any]) -> list[StoredRow]:
    """The rows of a file; records are those of the content, so that they can be changed."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for name, record in _named(kind, content):
        groups.setdefault(name, []).append(record)
    return [StoredRow(kind, file, name, records) for name, records in groups.items()]


def _named(kind: str, content: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    if "runs" in content:
        for run in sorted(content["runs"], key=lambda run: run["seed"]):
            yield f"{run['encoder']} {run.get('method') or run['regularizer']}", run
    elif kind == "grand":
        for row in sorted(content["rows"], key=lambda row: row["seed"]):
            yield row["graph"], row
    elif kind == "calibration":
        for row in sorted(content["rows"], key=lambda row: row["split"]):
            yield f"{row['graph']} {row['labels']}", row
    elif kind in ("strangers", "stranger_peers"):
        for row in sorted(content["rows"], key=lambda row: row["split"]):
            yield f"{row['method']} {row['labels']}", row
    elif kind in BY_ROW:
        for row in content["rows"]:
            yield " ".join(str(row[key]) for key in NAMING if key in row), row
    else:
        yield "all", content


def older_rows(folder: Path = RESULTS) -> list[StoredRow]:
    """Rows that are older than the code that decides them."""
    return [
        row
        for kind, file in results_files(folder)
        for row in stored_rows(kind, file, json.loads(file.read_text(encoding="utf-8")))
        if not row.current
    ]


def check(folder: Path = RESULTS) -> int:
    """Print the rows that are older than the code; 1 if there are any, as a program returns it."""
    older = older_rows(folder)
    for row in older:
        place = row.file.relative_to(folder).as_posix()
        print(f"{place}: {row.name}: {row.recorded}, the code is {code_version(row.kind)}")
    if older:
        print(
            f"{len(older)} rows are older than the code: run them again, or see by "
            "`python benchmarks/confirm.py` which of them still hold"
        )
    return int(bool(older))
