"""Small files of a run: JSON, its history line by line, and its split."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scr.errors import StoreError
from scr.storage import write_bytes

if TYPE_CHECKING:
    from scr.graph import Graph


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object, with the file's name in any complaint."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StoreError(f"`{path}` cannot be read as JSON: {error}") from None
    return content


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON object whole or not at all."""
    write_bytes(path, (json.dumps(content, indent=2) + "\n").encode())


def write_history(path: Path, history: list[dict[str, Any]]) -> None:
    """One JSON object per line."""
    write_bytes(path, "".join(json.dumps(record) + "\n" for record in history).encode())


def write_split(path: Path, graph: Graph) -> None:
    """The split of the run, so that it can be used again wherever the graph comes from."""
    buffer = io.BytesIO()
    np.savez(buffer, train=graph.train, valid=graph.valid, test=graph.test)
    write_bytes(path, buffer.getvalue())


def read_split(path: Path) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Training, validation and test nodes of a run."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return file["train"], file["valid"], file["test"]
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise StoreError(f"The split `{path}` cannot be read: {error}") from None
