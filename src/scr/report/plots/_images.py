"""Nodes that are images, such as the digits."""

from __future__ import annotations

import io
from typing import Any

import matplotlib.image
from numpy.typing import NDArray


def image_tile(pixels: NDArray[Any]) -> bytes:
    """One image as PNG, a pixel per value, dark where the value is large."""
    buffer = io.BytesIO()
    matplotlib.image.imsave(buffer, pixels, cmap="gray_r", format="png")
    return buffer.getvalue()
