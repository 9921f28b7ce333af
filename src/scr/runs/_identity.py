"""The name of a run: a hash of everything that decides its result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scr.graph import Graph
    from scr.training import Recipe

IDENTITY = 2
"""Version of the rule; version 1 left out settings that were younger than it."""


def run_identity(graph: Graph, recipe: Recipe, seed: int, *special: str) -> str:
    """Names a run by everything that decides its result: graph, split, settings, seed.

    Args:
        graph: With its split.
        recipe: All settings.
        seed: Of the run.
        *special: What else decides it, such as the rows that hops were kept for.
    """
    content = [IDENTITY, recipe.tables(), seed, graph.fingerprint(), *special]
    encoded = json.dumps(content, sort_keys=True).encode()
    return hashlib.blake2b(encoded, digest_size=8).hexdigest()


def subsets_identity(subsets: Sequence[Sequence[str]] | None) -> list[str]:
    """What names subsets of relations in the identity of a run."""
    return [] if subsets is None else [f"subsets {json.dumps(subsets)}"]
