"""The best answer within a time: a portfolio of settings, raced over folds, and averaged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scr._front_door import front_door

if TYPE_CHECKING:
    from scr.tuning._folds import fold_graphs as fold_graphs
    from scr.tuning._portfolio import Member as Member
    from scr.tuning._portfolio import portfolio as portfolio
    from scr.tuning._portfolio import read_portfolio as read_portfolio
    from scr.tuning._trials import Trial as Trial
    from scr.tuning._tune import TIME_LIMIT as TIME_LIMIT
    from scr.tuning._tune import Effort as Effort
    from scr.tuning._tune import read_tuned as read_tuned
    from scr.tuning._tune import tune as tune
else:
    __all__, __getattr__, __dir__ = front_door(__name__)
