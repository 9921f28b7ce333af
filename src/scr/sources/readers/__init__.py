"""Readers of public graph formats: each turns files into a `RawGraph`, or a
`RawTypedGraph` where there are several types of nodes or edges, and decides nothing else.

What to do with the edges (symmetrize, merge, drop) and how to split is `scr.sources._load`' job, so
that every format gets the same options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scr._front_door import front_door

if TYPE_CHECKING:
    from scr.sources.readers._raw import RawGraph as RawGraph
    from scr.sources.readers._raw import RawTypedGraph as RawTypedGraph
else:
    __all__, __getattr__, __dir__ = front_door(__name__)
