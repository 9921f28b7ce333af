"""What users and their programs rely on, as text: names, signatures, options, keys, files.

python -m tests.golden.surface > tests/golden/surface.txt
"""

from __future__ import annotations

import inspect
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import typer
from tests.golden.runs import SHORT, citation_graph

import scr

RECORD = Path(__file__).with_name("surface.txt")


def _signature(value: Any) -> str:
    try:
        return re.sub(r" at 0x[0-9a-f]+", "", str(inspect.signature(value)))
    except (TypeError, ValueError):
        return ""


def _members(name: str, value: Any) -> Iterator[str]:
    yield f"{name}{_signature(value)}"
    if not inspect.isclass(value) or issubclass(value, Exception):
        return
    for member in sorted(dir(value)):
        found = inspect.getattr_static(value, member)
        if member.startswith("_") or not any(member in vars(each) for each in _ours(value)):
            continue
        if isinstance(found, property):
            yield f"{name}.{member}"
        elif callable(getattr(value, member, None)):
            yield f"{name}.{member}{_signature(getattr(value, member))}"


def _ours(value: type) -> list[type]:
    return [each for each in value.__mro__ if each.__module__.startswith("scr")]


def python_names() -> Iterator[str]:
    """Public names of the package and of its method, with signatures."""
    for module in (scr, scr.consistency):
        prefix = module.__name__
        for name in sorted(module.__all__):
            yield from _members(f"{prefix}.{name}", getattr(module, name))


def commands() -> Iterator[str]:
    """Every command with its arguments and options, their types and defaults."""
    from scr.cli import app

    group: Any = typer.main.get_command(app)
    for name in sorted(group.commands):
        for each in group.commands[name].params:
            written = "/".join([*each.opts, *each.secondary_opts])
            kind = getattr(each.type_descriptor.annotation, "__name__", "?")
            bounds = f"[{each.min}, {each.max}]"
            yield f"scr {name} {written} {kind} {bounds} {each.default!r} required={each.required}"


def _keys(value: Any, prefix: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key in sorted(value):
            yield from _keys(value[key], f"{prefix}.{key}" if prefix else key)
    else:
        yield f"{prefix}: {type(value).__name__}"


def files() -> Iterator[str]:
    """Keys of the files that other programs read: stores, run directories, recipes."""
    from typer.testing import CliRunner

    from scr.cli import app

    with tempfile.TemporaryDirectory() as name:
        run, store = Path(name) / "run", Path(name) / "store"
        CliRunner().invoke(app, ["synth", str(store), "--nodes", "200", "--edges", "600",
                                 "--features", "4", "--classes", "3"])  # fmt: skip
        scr.NodeClassifier(encoder="gamlp", seed=0, **SHORT).fit(citation_graph()).save(run)
        for folder in (store, run):
            for path in sorted(folder.rglob("*")):
                yield f"{folder.name}/{path.relative_to(folder)}"
        for path in (store / "manifest.json", run / "run.json", run / "metrics.json"):
            content = json.loads(path.read_text(encoding="utf-8"))
            yield from (f"{path.parent.name}/{path.name} {key}" for key in _keys(content))
        lines = (run / "history.jsonl").read_text(encoding="utf-8").splitlines()
        yield from (f"run/history.jsonl {key}" for key in _keys(json.loads(lines[-1])))
        import pyarrow.parquet

        schema = pyarrow.parquet.read_schema(run / "predictions.parquet")
        yield from (f"run/predictions.parquet {field.name}: {field.type}" for field in schema)
        for path in sorted(store.rglob("*.npy")):
            array = np.load(path, mmap_mode="r", allow_pickle=False)
            yield f"store/{path.relative_to(store)} {array.dtype} {array.ndim}-d"


def surface() -> str:
    """All of it, one line each."""
    return "\n".join([*python_names(), *commands(), *files()]) + "\n"


if __name__ == "__main__":
    print(surface(), end="")
