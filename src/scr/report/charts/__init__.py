"""Charts of pages as inline SVG, written by hand: small, themed by CSS, and without matplotlib.

Importing matplotlib and drawing with it takes longer than a first training run. Colors are CSS
variables of the page, so that charts follow its light or dark theme. Each chart has its numbers
beside it, for readers who cannot see it and for those who want to compute with them.
"""

from scr.report.charts._bars import bar as bar
from scr.report.charts._bars import heat as heat
from scr.report.charts._confusion import confusion_chart as confusion_chart
from scr.report.charts._curves import Histories as Histories
from scr.report.charts._curves import training_curves as training_curves
from scr.report.charts._reliability import reliability_diagram as reliability_diagram
from scr.report.charts._svg import Chart as Chart
