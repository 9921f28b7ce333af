"""Readers of public graph formats: each turns files into a `RawGraph`, or a
`RawTypedGraph` where there are several types of nodes or edges, and decides nothing else.

What to do with the edges (symmetrize, merge, drop) and how to split is `scr.graph.sources`' job, so
that every format gets the same options.
"""

from __future__ import annotations

from scr.graph.readers.raw import RawGraph, RawTypedGraph

__all__ = ["RawGraph", "RawTypedGraph"]
