"""Bars and shades that stand in the cells of tables, beside their numbers."""

from __future__ import annotations

from markupsafe import Markup

from scr.report._formatting import number_or_none


def bar(
    value: object, low: float = 0.0, high: float = 1.0, between: tuple[float, float] | None = None
) -> Markup:
    """A bar from 0 to a value; nothing where it is not a finite number.

    Args:
        value: The length.
        low: The number at the left edge; 0, or less where values are below 0.
        high: The number at the right edge.
        between: An interval around the value, drawn as a line.
    """
    number = number_or_none(value)
    if number is None or not high > low:
        return Markup("")

    def place(each: float) -> float:
        return 100 * min(max((each - low) / (high - low), 0.0), 1.0)

    start, end = sorted((place(0.0), place(number)))
    color = "blue" if number >= 0 else "red"
    whisker = Markup("")
    if between is not None:
        whisker = Markup('<line x1="{:.1f}" x2="{:.1f}" y1="5" y2="5"/>').format(
            *map(place, between)
        )
    return Markup(
        '<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        '<rect x="{:.1f}" width="{:.1f}" height="10" fill="var(--{})"/>{}</svg>'
    ).format(start, end - start, color, whisker)


def heat(share: float, kind: str = "right") -> Markup:
    """Attributes of a cell whose shade is a share; `kind`: right, or wrong for mistakes."""
    strength = min(max(share, 0.0), 1.0)
    return Markup('class="number heat {}" style="--share:{:.3g}"').format(kind, strength)
