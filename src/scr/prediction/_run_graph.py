"""Load the graph of a run again: the same source, features file and split as at training.

A model is only as good as the features that it reads, so a graph that has changed since is refused.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from scr.errors import RunError
from scr.graph import Graph
from scr.runs import SPLIT, read_run, read_split
from scr.sources import load_graph


def load_run_graph(path: Path) -> Graph:
    """Load the graph that the run of a directory was trained on, with its split.

    Raises:
        RunError: The graph was made in memory, or is not what it was at training.
    """
    facts = read_run(path)["graph"]
    source, features_file = facts["source"], facts.get("features_file")
    if source is None:
        raise RunError(
            "The graph of this run was made in memory or read with options of its own; expected "
            "one that can be loaded again",
            hint="in Python, pass it to `NodeClassifier.load(path, graph=graph)`",
        )
    train, valid, test = read_split(path / SPLIT)
    graph = load_graph(source, features=features_file)
    # Not `with_split`: that is for people, and refuses a split that is empty.
    graph = dataclasses.replace(graph, train=train, valid=valid, test=test)
    # A fingerprint knows classes by their numbers only.
    same_classes = list(graph.class_names) == facts["class_names"]
    if not same_classes or graph.fingerprint() != facts["fingerprint"]:
        shown = f"`{source}`" + (f" with `{features_file}`" if features_file else "")
        raise RunError(
            f"{shown} is not the graph that the run was trained on; expected the same "
            f"{facts['nodes']:,} nodes, edges, {facts['features']:,} features and labels",
            hint="bring the old files back, train again, name it as another graph when predicting, "
            "or, if it was changed in Python before training, pass it to "
            "`NodeClassifier.load(path, graph=graph)`",
        )
    return graph
