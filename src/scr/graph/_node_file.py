"""Node numbers from a `.npy` file, such as those whose hops are kept or that are predicted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.errors import SourceError


def read_nodes(path: str | Path) -> NDArray[Any]:
    """Read a `.npy` of node numbers, or a mask; what it holds is checked by whoever uses it."""
    try:
        with Path(path).expanduser().open("rb") as file:
            # Not `np.load`: it takes archives for arrays, and an empty file for the end of input.
            nodes: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SourceError(
            f"`{path}` cannot be read as a .npy file of node numbers: {reason}",
            hint="write one with `numpy.save(path, nodes)`",
        ) from None
    return nodes
