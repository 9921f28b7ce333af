"""Put the parts of all blocks and hops together, so that all hops of a row lie side by side.

Where all rows of dense features are kept, hop 0 has no parts: it is read from the features again.
The result is made in stretches of whole chunks (`_stretches.py`), by this process or by the workers
of a cluster, several at a time (`_joiner.py`). A killed assembly resumes. A part whose checksum is
wrong is found here at the latest.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from scr.propagation.disk._layout import Layout
from scr.propagation.disk._pieces import DamagedPieceError, Pieces
from scr.propagation.disk._stretches import JoinedStretch, Stretch, Stretches
from scr.storage import FAST, checksums, open_descriptor, write_all


def assemble(
    work: Pieces,
    layout: Layout,
    file: Path,
    stretches: Stretches,
    join: Callable[[Iterable[Stretch | None]], Iterator[tuple[Stretch, JoinedStretch]]],
    on_rows: Callable[[int, int], None],
) -> list[str]:
    """Write a `.npy` from finished parts, or resume it.

    Args:
        work: The journal.
        layout: Of the result.
        file: The result.
        stretches: What is missing of it.
        join: Puts stretches together, in any order.
        on_rows: Told how many rows there are by now, of how many.

    Returns:
        The checksums of the chunks of the result.

    Raises:
        DamagedPieceError: A part is not what was written; what was assembled stays.
    """
    _make(file, layout)
    rows = layout.shape[0]
    try:
        for stretch, made in join(stretches):
            if made.damaged is not None:
                raise DamagedPieceError(made.damaged)
            stretches.finish(stretch, made.digests)
            on_rows(rows - stretches.rows, rows)
    except DamagedPieceError as damaged:
        work.remove(damaged.name)
        raise
    return work.assembled_digests


def _make(file: Path, layout: Layout) -> None:
    """The result's file, of its full size but without data, unless it is there."""
    file.parent.mkdir(exist_ok=True)
    descriptor = open_descriptor(file, os.O_RDWR | os.O_CREAT)
    try:
        write_all(descriptor, memoryview(layout.header), 0)
        os.truncate(descriptor, len(layout.header) + layout.size)
        os.fsync(descriptor)  # before workers on other machines look at it
    finally:
        os.close(descriptor)


def result_is_there(work: Pieces, file: Path, layout: Layout) -> bool:
    """Whether an assembly that had begun left its file, with the chunks that it has put there."""
    if not file.exists() or file.stat().st_size != len(layout.header) + layout.size:
        return False
    flat = np.memmap(file, np.uint8, "r", len(layout.header))
    begin = layout.hashed(work.assembled or 0, layout.chunks)[0]
    return checksums(flat[begin:], like=FAST) == work.assembled_digests
