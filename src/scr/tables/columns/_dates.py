"""Columns of dates: days since the earliest, and where in the year and in the week a day is.

Days of the year and of the week go round, so they become a sine and a cosine: 31 December is next
to 1 January. Times of the day are left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from scr.tables.columns._base import (
    FittedColumn,
    UnfitColumn,
    is_text,
    mask_of,
    present_texts,
    refuse_rows,
)

_TIME = r"(?:[T ]\d{1,2}:\d{2}.*)?$"
_YEAR, _MONTH, _DAY = r"(?P<year>\d{4})", r"(?P<month>\d{1,2})", r"(?P<day>\d{1,2})"
FORMATS = {
    "year-month-day": rf"^{_YEAR}[-/.]{_MONTH}[-/.]{_DAY}{_TIME}",
    "day-month-year": rf"^{_DAY}[-/.]{_MONTH}[-/.]{_YEAR}{_TIME}",
    "month-day-year": rf"^{_MONTH}[-/.]{_DAY}[-/.]{_YEAR}{_TIME}",
    "year-month": rf"^{_YEAR}[-/.]{_MONTH}$",
}
"""How dates are written, in the order in which a column is tried."""
_CYCLES = {"day of year": 365.25, "weekday": 7.0}
_CONSTANT = 1e-6


def parse(column: pa.ChunkedArray, written: str) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Days since 1970, NaN where missing, and which cells are neither."""
    if pa.types.is_null(column.type):
        return np.full(len(column), np.nan), np.zeros(len(column), bool)
    if pa.types.is_temporal(column.type) and not pa.types.is_duration(column.type):
        try:
            days = column.cast(pa.timestamp("s"), safe=False).cast(pa.date32(), safe=False)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise UnfitColumn(f"holds {column.type}; expected dates") from None
        numbers = days.cast(pa.int32()).cast(pa.float64())
        return np.array(pc.fill_null(numbers, np.nan).to_numpy()), np.zeros(len(column), bool)
    if not is_text(column):
        raise UnfitColumn(f"holds {column.type}; expected dates")
    texts = present_texts(column)
    fields: Any = pc.extract_regex(texts, FORMATS[written])
    fits = mask_of(pc.is_valid(fields))
    year, month, day = (_field(fields, name, fits) for name in ("year", "month", "day"))
    inside = (month >= 1) & (month <= 12) & (day >= 1) & (year >= 1)
    months = (np.where(inside, year, 1970) - 1970) * 12 + np.where(inside, month, 1) - 1
    starts = months.astype("datetime64[M]")
    lengths = ((starts + 1).astype("datetime64[D]") - starts.astype("datetime64[D]")).astype(int)
    inside &= day <= lengths
    days = starts.astype("datetime64[D]").astype(np.int64) + day - 1
    present = mask_of(pc.is_valid(texts))
    return np.where(fits & inside, days, np.nan).astype(np.float64), present & ~(fits & inside)


def _field(fields: Any, name: str, fits: NDArray[np.bool_]) -> NDArray[np.int64]:
    """A part of the dates as numbers; 1 where there is none, 0 where a cell does not fit."""
    if fields.type.get_field_index(name) < 0:
        return np.ones(len(fits), np.int64)
    texts = pc.if_else(pa.array(fits), pc.struct_field(fields, name), pa.scalar("0"))
    return np.array(texts.cast(pa.int64()).to_numpy(), np.int64)


def format_of(column: pa.ChunkedArray) -> str | None:
    """The first way of writing dates that fits all cells; none if there is none."""
    if not is_text(column):
        return next(iter(FORMATS))
    present = pc.drop_null(present_texts(column))
    for written in FORMATS:
        if not parse(present, written)[1].any():
            return written
    return None


def fit(name: str, column: pa.ChunkedArray, rows: NDArray[np.int64] | None) -> FittedColumn:
    """How dates are written, the earliest day, and mean and deviation of the days since then."""
    written = format_of(column)
    days, wrong = parse(column, written or next(iter(FORMATS)))
    refuse_rows(column, wrong, "dates such as 2024-01-31, all written alike")
    seen = days if rows is None else days[rows]
    seen = seen[~np.isnan(seen)]
    if len(seen) == 0:
        raise UnfitColumn("has no dates")
    earliest = float(seen.min())
    parameters: dict[str, Any] = {
        "format": written, "earliest": earliest, "mean": float((seen - earliest).mean()),
        "deviation": float((seen - earliest).std()) or 1.0, "missing": int(np.isnan(days).sum()),
    }  # fmt: skip
    first, last = (str(np.datetime64(int(day), "D")) for day in (earliest, seen.max()))
    parameters["details"] = [f"{first} to {last}"]
    if is_text(column) and written not in ("year-month-day", "year-month"):
        parameters["details"].append(f"written {written}")
    parts = _parts(seen, parameters)
    kept = [part for part, values in parts.items() if np.ptp(values) > _CONSTANT]
    parameters["parts"] = kept
    names = tuple(f"{name} {part}" for part in kept)
    if parameters["missing"]:
        names = (*names, f"{name} missing")
    if not names:
        raise UnfitColumn(f"has the date {first} in all rows")
    return FittedColumn(name, "date", names, parameters)


def transform(fitted: FittedColumn, column: pa.ChunkedArray) -> NDArray[np.float32]:
    """The parts that differ between the dates it was fitted to, 0 where the date is missing."""
    settings = fitted.parameters
    days, wrong = parse(column, settings["format"] or next(iter(FORMATS)))
    refuse_rows(column, wrong, f"dates written {settings['format']}")
    missing = np.isnan(days)
    parts = _parts(np.where(missing, settings["earliest"], days), settings)
    columns = [np.where(missing, 0.0, parts[part]) for part in settings["parts"]]
    if settings["missing"]:
        columns.append(missing.astype(np.float64))
    return np.column_stack(columns).astype(np.float32)


def _parts(days: NDArray[np.float64], settings: Any) -> dict[str, NDArray[np.float64]]:
    dates = days.astype(np.int64).astype("datetime64[D]")
    of_year = (dates - dates.astype("datetime64[Y]").astype("datetime64[D]")).astype(np.float64)
    # Days are counted from a Thursday.
    counted = {"day of year": of_year, "weekday": np.mod(days + 3, 7)}
    since = (days - settings["earliest"] - settings["mean"]) / settings["deviation"]
    parts = {"days": np.clip(since, -10, 10)}
    for name, length in _CYCLES.items():
        angle = 2 * np.pi * counted[name] / length
        parts |= {f"{name} sine": np.sin(angle), f"{name} cosine": np.cos(angle)}
    return parts
