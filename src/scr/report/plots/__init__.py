"""Plots as SVG or PNG bytes, one panel each, so that a page can arrange them for any screen.

Every function takes plain data and returns bytes. Figures are made with matplotlib's object API:
no global state, no display, and nothing left open in a notebook.
"""

from scr.report.plots._comparison import accuracy_dots as accuracy_dots
from scr.report.plots._comparison import difference_dots as difference_dots
from scr.report.plots._curves import Histories as Histories
from scr.report.plots._curves import training_curves as training_curves
from scr.report.plots._efficiency import efficiency_curves as efficiency_curves
from scr.report.plots._explanation import attention_bars as attention_bars
from scr.report.plots._explanation import class_attention as class_attention
from scr.report.plots._explanation import drop_bars as drop_bars
from scr.report.plots._explanation import shares_by_hop as shares_by_hop
from scr.report.plots._learning_curve import learning_curves as learning_curves
from scr.report.plots._quality import class_recalls as class_recalls
from scr.report.plots._quality import confusion_heatmap as confusion_heatmap
from scr.report.plots._quality import reliability_diagram as reliability_diagram
from scr.report.plots._sensitivity import sensitivity_curves as sensitivity_curves
from scr.report.plots._sensitivity import sensitivity_overview as sensitivity_overview
from scr.report.plots._style import image_tile as image_tile
from scr.report.plots._style import inline_svg as inline_svg
