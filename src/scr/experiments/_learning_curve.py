"""Learning curve: accuracy against labels per class, from the labels that a user has.

In each repeat the same number of training labels is drawn from each class, and smaller draws are
part of larger ones. Accuracy is measured on known labels that neither train nor choose an
epoch, the same for all numbers of labels in a repeat: half of the validation nodes, whose other
half chooses the epoch. Without enough of these, a quarter of all known labels is held out for each.
Labels of test nodes are not read unless asked for.

Settings are chosen once in each repeat, with all training labels and never with those that are
measured on. No run refits, since a refit trains on validation labels too, as many at every point.

Reads a graph, writes `learning_curve.json`, a table, a picture and a page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr import report
from scr.classifier import NodeClassifier
from scr.consistency import REGULARIZERS
from scr.errors import ConfigError, GraphError
from scr.experiments._runner import Runner, Task, with_task_split
from scr.graph import Graph, Split
from scr.report.page import learning_curve_page, write_page
from scr.report.plots import learning_curves
from scr.storage import write_bytes

CURVE_JSON, TABLE = "learning_curve.json", "learning_curve.csv"
CURVE_PAGE, CURVE_PICTURE = "report.html", "learning_curve.png"
MOST_SIZES = 5
"""Numbers of labels that are tried if none are given."""
PARTS = 4
"""Of all known labels where too few validate: one chooses epochs, one is measured on."""
FEWEST_VALID = 4
"""Validation labels per class from which they are enough to be halved."""
NO_REFIT = {"training": {"refit": False}}
"""Over the recipe: only the labels that a point counts may train."""

Nodes = NDArray[np.int64]


def plan_learning_curve(
    graph: Graph,
    *,
    labels: Sequence[int] | None = None,
    encoder: str = "auto",
    regularizer: str = "scr",
    seeds: Sequence[int] = range(5),
    layers: Sequence[Mapping[str, Any]] = (),
    preset: str = "auto",
    on_test: bool = False,
) -> list[Task]:
    """All numbers of labels with and without the regularizer.

    Args:
        graph: With labels and a split.
        labels: Training labels per class; none: halved from what a typical class has.
        encoder: As of `NodeClassifier`.
        regularizer: What is compared with the base.
        seeds: One repeat each.
        layers: Recipe tables; later ones win. `training.refit` is always off.
        preset: A preset's name, or ``"auto"``.
        on_test: Measure on test labels, and choose epochs by all validation nodes.
    """
    if regularizer == report.BASE or regularizer not in REGULARIZERS:
        known = ", ".join(name for name in REGULARIZERS if name != report.BASE)
        raise ConfigError("regularizer", regularizer, f"one of {known}")
    if graph.is_multilabel:
        raise GraphError(
            "A learning curve needs one class per node; the graph has several targets per node"
        )
    truth = np.asarray(graph.labels)
    splits = {seed: held_out_split(graph, seed, on_test=on_test) for seed in seeds}
    first = next(iter(splits.values()))
    sizes = curve_sizes(np.bincount(truth[first.train], minlength=graph.num_classes), labels)
    tables = [*(dict(each) for each in layers), NO_REFIT]
    tasks = []
    for seed, split in splits.items():
        whole = with_task_split(graph, split)
        recipes = {
            name: NodeClassifier(encoder, name, seed=seed, preset=preset, recipe=tables).resolve(
                whole
            )
            for name in (report.BASE, regularizer)
        }
        for size in sizes:
            train = first_of_each_class(split.train, truth, size, seed)
            for name, recipe in recipes.items():
                tasks.append(
                    Task(
                        recipe.encoder, name, seed, (recipe.tables(),), "none",
                        split=split._replace(train=train),
                        labels={"labels_per_class": size, "train_labels": len(train)},
                    )
                )  # fmt: skip
    return tasks


def learning_curve(
    graph: Graph,
    tasks: Sequence[Task] | None = None,
    *,
    runner: Runner | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Accuracy against labels per class, with and without a regularizer.

    Args:
        graph: With labels and a split.
        tasks: From `plan_learning_curve`; none: planned with `settings`.
        runner: Where runs are kept, and how many processes run them; none: nothing is kept.
        **settings: Of `plan_learning_curve`, such as ``labels=[5, 10, 20]``.

    Returns:
        The content of `learning_curve.json`: `curve`, one entry per number of labels, `last_step`,
        `sentences`, `runs`.
    """
    runner = runner or Runner(graph)
    planned = list(tasks) if tasks is not None else plan_learning_curve(graph, **settings)
    runs = runner.run(planned)
    first = planned[0].split
    assert first is not None
    regularizer = next(task.regularizer for task in planned if task.regularizer != report.BASE)
    is_test = np.array_equal(first.test, _labeled(graph, graph.test))
    curve, step = report.curve_points(runs), report.last_step(runs)
    content = {
        "encoder": ", ".join(dict.fromkeys(task.encoder for task in planned)),
        "regularizer": regularizer,
        "measured_on": "test labels" if is_test else "held-out known labels",
        "measured_nodes": len(first.test),
        "curve": curve,
        "last_step": step,
        "sentences": report.curve_sentences(
            curve, step, regularizer, len(first.test), report.inactive_runs(runs)
        ),
        "runs": runs,
    }
    result, out = runner.result(CURVE_JSON, content), runner.out
    if out is not None:
        write_bytes(out / TABLE, report.curve_csv(curve).encode())
        write_bytes(out / CURVE_PICTURE, learning_curves(curve, regularizer, file_format="png"))
        write_page(out / CURVE_PAGE, learning_curve_page(result))
    return result


