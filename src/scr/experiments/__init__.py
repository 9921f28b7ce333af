"""Many runs that answer one question: compare, sweep, learning curve, efficiency, reproduce."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scr._front_door import front_door

if TYPE_CHECKING:
    from scr.experiments._claims import RUNS as RUNS
    from scr.experiments._compare import COMPARE_JSON as COMPARE_JSON
    from scr.experiments._compare import compare as compare
    from scr.experiments._compare import plan as plan
    from scr.experiments._efficiency import EFFICIENCY_JSON as EFFICIENCY_JSON
    from scr.experiments._efficiency import EFFICIENCY_PICTURE as EFFICIENCY_PICTURE
    from scr.experiments._efficiency import Method as Method
    from scr.experiments._efficiency import efficiency as efficiency
    from scr.experiments._efficiency import parse_epochs as parse_epochs
    from scr.experiments._efficiency import plan_efficiency as plan_efficiency
    from scr.experiments._learning_curve import CURVE_JSON as CURVE_JSON
    from scr.experiments._learning_curve import CURVE_PAGE as CURVE_PAGE
    from scr.experiments._learning_curve import CURVE_PICTURE as CURVE_PICTURE
    from scr.experiments._learning_curve import learning_curve as learning_curve
    from scr.experiments._learning_curve import plan_learning_curve as plan_learning_curve
    from scr.experiments._reproduce import REPRODUCE_JSON as REPRODUCE_JSON
    from scr.experiments._reproduce import check_runnable as check_runnable
    from scr.experiments._reproduce import load_recipe_graph as load_recipe_graph
    from scr.experiments._reproduce import reproduce as reproduce
    from scr.experiments._runner import Runner as Runner
    from scr.experiments._runner import Task as Task
    from scr.experiments._stand_in import stand_in_for as stand_in_for
    from scr.experiments._sweep import SWEEP_JSON as SWEEP_JSON
    from scr.experiments._sweep import SWEEP_PAGE as SWEEP_PAGE
    from scr.experiments._sweep import SWEEP_PICTURE as SWEEP_PICTURE
    from scr.experiments._sweep import parse_settings as parse_settings
    from scr.experiments._sweep import plan_sweep as plan_sweep
    from scr.experiments._sweep import sweep as sweep
else:
    __all__, __getattr__, __dir__ = front_door(__name__)
