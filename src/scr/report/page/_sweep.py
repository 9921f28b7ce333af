"""The page of a sweep: per setting its curves, what they show in words, and the numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scr.report.page._render import render


def sweep_page(result: Mapping[str, Any]) -> str:
    """A sweep as one HTML page.

    Args:
        result: Content of `sweep.json`.
    """
    title = f"Sensitivity of {result['encoder']} on {result['graph']['name']}"
    return render("sweep.html", title=title, **result)
