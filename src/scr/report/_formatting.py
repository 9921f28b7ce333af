"""Numbers as people read them, the same in the terminal, in markdown and on the page."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scr.metrics import ACCURACY, Metric

MISSING = "–"


def number_or_none(value: object) -> float | None:
    """A finite number, or None for everything else that a JSON field may hold."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) else None


def mapping(value: object) -> Mapping[str, Any]:
    """A JSON object, or an empty one for everything else."""
    return value if isinstance(value, Mapping) else {}


def percent(share: Any, decimals: int = 1) -> str:
    """0.8537 -> 85.4."""
    value = number_or_none(share)
    return MISSING if value is None else f"{100 * value:.{decimals}f}"


def fixed(value: Any, decimals: int) -> str:
    """0.53172 -> 0.532."""
    number = number_or_none(value)
    return MISSING if number is None else f"{number:.{decimals}f}"


def mean_and_spread(mean: Any, std: Any, metric: Metric = ACCURACY) -> str:
    """0.8537, 0.0051 -> 85.4 ± 0.5, or the mean alone where there is no spread."""
    shown, spread = amount(mean, metric), amount(std, metric)
    return shown if number_or_none(std) is None else f"{shown} ± {spread}"


def amount(value: Any, metric: Metric = ACCURACY) -> str:
    """A value of a metric: in percent, or as it is if it is not a share."""
    return percent(value) if metric.higher_is_better else fixed(value, 3)


def points(difference: Any, metric: Metric = ACCURACY) -> str:
    """0.0123 -> +1.23, with a true minus sign; of a metric that is not a share, +0.012."""
    value = number_or_none(difference)
    if value is None:
        return MISSING
    scale, decimals = (100, 2) if metric.higher_is_better else (1, 3)
    # Adding 0.0 turns a negative zero into a positive one, so that it does not print as -0.00.
    text = f"{round(scale * value, decimals) + 0.0:+.{decimals}f}"
    return text.replace("-", "−")


def interval(low: Any, high: Any, metric: Metric = ACCURACY) -> str:
    """0.005, 0.02 -> +0.50 to +2.00, empty where there is no interval."""
    if number_or_none(low) is None or number_or_none(high) is None:
        return ""
    return f"{points(low, metric)} to {points(high, metric)}"


def seconds(value: Any) -> str:
    """Durations from milliseconds to hours."""
    time = number_or_none(value)
    if time is None:
        return MISSING
    if time < 1:
        return f"{1000 * time:.0f} ms"
    if time < 100:
        return f"{time:.1f} s"
    if time < 2 * 3600:
        return f"{time / 60:.0f} min"
    return f"{time / 3600:.1f} h"


def memory(value: Any) -> str:
    """Bytes in binary units."""
    size = number_or_none(value)
    if size is None:
        return MISSING
    power = min(max(int(size).bit_length() - 1, 0) // 10, 4)
    return f"{size / 1024**power:.{int(power > 2)}f} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"


def plain(value: Any) -> str:
    """Any setting or fact: thousands separated, no quotes, lists with commas."""
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() and abs(value) >= 1000 else f"{value:g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(plain(item) for item in value) or MISSING
    if isinstance(value, dict):
        return ", ".join(f"{key} = {plain(item)}" for key, item in value.items()) or MISSING
    return str(value)


def csv_text(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, quoted: bool = False
) -> str:
    """A table as CSV; None is an empty cell, and every text has quotes if asked for."""
    text = io.StringIO()
    writer = csv.writer(
        text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC if quoted else csv.QUOTE_MINIMAL
    )
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()
