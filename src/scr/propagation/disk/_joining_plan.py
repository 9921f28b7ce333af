"""How parts are put together at the end: in how large stretches, and how many of them at once."""

from __future__ import annotations

from typing import NamedTuple

from scr.storage import CHUNK_BYTES

WRITE_BYTES = 64 * 2**20
"""Of slabs that are written at once where there is memory for it: the disk waits less between."""
STRETCH_BYTES = 256 * 2**20
"""Of the result, which are read and written before the disk is waited for: less for small ones."""
STRETCH_SLABS = 16
"""Fewest slabs of a stretch where there is disk for it, since slabs between two are read twice."""
ON_THEIR_WAY = 2
"""Stretches for each of those who put them together: one may wait for later ones, or for the disk,
while the next one is read. Until they are noted, the disk holds their parts as well."""


class JoiningPlan(NamedTuple):
    """What is put together at once."""

    slabs: int
    """That are written at once."""
    stretch_chunks: int
    """Most chunks of a stretch."""
    stretches: int
    """On their way to the disk at once."""
    disk_bytes: int
    """That they take beside their parts, beyond the one chunk that always counts."""


def plan_joining(
    result_bytes: int, slab_bytes: int, *, at_work: int, memory_bytes: int, free_bytes: int
) -> JoiningPlan:
    """Choose stretches for a result.

    Args:
        result_bytes: Its size.
        slab_bytes: That of one of its slabs.
        at_work: How many put it together.
        memory_bytes: For the slabs that each of them writes at once.
        free_bytes: Disk for stretches beside their parts, beyond one chunk.
    """
    slabs = min(memory_bytes, WRITE_BYTES, result_bytes) // max(slab_bytes, 1)
    room = 1 + max(free_bytes, 0) // CHUNK_BYTES
    stretches = ON_THEIR_WAY * at_work
    most = -(-max(STRETCH_BYTES, STRETCH_SLABS * slab_bytes) // CHUNK_BYTES)
    # All should be at work until the end.
    each = -(-result_bytes // CHUNK_BYTES) // stretches
    chunks = max(min(most, room // stretches, each), min(-(-slab_bytes // CHUNK_BYTES), room), 1)
    stretches = min(stretches, room // chunks)
    disk = min(stretches * chunks * CHUNK_BYTES, result_bytes) - CHUNK_BYTES
    return JoiningPlan(max(slabs, 1), chunks, stretches, max(disk, 0))
