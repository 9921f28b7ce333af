"""Correct and Smooth: equations, the search for settings, and whose labels are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scr._front_door import front_door

if TYPE_CHECKING:
    from scr.prediction.smoothing._smoothing import Smoothed as Smoothed
    from scr.prediction.smoothing._smoothing import smooth_predictions as smooth_predictions
    from scr.prediction.smoothing._smoothing import steps_taken as steps_taken
else:
    __all__, __getattr__, __dir__ = front_door(__name__)
