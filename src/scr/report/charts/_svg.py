"""Pieces of all charts: elements, axes and ticks; every text is escaped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

WIDTH = 440
"""Of a chart in its own units: about what it has on a page, so that text keeps its size."""
SERIES = ("blue", "orange", "green", "purple", "sky", "red")
"""Colors of `page.css`, after Okabe and Ito 2008, "Color universal design"."""
REGULARIZERS = {
    "none": "muted", "scr": "blue", "scr-m": "orange", "pi": "green", "r-drop": "purple",
    "entropy": "sky", "fixmatch": "red", "freematch": "wine", "softmatch": "olive",
    "grand": "indigo",
}  # fmt: skip


@dataclass(frozen=True)
class Key:
    """One entry of a legend."""

    name: str
    color: str
    dashed: bool = False


@dataclass(frozen=True)
class Chart:
    """A drawing, and the numbers that it is drawn from."""

    title: str
    svg: Markup
    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    legend: tuple[Key, ...] = ()
    note: str = ""
    """What the table of numbers leaves out."""


@dataclass(frozen=True)
class Area:
    """Where a chart draws, and which numbers its edges stand for."""

    left: float
    top: float
    right: float
    bottom: float
    low_x: float
    high_x: float
    low_y: float
    high_y: float
    log: bool = False
    """Whether heights are logarithms."""

    def x(self, value: float) -> float:
        """The position of a number from left to right."""
        share = (value - self.low_x) / ((self.high_x - self.low_x) or 1.0)
        return self.left + share * (self.right - self.left)

    def y(self, value: float) -> float:
        """The position of a number from top to bottom."""
        low, high = self.low_y, self.high_y
        if self.log:
            value, low, high = (math.log10(max(each, self.low_y)) for each in (value, low, high))
        share = (value - low) / ((high - low) or 1.0)
        return self.bottom - share * (self.bottom - self.top)


def drawing(
    parts: Iterable[Markup], height: float, description: str, width: float = WIDTH
) -> Markup:
    """A whole drawing that a screen reader names by its description."""
    body = Markup("\n").join(parts)
    return Markup(
        '<svg viewBox="0 0 {} {}" role="img" aria-label="{}"><title>{}</title>\n{}\n</svg>'
    ).format(_short(width), _short(height), description, description, body)


def line(x1: float, y1: float, x2: float, y2: float, kind: str = "axis") -> Markup:
    """A straight line of a class of `page.css`."""
    return Markup('<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(
        kind, *map(_short, (x1, y1, x2, y2))
    )


def text(
    x: float, y: float, content: object, anchor: str = "middle", kind: str = "", turn: float = 0
) -> Markup:
    """A text; `anchor` is start, middle or end, `turn` in degrees."""
    place = Markup('x="{}" y="{}"').format(_short(x), _short(y))
    if turn:
        place = Markup('transform="translate({} {}) rotate({:g})"').format(
            _short(x), _short(y), turn
        )
    named = Markup(' class="{}"').format(kind) if kind else Markup("")
    return Markup('<text {} text-anchor="{}"{}>{}</text>').format(place, anchor, named, content)


def rect(x: float, y: float, width: float, height: float, color: str, opacity: float = 1) -> Markup:
    """A filled rectangle."""
    return Markup(
        '<rect x="{}" y="{}" width="{}" height="{}" fill="var(--{})" opacity="{:.3g}"/>'
    ).format(*map(_short, (x, y, width, height)), color, opacity)


def dot(x: float, y: float, color: str, radius: float = 4) -> Markup:
    """A filled circle."""
    return Markup('<circle cx="{}" cy="{}" r="{}" fill="var(--{})"/>').format(
        *map(_short, (x, y, radius)), color
    )


def path(
    points: Sequence[tuple[float, float]], color: str, *, dashed: bool = False, faint: bool = False
) -> Markup:
    """A line through points; a faint one is a single seed among several."""
    steps = " ".join(f"{_short(x)},{_short(y)}" for x, y in points)
    kinds = " ".join(["curve", *["dashed"] * dashed, *["faint"] * faint])
    return Markup('<polyline class="{}" points="{}" stroke="var(--{})"/>').format(
        kinds, steps, color
    )


def ticks(low: float, high: float, most: int = 6, *, whole: bool = False) -> list[float]:
    """Round numbers between two others, evenly apart.

    >>> ticks(0, 150)
    [0.0, 50.0, 100.0, 150.0]
    >>> ticks(1, 4, whole=True)
    [1.0, 2.0, 3.0, 4.0]
    """
    if not high > low:
        return [low]
    step = (high - low) / most
    power = 10.0 ** math.floor(math.log10(step))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step * 0.999)
    if whole:
        step = max(step, 1.0)
    first = math.ceil(low / step - 1e-9)
    return [round(n * step, 12) + 0.0 for n in range(first, math.floor(high / step + 1e-9) + 1)]


def axes(
    area: Area,
    x_title: str,
    *,
    percent_x: bool = False,
    percent_y: bool = False,
    whole: bool = False,
) -> list[Markup]:
    """Grid lines with numbers at the left, a line with numbers below, and what these are of."""
    parts = []
    for value in _log_ticks(area) if area.log else ticks(area.low_y, area.high_y):
        y = area.y(value)
        parts.append(line(area.left, y, area.right, y, "grid"))
        parts.append(text(area.left - 6, y + 4, shown(value, percent=percent_y), "end"))
    parts.append(line(area.left, area.bottom, area.right, area.bottom))
    parts += [
        text(area.x(value), area.bottom + 16, shown(value, percent=percent_x))
        for value in ticks(area.low_x, area.high_x, whole=whole)
    ]
    parts.append(text((area.left + area.right) / 2, area.bottom + 33, x_title))
    return parts


def _log_ticks(area: Area) -> list[float]:
    powers = range(
        math.ceil(math.log10(area.low_y) - 1e-9), math.floor(math.log10(area.high_y)) + 1
    )
    return [10.0**power for power in powers] or [area.low_y, area.high_y]


def shown(value: float, *, percent: bool = False) -> str:
    """A number at a tick."""
    return f"{100 * value:.3g}%" if percent else f"{value:,.4g}" if value < 1e4 else f"{value:,.0f}"


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
