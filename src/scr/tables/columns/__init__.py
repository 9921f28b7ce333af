"""Columns of a table of nodes: what kind each is, how it is fitted, and what numbers it becomes.

Each kind has a module with `fit` and `transform`. What was fitted is plain data (`FittedColumn`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scr._front_door import front_door

if TYPE_CHECKING:
    from scr.tables.columns._base import FittedColumn as FittedColumn
    from scr.tables.columns._base import UnfitColumn as UnfitColumn
    from scr.tables.columns._base import as_texts as as_texts
    from scr.tables.columns._catalog import fit_column as fit_column
    from scr.tables.columns._catalog import transform_column as transform_column
    from scr.tables.columns._kinds import infer_kind as infer_kind
    from scr.tables.columns._numbers import parse_numbers as parse_numbers
    from scr.tables.columns._numbers import style_of as style_of
else:
    __all__, __getattr__, __dir__ = front_door(__name__)
