"""Plots as SVG or PNG bytes, one panel each, so that a page can arrange them for any screen.

Every function takes plain data and returns bytes. Figures are made with matplotlib's object API:
no global state, no display, and nothing left open in a notebook.
"""

from __future__ import annotations

from scr.report.plots._comparison import accuracy_dots, difference_dots
from scr.report.plots._curves import Histories, training_curves
from scr.report.plots._efficiency import efficiency_curves
from scr.report.plots._explanation import attention_bars, class_attention, drop_bars, shares_by_hop
from scr.report.plots._images import image_tile
from scr.report.plots._quality import class_recalls, confusion_heatmap, reliability_diagram
from scr.report.plots._sensitivity import sensitivity_curves, sensitivity_overview
from scr.report.plots._style import inline_svg

__all__ = [
    "Histories",
    "accuracy_dots",
    "attention_bars",
    "class_attention",
    "class_recalls",
    "confusion_heatmap",
    "difference_dots",
    "drop_bars",
    "efficiency_curves",
    "image_tile",
    "inline_svg",
    "reliability_diagram",
    "sensitivity_curves",
    "sensitivity_overview",
    "shares_by_hop",
    "training_curves",
]
