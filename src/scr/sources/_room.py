"""Whether there is room on a disk for what is about to be unpacked."""

from __future__ import annotations

import shutil
from pathlib import Path

from scr.errors import StoreError


def check_room(folder: Path, needed: int, what: str, *, hint: str) -> None:
    """Raise a `StoreError` if fewer bytes are free in a folder than `what` needs."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise StoreError(
            f"{what} takes {needed:,} bytes unpacked; {free:,} are free in `{folder}`", hint=hint
        )
