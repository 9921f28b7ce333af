"""Settings of GNU's allocator, where the C library is GNU's; see `man 3 mallopt`."""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -4, -8  # names of the settings in <malloc.h>


def keep_freed_memory() -> bool:
    """Let this process keep freed memory for itself; says whether the C library could be told so.

    For processes whose business is training: steps of the same size then cause no page faults at
    all. The peak stays what it was, but between steps the process does not shrink. Only GNU's
    library has the setting.
    """
    # Large blocks come from the heap, and the heap is never cut back.
    return _set(_MMAP_MAX, 0) and _set(_TRIM_THRESHOLD, -1)


def share_arena() -> bool:
    """Let threads allocate from one arena: each of its own would reserve 64 MiB of addresses.

    Where there is a limit on them, a thread of a C++ library that gets none ends the process.
    """
    return _set(_ARENA_MAX, 1)


def _set(setting: int, value: int) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    library = ctypes.CDLL(None)
    return hasattr(library, "gnu_get_libc_version") and bool(library.mallopt(setting, value))
