"""Whether confidence is deserved: accuracy against confidence."""

from __future__ import annotations

import numpy as np

from scr.metrics import ReliabilityCurve
from scr.report._formatting import percent
from scr.report.charts import _svg as draw


def reliability_diagram(curve: ReliabilityCurve) -> draw.Chart | None:
    """Accuracy per confidence bin against the diagonal, with the share of nodes below.

    None where fewer than two bins have nodes: a single dot says less than a sentence.
    """
    filled = np.flatnonzero(curve.nodes)
    if len(filled) < 2:
        return None
    low = 0.0 if curve.edges[filled[0]] < 0.5 else 0.5
    area = draw.Area(46, 10, draw.WIDTH - 22, 230, low, 1.0, 0.0, 1.0)
    below = draw.Area(46, 284, draw.WIDTH - 22, 334, low, 1.0, 0.0, 1.0)
    parts = draw.axes(area, "confidence", percent_x=True, percent_y=True)
    parts.append(draw.line(area.x(low), area.y(low), area.x(1), area.y(1), "diagonal"))
    # From each dot to the diagonal: the gap that the calibration error averages.
    spots = []
    for each in filled.tolist():
        sure, right = float(curve.confidence[each]), float(curve.accuracy[each])
        spots.append((area.x(sure), area.y(right)))
        parts.append(draw.line(area.x(sure), area.y(sure), area.x(sure), area.y(right), "gap"))
    parts.append(draw.path(spots, "blue", faint=True))
    parts += [draw.dot(x, y, "blue") for x, y in spots]
    tallest = int(curve.nodes.max())
    for each in filled.tolist():
        left, right = (below.x(max(float(edge), low)) for edge in curve.edges[each : each + 2])
        height = (below.bottom - below.top) * int(curve.nodes[each]) / tallest
        parts.append(draw.rect(left + 1, below.bottom - height, right - left - 2, height, "muted"))
    parts.append(draw.line(below.left, below.bottom, below.right, below.bottom))
    parts.append(draw.text(below.left, below.bottom + 16, "nodes with this confidence", "start"))
    rows = [
        (
            f"{100 * curve.edges[each]:.0f} to {100 * curve.edges[each + 1]:.0f}",
            f"{int(curve.nodes[each]):,}",
            percent(float(curve.confidence[each])),
            percent(float(curve.accuracy[each])),
        )
        for each in filled.tolist()
    ]
    error = curve.calibration_error
    description = f"Accuracy against confidence; the calibration error is {percent(error)} points"
    return draw.Chart(
        "Is the confidence deserved?", draw.drawing(parts, 358, description),
        ("confidence %", "nodes", "mean confidence %", "accuracy %"), rows,
    )  # fmt: skip
