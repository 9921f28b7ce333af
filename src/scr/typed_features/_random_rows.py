"""Random features: a Gaussian projection of the identity of each node.

They say nothing but which node it is, and nearly at right angles to every other node. The rows of a
type depend on the seed and the type's name only, so that nodes which are added later do not change
those that were there.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from scr.typed_features._fitted import PART_ROWS


def fill_by_random_rows(rows: NDArray[np.float32], kind: str, seed: int, length: float) -> None:
    """Write Gaussian rows of a root mean square length.

    Args:
        rows: Of all nodes of a type; overwritten.
        kind: The type's name.
        seed: The same gives the same rows.
        length: What the rows' length is about.
    """
    name = int.from_bytes(hashlib.blake2b(kind.encode(), digest_size=8).digest(), "little")
    generator = np.random.default_rng([seed, name])
    factor = np.float32(length / np.sqrt(rows.shape[1]))
    for first in range(0, len(rows), PART_ROWS):
        part = rows[first : first + PART_ROWS]
        part[:] = generator.standard_normal(part.shape, np.float32) * factor
