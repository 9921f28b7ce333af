"""ROC AUC: how often a positive row is ranked above a negative one.

Sorting each column once gives it; scikit-learn, whose import takes a second, gives the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def roc_auc(labels: NDArray[Any], probabilities: NDArray[Any]) -> float | None:
    """Area under the ROC curve, each class against the rest, averaged over the classes.

    Classes that no row, or every row, has are left out. With all classes present it is what
    scikit-learn calls ``multi_class="ovr", average="macro"``.

    Args:
        labels: Class per row, all known. Shape (rows,).
        probabilities: Shape (rows, classes).

    Returns:
        None where no class has both rows in it and rows outside of it.
    """
    areas = [
        area
        for number in np.unique(labels).tolist()
        if (area := area_under_curve(labels == number, probabilities[:, number])) is not None
    ]
    return float(np.mean(areas)) if areas else None


def area_under_curve(positive: NDArray[np.bool_], scores: NDArray[Any]) -> float | None:
    """Share of pairs, one positive and one negative row, that the scores put in order.

    Ties count one half. None where all rows are positive, or none is.
    """
    positives = int(np.count_nonzero(positive))
    pairs = positives * (len(positive) - positives)
    if not pairs:
        return None
    order = np.argsort(scores)
    ordered, hits = scores[order], positive[order]
    # Rows of one score form a group; `ends` is one past the last row of each.
    ends = np.append(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1, len(ordered))
    hits_in_group = np.diff(np.cumsum(hits)[ends - 1], prepend=0)
    misses_in_group = np.diff(ends, prepend=0) - hits_in_group
    misses_below = np.cumsum(misses_in_group) - misses_in_group
    return float((hits_in_group * (misses_below + misses_in_group / 2)).sum() / pairs)
