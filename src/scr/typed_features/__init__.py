"""Features of all types of nodes: one width, and something for types that have none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scr._front_door import front_door

if TYPE_CHECKING:
    from scr.typed_features._complete import complete_features as complete_features
    from scr.typed_features._complete import is_plain as is_plain
    from scr.typed_features._complete import planned_features as planned_features
    from scr.typed_features._complete import restore_fitted as restore_fitted
    from scr.typed_features._fitted import FittedCompletion as FittedCompletion
else:
    __all__, __getattr__, __dir__ = front_door(__name__)
