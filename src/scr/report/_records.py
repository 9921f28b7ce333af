"""Read the JSON files of a run directory for its report."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scr.errors import RunError


def read_object(path: Path) -> Mapping[str, Any]:
    """A JSON file that holds an object, such as `run.json` or `compare.json`."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise RunError(f"`{path}` is not JSON ({error}); the run may be damaged") from error
    if not isinstance(content, dict):
        raise RunError(f"`{path}` holds a {type(content).__name__}; expected a JSON object")
    return content


def read_history(path: Path) -> list[dict[str, Any]]:
    """Objects of a JSON-lines file, none if it is not there.

    A line cut short by a crash is left out.
    """
    if not path.is_file():
        return []
    history = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(record, dict):
            history.append(record)
    return history
