"""One look for all plots: colors that color-blind readers can tell apart, and quiet axes.

Text, grid and background have colors of their own that occur nowhere else. `inline_svg` turns
them into CSS variables, so that a plot inside a page follows its light or dark theme.
"""

from __future__ import annotations

import io
import re
import warnings
from pathlib import Path
from typing import Any, Literal

import matplotlib
import matplotlib.image
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import PercentFormatter
from numpy.typing import NDArray

Format = Literal["svg", "png"]

_SHEET = Path(__file__).with_name("page.mplstyle")
themed = matplotlib.rc_context(fname=_SHEET)
"""Decorator of plot functions: the look of the style sheet on top of matplotlib's defaults."""
_COLORS = matplotlib.rc_params_from_file(_SHEET, fail_on_error=True, use_default_template=False)
INK, MUTED = str(_COLORS["text.color"]), str(_COLORS["axes.labelcolor"])
GRID, PAPER = str(_COLORS["grid.color"]), str(_COLORS["figure.facecolor"])
DASHES = (0, (4, 2))
# Okabe and Ito 2008, "Color universal design"; yellow is left out, it is too light for lines.
BLUE, ORANGE, GREEN, RED = "#0072b2", "#e69f00", "#009e73", "#d55e00"
PURPLE, SKY = "#cc79a7", "#56b4e9"
SERIES = (BLUE, ORANGE, GREEN, PURPLE, SKY, RED)
# Tol 2021, "Color Schemes": for more series than the eight of Okabe and Ito.
WINE, OLIVE, INDIGO = "#882255", "#999933", "#332288"
REGULARIZERS = {
    "none": MUTED, "scr": BLUE, "scr-m": ORANGE, "pi": GREEN, "r-drop": PURPLE, "entropy": SKY,
    "fixmatch": RED, "freematch": WINE, "softmatch": OLIVE, "grand": INDIGO,
}  # fmt: skip

_VARIABLES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    GRID: "var(--line)",
    PAPER: "var(--card)",
    # On a dark ground this blue is too dim for lines.
    BLUE: "var(--blue)",
}
_CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff]+")
"""Characters in names that no font has, and that XML forbids."""
_LONGEST_TEXT = 80
"""Characters in a line: longer ones leave no room for the axes."""
LONGEST_NAME = 40
"""The same beside the axes and in legends."""
_FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


def panel(width: float = 4.8, height: float = 3.1) -> tuple[Figure, Axes]:
    """A figure with one pair of axes; sizes in inches."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def quiet(axes: Axes, grid: Literal["x", "y"]) -> None:
    """Leave out the grid of one axis and the line at the left."""
    axes.grid(axis=grid, visible=False)
    axes.spines["left"].set_visible(False)


def in_percent(*each: Axis) -> None:
    """Shares as whole percent at the ticks."""
    for axis in each:
        axis.set_major_formatter(PercentFormatter(1.0, decimals=0))


def annotate_right(axes: Axes, text: str, height: float) -> None:
    """A quiet text at the right of the axes."""
    axes.annotate(
        text, (1.0, height), xycoords=("axes fraction", "data"), xytext=(6, 0),
        textcoords="offset points", va="center", fontsize=8.5, color=MUTED,
    )  # fmt: skip


def ring(label: str, size: float) -> Line2D:
    return Line2D(
        [], [], linestyle="", marker="o", markersize=size, color=PAPER, markeredgecolor=MUTED,
        markeredgewidth=1.8, label=label,
    )  # fmt: skip


def shown_text(text: str, longest: int = _LONGEST_TEXT) -> str:
    """A name as it can be drawn: without controls, and cut if it is too long."""
    lines = _CONTROLS.sub(" ", text).split("\n")
    return "\n".join(line if len(line) <= longest else f"{line[: longest - 1]}…" for line in lines)


def to_bytes(figure: Figure, file_format: Format) -> bytes:
    """The finished picture; equal figures give equal bytes."""
    buffer = io.BytesIO()
    metadata = {"Date": None, "Creator": None} if file_format == "svg" else {"Software": None}
    for text in figure.findobj(Text):
        text.set_text(shown_text(text.get_text()))
    for legend in figure.findobj(Legend):
        for text in legend.get_texts():
            text.set_text(shown_text(text.get_text(), LONGEST_NAME))
    with warnings.catch_warnings():
        # In an SVG, text stays text: the browser has the fonts of all alphabets.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure.savefig(buffer, format=file_format, dpi=160, metadata=metadata)
    return buffer.getvalue()


def image_tile(pixels: NDArray[Any]) -> bytes:
    """A node that is an image as PNG, a pixel per value, dark where the value is large."""
    buffer = io.BytesIO()
    matplotlib.image.imsave(buffer, pixels, cmap="gray_r", format="png")
    return buffer.getvalue()


def series_colors(names: list[str]) -> dict[str, str]:
    """A color per name; regularizers always keep theirs."""
    # SCR's two colors are kept for it even where it is absent: pages stand beside each other.
    taken = {BLUE, ORANGE, *(REGULARIZERS[name] for name in names if name in REGULARIZERS)}
    free = iter([color for color in SERIES if color not in taken] * 16)
    return {name: REGULARIZERS.get(name) or next(free, MUTED) for name in names}


def inline_svg(svg: bytes, *, name: str, description: str) -> str:
    """An SVG ready to stand inside an HTML page.

    Args:
        svg: Bytes from one of the plot functions.
        name: Prefix of all ids; must differ between the plots of a page.
        description: What the plot shows, for readers who cannot see it. Already escaped.
    """
    name = re.sub(r"[^A-Za-z0-9_-]", "-", name)
    text = svg.decode("utf-8")
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r"url\(#", f"url(#{name}-", text)
    text = re.sub(r'href="#', f'href="#{name}-', text)
    text = re.sub(r"'DejaVu Sans'(, [^;\"]*)?", _FONTS, text)
    for color, variable in _VARIABLES.items():
        text = text.replace(color, variable)
    # The size comes from the page; the viewBox keeps the proportions.
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    return text.replace("<svg", f'<svg role="img" aria-label="{description}"', 1).strip()
