"""Plots of experiments as SVG or PNG bytes, one panel each, for pages and as files.

Every function takes plain data and returns bytes. Figures are made with matplotlib's object API:
no global state, no display, and nothing left open in a notebook.
"""

from scr.report.plots._comparison import accuracy_dots as accuracy_dots
from scr.report.plots._comparison import difference_dots as difference_dots
from scr.report.plots._efficiency import efficiency_curves as efficiency_curves
from scr.report.plots._learning_curve import learning_curves as learning_curves
from scr.report.plots._sensitivity import sensitivity_curves as sensitivity_curves
from scr.report.plots._sensitivity import sensitivity_overview as sensitivity_overview
from scr.report.plots._style import image_tile as image_tile
from scr.report.plots._style import inline_svg as inline_svg
