"""Numbers of the Markdown tables: accuracies with their spread, and differences in points."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from scr.report._comparison import PairedDifference


def plain(graph: str) -> str:
    """The name of a graph as a table shows it."""
    return graph.replace("_", " ")


def mean_cell(mean: float, deviation: float | None, balanced: float | None = None) -> str:
    """Shares in percent, balanced accuracy in parentheses where it was recorded.

    >>> mean_cell(0.8537, 0.0051, 0.8421)
    '85.4 ± 0.5 (84.2)'
    """
    text = f"{100 * mean:.1f}"
    if deviation is not None:
        text += f" ± {100 * deviation:.1f}"
    return text if balanced is None else f"{text} ({100 * balanced:.1f})"


def cell(values: Sequence[float], balanced: Sequence[float | None] = ()) -> str:
    """The same of the values of all seeds; balanced accuracy only if all seeds have it.

    >>> cell([0.80, 0.82], [0.7, 0.8])
    '81.0 ± 1.4 (75.0)'
    >>> cell([0.80], [None])
    '80.0'
    """
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return mean_cell(statistics.fmean(values), deviation, mean_of(balanced))


def mean_of(values: Sequence[float | None]) -> float | None:
    """The mean, or none where a value is missing."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known and len(known) == len(values) else None


def interval(
    mean: float | None, low: float | None = None, high: float | None = None, *, scale: float = 100
) -> str:
    """A difference in points with its interval, empty where there is none.

    >>> interval(0.0123, 0.005, 0.02)
    '+1.2 [+0.5, +2.0]'
    """
    if mean is None:
        return ""
    if low is None or high is None:
        return f"{scale * mean:+.1f}"
    return f"{scale * mean:+.1f} [{scale * low:+.1f}, {scale * high:+.1f}]"


def difference_cell(difference: PairedDifference | None, *, scale: float = 100) -> str:
    """`interval` of a paired difference."""
    if difference is None:
        return ""
    return interval(difference.mean, difference.low, difference.high, scale=scale)