def held_out_split(graph: Graph, seed: int, *, on_test: bool = False) -> Split:
    """Labels to draw from, to choose epochs by, and to measure on, as a split."""
    train, valid, test = (
        _labeled(graph, nodes) for nodes in (graph.train, graph.valid, graph.test)
    )
    if len(train) == 0:
        raise GraphError(
            f"The graph `{graph.name}` has no labeled training nodes; expected a split with some",
            hint="give `splits=random:0.5,0.5`",
        )
    truth = np.asarray(graph.labels)
    if on_test:
        if len(test) == 0:
            raise GraphError(
                f"The graph `{graph.name}` has no labeled test nodes; expected some to measure on",
                hint="leave them out: known labels are then held out",
            )
        return Split(train, valid, test)
    if len(valid) >= FEWEST_VALID * len(np.unique(truth[train])):
        half = parts_by_class(truth[valid], 2, seed)
        return Split(train, valid[half == 0], valid[half == 1])
    known = np.union1d(train, valid)
    part = parts_by_class(truth[known], PARTS, seed)
    split = Split(known[part > 1], known[part == 0], known[part == 1])
    if min(map(len, split)) == 0 or len(np.unique(truth[split.train])) < 2:
        raise GraphError(
            f"The graph `{graph.name}` has {len(known)} known labels; expected {PARTS} or more of "
            "two classes at least, to hold some out"
        )
    return split


def _labeled(graph: Graph, nodes: Nodes) -> Nodes:
    nodes = np.asarray(nodes)
    return nodes[np.asarray(graph.labels[nodes]) >= 0]


def parts_by_class(labels: NDArray[Any], parts: int, seed: int) -> Nodes:
    """A part for each label, so that each part has its share of every class."""
    order = _shuffled_by_class(labels, seed)
    part = np.empty(len(labels), dtype=np.int64)
    # Parts of training come last in turn, and first in a class of a single label.
    part[order] = parts - 1 - np.arange(len(labels)) % parts
    return part


def first_of_each_class(nodes: Nodes, truth: NDArray[Any], count: int, seed: int) -> Nodes:
    """So many nodes of each class, or all of a smaller one; more of them hold fewer of them."""
    labels = truth[nodes]
    order = _shuffled_by_class(labels, seed)
    ordered = labels[order]
    starts = np.searchsorted(ordered, ordered)  # of each label's class in the order
    return np.sort(nodes[order[np.arange(len(order)) - starts < count]])


def _shuffled_by_class(labels: NDArray[Any], seed: int) -> Nodes:
    """Positions sorted by class, shuffled within each."""
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    return shuffled[np.argsort(labels[shuffled], kind="stable")]


def curve_sizes(counts: NDArray[np.int64], given: Sequence[int] | None = None) -> list[int]:
    """Numbers of labels per class to try, ascending.

    >>> curve_sizes(np.array([20, 20, 7]))
    [1, 2, 5, 10, 20]
    """
    present = counts[counts > 0]
    if given is not None:
        sizes = sorted(set(given))
        if not sizes or sizes[0] < 1:
            raise ConfigError("labels", ",".join(map(str, given)), "numbers of 1 or more")
        if sizes[-1] > present.max():
            raise ConfigError(
                "labels", sizes[-1],
                f"at most {present.max()}, the training labels of the largest class",
            )  # fmt: skip
        return sizes
    sizes = [max(1, int(np.median(present)))]
    while sizes[-1] > 1 and len(sizes) < MOST_SIZES:
        sizes.append(sizes[-1] // 2)
    return sizes[::-1]
