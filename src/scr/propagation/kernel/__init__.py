"""The product of a sparse adjacency with a dense matrix, on all cores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scr._front_door import front_door

if TYPE_CHECKING:
    from scr.propagation.kernel._product import product as product
else:
    __all__, __getattr__, __dir__ = front_door(__name__)
