"""How far a share of few nodes may be from that of many."""

from __future__ import annotations

import math

Z_95 = 1.959963984540054
"""Standard errors on each side of a 95% interval of the normal distribution."""


def share_interval(count: int, total: int) -> tuple[float, float]:
    """95% interval of a share (Wilson 1927), which also holds for few nodes.

    Args:
        count: How many nodes have the property, such as a right prediction.
        total: Of how many nodes; of none, the interval is all from 0 to 1.

    >>> share_interval(8, 10)
    (0.490..., 0.943...)
    """
    if total == 0:
        return 0.0, 1.0
    share, squared = count / total, Z_95 * Z_95 / total
    center = (share + squared / 2) / (1 + squared)
    half = Z_95 / (1 + squared) * math.sqrt(share * (1 - share) / total + squared / total / 4)
    return max(center - half, 0.0), min(center + half, 1.0)
