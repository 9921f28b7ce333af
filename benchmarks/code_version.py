"""Which version of the code decides a result: a hash over the source that a benchmark runs through.

The syntax tree is hashed, not the text: comments, docstrings and layout do not count, a changed
number does. Every results file has the version as `code`, and so has every row of a file to which
rows are added on different days. `readme.py --check` names rows whose version is not today's;
`confirm.py` runs one seed of such a row again and, where nothing changed, notes today's version as
`confirmed`.
"""

from __future__ import annotations

import ast
import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1] / "src" / "scr"
GRAPHS = ("compute", "storage", "graph", "features", "sources")
PROPAGATION = (*GRAPHS, "propagation")
LEARNING = (
    *PROPAGATION, "encoders", "networks", "consistency", "training", "runs", "prediction",
    "config.py", "selection.py", "classifier.py", "experiments/_runner.py", "metrics",
)  # fmt: skip
PACKAGES: dict[str, tuple[str, ...]] = {
    "accuracy": LEARNING,
    "calibration": LEARNING,
    "catalogue": (*LEARNING, "tables", "tuning", "fitting"),
    "cluster": (*PROPAGATION, "engines"),
    "processes": PROPAGATION,
    "combinations": LEARNING,
    "defaults": LEARNING,
    "dropped_nodes": LEARNING,
    "first_result": (*LEARNING, "cli", "report"),
    "grand": LEARNING,
    "label_guards": LEARNING,
    "refit": LEARNING,
    "shift": LEARNING,
    "suggest": LEARNING,
    "regularizers": LEARNING,
    "networks": LEARNING,
    "portfolio": LEARNING,
    "strangers": LEARNING,
    "stranger_peers": (
        "../../benchmarks/stranger_peers.py",
        "../../benchmarks/stranger_grand.py",
    ),
    "heterogeneous": (*LEARNING, "typed_features"),
    "stand_ins": (
        *LEARNING,
        "typed_features",
        "recipes",
        "synth/_communities.py",
        "experiments/_stand_in.py",
        "experiments/_reproduce.py",
    ),
    "efficiency": (*LEARNING, "experiments/_efficiency.py", "report/_efficiency.py"),
    "sensitivity": (*LEARNING, "experiments/_sweep.py", "report/_sensitivity.py"),
    "training": ("compute", "encoders", "consistency", "training", "selection.py"),
    "trust": (*PROPAGATION, "consistency", "training"),
    "papers": LEARNING,
    "products": LEARNING,
    "propagation": PROPAGATION,
    "scale": PROPAGATION,
    "budget": PROPAGATION,
    "typed": PROPAGATION,
    "sampling": (*GRAPHS, "networks/sampling"),
    "inference": (*PROPAGATION, "encoders", "networks", "training"),
    "new_nodes": (*PROPAGATION, "encoders", "networks", "training", "prediction"),
    "serving": (*PROPAGATION, "encoders", "networks", "training", "prediction", "serving"),
}
"""What decides the results of a kind: folders and files of the package `scr`, or a benchmark that
does not use it."""
PACKAGES["stand_ins_larger"] = PACKAGES["stand_ins"]
EVERYTHING = (".",)
UNKNOWN = "none"
"""The version of rows that were recorded without one."""


@cache
def code_version(kind: str, source: Path = SOURCE) -> str:
    """The version of what decides the results of a kind; of an unknown kind, of all code."""
    digest = hashlib.blake2b(digest_size=6)
    for file in _files(PACKAGES.get(kind, EVERYTHING), source):
        digest.update(f"{file.relative_to(source).as_posix()} {_meaning(file)}\n".encode())
    return digest.hexdigest()


def is_current(row: Mapping[str, Any], version: str) -> bool:
    """Whether a row was recorded, or confirmed, with this version."""
    return version in (row.get("code"), row.get("confirmed"))


def _files(names: tuple[str, ...], source: Path) -> list[Path]:
    found: set[Path] = set()
    for name in names:
        place = source / name
        if not place.exists():
            raise SystemExit(f"code_version.py names {name}, which is not in {source}")
        if place.is_file():
            found.add(place)
        else:
            found |= {*place.rglob("*.py"), *place.rglob("*.toml")}
    return sorted(found)


@cache
def _meaning(file: Path) -> str:
    """A hash of what a file says to Python."""
    text = file.read_text(encoding="utf-8")
    tree = _tree(ast.parse(text)) if file.suffix == ".py" else tomllib.loads(text)
    content = json.dumps(tree, sort_keys=True, default=repr)
    return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()


def _tree(node: Any) -> Any:
    """A syntax tree as lists.

    What is empty is left out: Python versions differ in the empty fields that they add.
    """
    if isinstance(node, ast.AST):
        fields = [(name, _tree(value)) for name, value in _fields(node)]
        return [type(node).__name__, [pair for pair in fields if pair[1] not in (None, [])]]
    if isinstance(node, list):
        return [_tree(each) for each in node]
    # A constant: 1 and True and 1.0 are equal, and not the same.
    return None if node is None else [type(node).__name__, repr(node)]


def _fields(node: ast.AST) -> Iterator[tuple[str, Any]]:
    for name, value in ast.iter_fields(node):
        if name in ("kind", "type_comment"):
            continue
        if isinstance(value, list):
            value = [each for each in value if not _is_text(each)]
        yield name, value


def _is_text(node: Any) -> bool:
    """A string that stands as a statement: the docstring of a module, function or field."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
