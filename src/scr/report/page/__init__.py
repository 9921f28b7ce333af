"""One HTML page that says what a run or a comparison showed.

The page holds everything it needs: style, plots and images are inside, nothing is loaded from
anywhere and no script runs. It can be mailed, archived and opened from a disk, in light and dark,
on a phone and on paper.
"""

from __future__ import annotations

from scr.report.page._pages import (
    comparison_page,
    learning_curve_page,
    run_page,
    sweep_page,
)
from scr.report.page._render import write_page

__all__ = ["comparison_page", "learning_curve_page", "run_page", "sweep_page", "write_page"]
