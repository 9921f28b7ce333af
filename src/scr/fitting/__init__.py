"""From two tables, or any graph, to a fitted classifier and its run directory, in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scr._front_door import front_door

if TYPE_CHECKING:
    from scr.fitting._fit import PREDICTIONS as PREDICTIONS
    from scr.fitting._fit import fit as fit
    from scr.fitting._fit import fit_run as fit_run
    from scr.fitting._options import TRAINING as TRAINING
    from scr.fitting._options import FitOptions as FitOptions
    from scr.fitting._options import FitResult as FitResult
    from scr.fitting._options import Watch as Watch
    from scr.fitting._record import FIT as FIT
    from scr.fitting._record import record_lines as record_lines
    from scr.fitting._splits import plan_split as plan_split
else:
    __all__, __getattr__, __dir__ = front_door(__name__)
