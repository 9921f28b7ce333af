"""One look for all plots: colors that color-blind readers can tell apart, and quiet axes.

Text, grid and background have colors of their own that occur nowhere else. `inline_svg` turns
them into CSS variables, so that a plot inside a page follows its light or dark theme.
"""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from matplotlib.typing import RcKeyType

Format = Literal["svg", "png"]
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

INK, MUTED, GRID, PAPER = "#1c2531", "#667281", "#d5dbe3", "#fefefe"
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

_THEME: dict[RcKeyType, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": GRID,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelcolor": MUTED,
    "axes.labelsize": 9.5,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "figure.facecolor": PAPER,
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "legend.borderaxespad": 0.3,
    "legend.columnspacing": 1.4,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "legend.handlelength": 1.8,
    "legend.labelcolor": INK,
    "lines.linewidth": 1.9,
    "lines.solid_capstyle": "round",
    "savefig.facecolor": PAPER,
    "svg.fonttype": "none",
    # Without a salt, ids in the SVG are random and two equal runs write different pages.
    "svg.hashsalt": "scr",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": GRID,
    "xtick.labelcolor": MUTED,
    "xtick.labelsize": 9,
    "xtick.major.size": 0,
    "ytick.color": GRID,
    "ytick.labelcolor": MUTED,
    "ytick.labelsize": 9,
    "ytick.major.size": 0,
}
_VARIABLES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    GRID: "var(--line)",
    PAPER: "var(--card)",
    # On a dark ground this blue is too dim for lines.
    BLUE: "var(--blue)",
}
_FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


def themed(draw: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Run a plot function with the look above, whatever the user's matplotlib settings are."""

    @functools.wraps(draw)
    def drawn(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        with matplotlib.rc_context():
            matplotlib.rcdefaults()
            matplotlib.rcParams.update(_THEME)
            return draw(*args, **kwargs)

    return drawn


def panel(width: float = 4.8, height: float = 3.1) -> tuple[Figure, Axes]:
    """A figure with one pair of axes; sizes in inches."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def to_bytes(figure: Figure, file_format: Format) -> bytes:
    """The finished picture; equal figures give equal bytes."""
    buffer = io.BytesIO()
    metadata = {"Date": None, "Creator": None} if file_format == "svg" else {"Software": None}
    figure.savefig(buffer, format=file_format, dpi=160, metadata=metadata)
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
