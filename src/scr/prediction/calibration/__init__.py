"""Probabilities to act on: temperature scaling, and prediction sets with a stated coverage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scr._front_door import front_door

if TYPE_CHECKING:
    from scr.prediction.calibration._calibration import Calibration as Calibration
    from scr.prediction.calibration._calibration import calibration_nodes as calibration_nodes
    from scr.prediction.calibration._calibration import read_calibration as read_calibration
    from scr.prediction.calibration._calibration import write_calibration as write_calibration
    from scr.prediction.calibration._conformal import prediction_sets as prediction_sets
    from scr.prediction.calibration._conformal import score_limit as score_limit
    from scr.prediction.calibration._conformal import set_scores as set_scores
    from scr.prediction.calibration._temperature import apply_temperature as apply_temperature
    from scr.prediction.calibration._temperature import fit_temperature as fit_temperature
else:
    __all__, __getattr__, __dir__ = front_door(__name__)
