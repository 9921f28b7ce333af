"""Nodes that are images, such as the digits: one tile, or a grid with what a model says of each."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import matplotlib.image
from matplotlib.figure import Figure
from numpy.typing import NDArray

from scr.report._examples import Example
from scr.report.plots._style import BLUE, INK, RED, Format, themed, to_bytes


def image_tile(pixels: NDArray[Any]) -> bytes:
    """One image as PNG, a pixel per value, dark where the value is large."""
    buffer = io.BytesIO()
    matplotlib.image.imsave(buffer, pixels, cmap="gray_r", format="png")
    return buffer.getvalue()


@themed
def image_grid(
    examples: Sequence[Example], *, columns: int = 6, file_format: Format = "svg"
) -> bytes:
    """Images with the last model's prediction and confidence; blue is right, orange is wrong.

    The mark (✓ or ✗) says the same as the color, for readers who cannot tell the two apart.
    """
    shown = [example for example in examples if example.image is not None]
    rows = max(1, -(-len(shown) // columns))
    figure = Figure(figsize=(1.15 * columns, 1.45 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for axes, example in zip(grid.flat, shown, strict=False):
        answer = example.answers[-1]
        right = answer.prediction == example.label
        color = INK if example.label is None else BLUE if right else RED
        axes.set_axis_on()
        axes.imshow(example.image, cmap="gray_r", interpolation="none")
        axes.set(xticks=[], yticks=[])
        axes.grid(visible=False)
        for spine in axes.spines.values():
            spine.set(visible=True, color=color, linewidth=2.0)
        mark = "" if example.label is None else " ✓" if right else f" ✗ is {example.label}"
        axes.set_title(
            f"{answer.prediction}{mark}\n{answer.confidence:.0%}",
            fontsize=8.5, color=color, loc="center", pad=4,
        )  # fmt: skip
    return to_bytes(figure, file_format)
