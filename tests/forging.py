"""Damage to arrays of artifacts, with and without checksums that agree with it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from scr.storage import checksums


def forge(path: Path, name: str, array: np.ndarray) -> Path:
    """Replace an array of an artifact, checksums included, as a stranger might; returns its file.

    The record of what was verified goes too: a stranger cannot know inodes and times.
    """
    file = path / f"{name}.npy"
    np.save(file, array)
    content = json.loads((path / "manifest.json").read_text())
    content["arrays"][name] |= {
        "shape": list(array.shape), "dtype": array.dtype.str, "bytes": array.nbytes,
        "checksums": checksums(array),
    }  # fmt: skip
    (path / "manifest.json").write_text(json.dumps(content))
    return file


def alter_metadata(path: Path, **changes: object) -> None:
    """Change metadata of an artifact, with a checksum that agrees."""
    content = json.loads((path / "manifest.json").read_text())
    content["metadata"] |= changes
    content.pop("metadata_checksum")
    (path / "manifest.json").write_text(json.dumps(content))


def flip(file: Path, position: int, bit: int = 0) -> None:
    """Flip one bit of a file."""
    content = bytearray(file.read_bytes())
    content[position] ^= 1 << bit
    file.write_bytes(content)
