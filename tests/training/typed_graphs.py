"""A small graph of papers, authors and topics, for tests of what reads relations."""

from __future__ import annotations

import numpy as np

from scr.graph import Graph


def make_typed_graph(papers: int = 60, seed: int = 0, **settings: object) -> Graph:
    """Papers with features and a class; authors and topics without; topics tell the class."""
    generator = np.random.default_rng(seed)
    authors, topics, classes = papers // 2, 9, 3
    labels = np.arange(papers) % classes
    centers = generator.standard_normal((classes, 6))
    noise = generator.standard_normal((papers, 6))
    every = np.arange(papers)
    relations = {
        ("author", "writes", "paper"): np.stack(
            [generator.integers(0, authors, 3 * papers), np.repeat(every, 3)]
        ),
        ("paper", "cites", "paper"): generator.integers(0, papers, (2, 2 * papers)),
        ("paper", "has_topic", "topic"): np.stack(
            [every, 3 * labels + generator.integers(0, 3, papers)]
        ),
    }
    order = generator.permutation(papers)
    order = np.concatenate([every[: papers // 3], np.setdiff1d(order, every[: papers // 3])])
    defaults = {
        "num_nodes": {"paper": papers, "author": authors, "topic": topics},
        "train": order[: papers // 3],
        "valid": order[papers // 3 : papers // 2],
        "test": order[papers // 2 :],
        "name": "typed",
    }
    features = {"paper": (centers[labels] + noise).astype(np.float32)}
    return Graph.from_relations(relations, features, labels, "paper", **(defaults | settings))
