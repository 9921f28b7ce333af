"""Which nodes to label next, in words that say why.

A node is worth a label where the model hesitates and where it stands for many nodes that are alike;
`_groups.py` has the rule. Nodes with a known label, of whatever split, are never suggested.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from scr import runs
from scr.errors import ConfigError, GraphError
from scr.graph import Graph, known_labels
from scr.prediction._groups import Groups, directions, group
from scr.prediction._other_graphs import Nodes
from scr.prediction._table_writers import neutral
from scr.report import csv_text
from scr.storage import write_bytes
from scr.training import Rows

if TYPE_CHECKING:
    from scr.prediction._predictor import Predictor

MOST_NODES = 10_000
"""Unlabeled nodes that are looked at: of more, so many are drawn."""
MOST_VALUES = 2**25
"""Of the rows of these nodes, 256 MB: of very wide rows, fewer are drawn."""
ROWS_AT_ONCE = 2_048
"""Whose hops are averaged in one go."""
SHOWN = 10
"""Of the page of a run."""
CLOSE = 0.5
"""The second class is named where it is at least so likely, beside the first."""
PROBABLE = 0.6
"""From which probability a class is called probable, where no other is close."""


class Suggestion(NamedTuple):
    """A node whose label would help; `pandas.DataFrame(suggestions)` is a table of them."""

    node: int
    """Its number in the graph."""
    id: int | str
    """The user's own name of it; its number where there are none."""
    prediction: str
    confidence: float
    """The probability of the prediction."""
    score: float
    """Share of all that the model is unsure of that lies in the group which it stands for."""
    why: str


def doubt(probabilities: NDArray[Any]) -> NDArray[np.float64]:
    """How unsure a model is of each node: 1 minus the lead of the likeliest class.

    >>> doubt(np.array([[0.5, 0.5], [1.0, 0.0]])).tolist()
    [1.0, 0.0]
    """
    if probabilities.shape[1] < 2:
        return np.zeros(len(probabilities))
    second, first = np.sort(probabilities.astype(np.float64), axis=1)[:, -2:].T
    return np.asarray(1 - (first - second))


def suggest(predictor: Predictor, count: int = 20) -> list[Suggestion]:
    """Unlabeled nodes whose labels would help most, the most useful first.

    Args:
        predictor: A trained model with its graph.
        count: How many; fewer where fewer nodes are unlabeled.

    Raises:
        GraphError: Every node that can be predicted has a label.
    """
    if count < 1:
        raise ConfigError("count", count, "a number of 1 or more")
    if predictor.model.multilabel:
        raise GraphError(
            "Nodes to label next are chosen by one class per node; the model has several targets "
            "per node"
        )
    generator = np.random.default_rng(predictor.model.seed)
    unlabeled = _unlabeled(predictor)
    if len(unlabeled) == 0:
        raise GraphError(
            "Every node that the model predicts has a label; expected some without one",
            hint="leave the label of a node empty, or -1, where it is not known",
        )
    most = min(MOST_NODES, max(1, MOST_VALUES // predictor.rows(None, None).shape.features))
    pool = _some(unlabeled, most, generator)
    probabilities = predictor.probabilities(pool, None)
    found = group(directions(_compared(predictor, pool)), doubt(probabilities), count)
    share = len(pool) / len(unlabeled)
    return _described(predictor.graph, pool[found.order], probabilities[found.order], found, share)


def write_suggestions(
    path: Path, suggestions: list[Suggestion], *, spreadsheet_safe: bool = False
) -> None:
    """Write a CSV file, whole or not at all; `spreadsheet_safe` as of `write_predictions`."""
    columns = Suggestion._fields[1:]
    rows = [[getattr(each, name) for name in columns] for each in suggestions]
    if spreadsheet_safe:
        rows = [[neutral(cell) for cell in row] for row in rows]
    write_bytes(path, csv_text(columns, rows, quoted=spreadsheet_safe).encode())


def write_run_suggestions(path: Path, predictor: Predictor) -> None:
    """Write `suggestions.json` of a run, which its page shows, if some nodes have no label."""
    if len(_unlabeled(predictor)):
        nodes = [each._asdict() for each in suggest(predictor, SHOWN)]
        runs.write_json(path / runs.SUGGESTIONS, {"nodes": nodes})


def _unlabeled(predictor: Predictor) -> Nodes:
    """Nodes that can be predicted and have no label."""
    labels = np.asarray(predictor.graph.labels)
    predicted, _ = predictor.answers(None, None)
    if predicted is None:
        return np.flatnonzero(~known_labels(labels))
    return predicted[~known_labels(labels[predicted])]


def _some(nodes: Nodes, most: int, generator: np.random.Generator) -> Nodes:
    if len(nodes) <= most:
        return nodes
    return np.sort(generator.choice(nodes, most, replace=False))


def _compared(predictor: Predictor, nodes: Nodes) -> NDArray[Any]:
    """What nodes are compared by: the mean of their hops, or, without hops, their predictions."""
    rows = predictor.rows(None, nodes)
    if not isinstance(rows, Rows):
        return np.sqrt(predictor.probabilities(nodes, None))
    parts = torch.from_numpy(nodes).split(ROWS_AT_ONCE)
    return np.concatenate([rows.read(part).hops.float().mean(dim=1).numpy() for part in parts])


def _described(
    graph: Graph, nodes: Nodes, probabilities: NDArray[np.float32], found: Groups, share: float
) -> list[Suggestion]:
    names = graph.class_names
    ids = nodes if graph.ids is None else np.asarray(graph.ids[nodes])
    suggestions = []
    for rank, (node, likely) in enumerate(zip(nodes.tolist(), probabilities, strict=True)):
        reasons = [
            _hesitation(likely, names),
            _alike(int(found.sizes[rank]) - 1, share),
            _neighbors(graph, node),
        ]
        suggestions.append(
            Suggestion(
                node, ids[rank].item(), names[int(likely.argmax())], round(float(likely.max()), 4),
                round(float(found.shares[rank]), 6), ", ".join(filter(None, reasons)),
            )
        )  # fmt: skip
    return suggestions


def _hesitation(likely: NDArray[np.float32], names: tuple[str, ...]) -> str:
    order = np.argsort(-likely, kind="stable")
    shown = [f"{names[each]} ({100 * likely[each]:.0f}%)" for each in order[:2].tolist()]
    if len(shown) > 1 and likely[order[1]] >= CLOSE * likely[order[0]]:
        return f"unsure between {shown[0]} and {shown[1]}"
    return f"{'probably' if likely[order[0]] > PROBABLE else 'perhaps'} {shown[0]}"


def _alike(others: int, share: float) -> str:
    """How many unlabeled nodes a node stands for, of which a share was looked at."""
    if others < 1:
        return ""
    count = f"about {others / share:,.0f}" if share < 1 else f"{others:,}"
    return f"stands for {count} unlabeled node{'' if count == '1' else 's'} like it"


def _neighbors(graph: Graph, node: int) -> str:
    """How many neighbors have a label; nothing where edges have types or directions."""
    if graph.is_typed or graph.directed:
        return ""
    neighbors = np.asarray(graph.indices[graph.indptr[node] : graph.indptr[node + 1]])
    neighbors = neighbors[neighbors != node]
    labeled = int(known_labels(np.asarray(graph.labels[neighbors])).sum())
    if len(neighbors) == 0:
        return "no neighbors"
    if len(neighbors) == 1:
        return f"its neighbor has {'a' if labeled else 'no'} label"
    verb = "have" if labeled > 1 else "has"
    return f"{labeled or 'none'} of its {len(neighbors):,} neighbors {verb} a label"
