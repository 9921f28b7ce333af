"""Plain files, told from what only looks like one when it is opened.

The read of a pipe may wait for ever, and that of a device may never end.
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import IO

_MOST_BYTES = 1 << 28
"""Of a file of ours that is read in one go: the manifest of 100 TB of arrays has 50 MB."""


def check_plain(path: Path) -> None:
    """A `ValueError` if there is anything but a plain file at a path."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise ValueError("it is a folder")
    if not stat.S_ISREG(mode):
        raise ValueError("it is a pipe or a device, not a plain file")


def open_plain(path: Path) -> IO[bytes]:
    """Open a file for reading; a `ValueError` for pipes, devices and folders, which are not."""
    check_plain(path)
    return path.open("rb")


def read_plain(path: Path) -> bytes:
    """The content of a small file; a `ValueError` also if it is not small."""
    with open_plain(path) as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ValueError(f"it has more than {_MOST_BYTES:,} bytes")
    return content
