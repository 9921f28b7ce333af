"""Whether a folder can be written, before hours are spent on what goes there."""

from __future__ import annotations

import tempfile
from pathlib import Path

from scr.errors import StoreError
from scr.storage._atomic import disk_errors


def check_writable(folder: Path) -> None:
    """Raise a `StoreError` unless a folder can be written, or made below one that can be."""
    with disk_errors(folder):
        whole = folder.absolute()
        existing = next(path for path in (whole, *whole.parents) if path.exists())
        if not existing.is_dir():
            raise StoreError(f"`{existing}` is a file; expected a folder to write to, or nothing")
        with tempfile.TemporaryFile(dir=existing):
            pass
