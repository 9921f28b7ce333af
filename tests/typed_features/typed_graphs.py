"""Small graphs of several types, for tests of features."""

from __future__ import annotations

from typing import Any

import numpy as np

from scr.graph import Graph


def academic_graph(seed: int = 0, **features: Any) -> Graph:
    """Papers with features, authors, fields, and institutions two steps away; a lonely author."""
    generator = np.random.default_rng(seed)
    papers, authors, fields, institutions = 12, 7, 4, 3

    def edges(sources: int, targets: int, count: int) -> Any:
        ends = generator.integers(0, sources, count), generator.integers(0, targets, count)
        return np.stack(ends)

    given = {"paper": generator.standard_normal((papers, 5)).astype(np.float32)} | features
    return Graph.from_relations(
        {
            ("author", "writes", "paper"): edges(authors - 1, papers, 20),
            ("paper", "has", "field"): edges(papers, fields, 15),
            ("author", "works-at", "institution"): edges(authors, institutions, 8),
            ("paper", "cites", "paper"): edges(papers, papers, 10),
        },
        features={kind: matrix for kind, matrix in given.items() if matrix is not None},
        labels=np.arange(papers) % 3,
        target="paper",
        num_nodes={"paper": papers, "author": authors, "field": fields,
                   "institution": institutions},
        name="academic",
    )  # fmt: skip


def planted_graph(groups: int = 4, size: int = 12, seed: int = 0) -> Graph:
    """Items and tags without features; tags and likes hold within a group only."""
    generator = np.random.default_rng(seed)
    group = np.repeat(np.arange(groups), size)
    tags = np.repeat(np.arange(groups), 3)
    same = np.argwhere(group[:, None] == tags[None, :])
    likes = np.argwhere(group[:, None] == group[None, :])
    likes = likes[generator.random(len(likes)) < 0.6]
    return Graph.from_relations(
        {("item", "has", "tag"): same.T, ("item", "likes", "item"): likes.T},
        labels=group,
        target="item",
        num_nodes={"item": len(group), "tag": len(tags)},
        name="planted",
    )
