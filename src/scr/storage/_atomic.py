"""Files that appear under their names whole or not at all, also after a power cut."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scr.errors import StoreError
from scr.storage._artifact import sync


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """A file that has its name once it is whole and on disk, also after a power cut.

    Yields:
        A sibling to write to. It is synced and renamed at the end, and the folder is synced;
        removed where writing fails.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield temporary
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)
    except OSError as error:
        raise StoreError(f"`{path}` could not be written: {error.strerror or error}") from None
    finally:
        temporary.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    with atomic_file(path) as partial:
        partial.write_bytes(content)
