"""One HTML page that says what a run or a comparison showed.

The page holds everything it needs: style, charts and images are inside, nothing is loaded from
anywhere. It can be mailed, archived and opened from a disk, in light and dark, on a phone and on
paper. The table of a run's nodes has a small script that searches, sorts and saves it; without the
script it is still a table.
"""

from __future__ import annotations

from scr.report.page._pages import comparison_page, learning_curve_page, sweep_page
from scr.report.page._render import write_page
from scr.report.page._run_page import run_page

__all__ = ["comparison_page", "learning_curve_page", "run_page", "sweep_page", "write_page"]
