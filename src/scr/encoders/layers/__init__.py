"""Layers that several encoders share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scr._front_door import front_door

if TYPE_CHECKING:
    from scr.encoders.layers._adjacency import Adjacency as Adjacency
    from scr.encoders.layers._adjacency import inverse as inverse
    from scr.encoders.layers._label_branch import LabelBranch as LabelBranch
    from scr.encoders.layers._sparse_rows import Projected as Projected
    from scr.encoders.layers._sparse_rows import SparseRows as SparseRows
else:
    __all__, __getattr__, __dir__ = front_door(__name__)
