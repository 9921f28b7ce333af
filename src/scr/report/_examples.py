"""Example nodes for people to look at, chosen by rule and not by hand.

Where two models disagree, a reader wants to see both kinds: nodes that the second model put right
and nodes that it got wrong. Beside them stands a plain random sample, so that the page does not
only show the exceptions. How many nodes each group was drawn from is always said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Answer:
    """What one model says about one node."""

    model: str
    prediction: str
    confidence: float


@dataclass(frozen=True, eq=False)
class Example:
    """One node with the answers of one or more models."""

    id: str
    label: str
    answers: tuple[Answer, ...]
    image: NDArray[Any] | None
    """Pixels, (height, width), dark where large; None for nodes that are not images."""


@dataclass(frozen=True, eq=False)
class ExampleGroup:
    """Examples of one kind, with a sentence that says which and out of how many."""

    title: str
    examples: tuple[Example, ...]
    note: str


def choose_examples(
    labels: ArrayLike,
    probabilities: Mapping[str, ArrayLike],
    *,
    nodes: ArrayLike | None = None,
    images: ArrayLike | None = None,
    ids: Sequence[object] | None = None,
    class_names: Sequence[str] | None = None,
    count: int = 8,
    seed: int = 0,
) -> list[ExampleGroup]:
    """Draw example nodes: put right, got wrong (by the last model), and a random sample.

    Args:
        labels: Class per node, -1 where unknown. Shape (nodes,).
        probabilities: Per model, in order, an array of shape (nodes, classes); the first model
            is the base, the last one the model to show.
        nodes: Nodes to draw from, usually the test nodes; those without a label are left out.
        images: Pixels per node, (nodes, height, width) or (nodes, side * side).
        ids: The user's ids; node numbers if not given.
        class_names: Names of the classes; their numbers if not given.
        count: Most examples per group.
        seed: Of the draw.
    """
    truth = np.asarray(labels)
    pool = np.arange(len(truth)) if nodes is None else np.asarray(nodes)
    pool = pool[truth[pool] >= 0]
    arrays = {name: np.asarray(values) for name, values in probabilities.items()}
    pixels = None if images is None else np.asarray(images)
    if pixels is not None and pixels.ndim == 2:
        side = round(pixels.shape[1] ** 0.5)
        pixels = pixels.reshape(-1, side, side)

    def name_of(label: int) -> str:
        return str(label) if class_names is None else class_names[label]

    def example(node: int) -> Example:
        answers = tuple(
            Answer(model, name_of(int(rows[node].argmax())), float(rows[node].max()))
            for model, rows in arrays.items()
        )
        return Example(
            id=str(node if ids is None else ids[node]), label=name_of(int(truth[node])),
            answers=answers, image=None if pixels is None else pixels[node],
        )  # fmt: skip

    generator = np.random.default_rng(seed)

    def group(title: str, candidates: NDArray[Any], kind: str) -> ExampleGroup:
        drawn = generator.permutation(candidates)[:count]
        note = f"{len(drawn)} of {len(candidates):,} {kind}, drawn at random."
        return ExampleGroup(title, tuple(example(int(node)) for node in drawn), note)

    right = {name: rows[pool].argmax(axis=1) == truth[pool] for name, rows in arrays.items()}
    base, last = next(iter(arrays)), list(arrays)[-1]
    groups = []
    if base != last:
        fixed, broken = pool[~right[base] & right[last]], pool[right[base] & ~right[last]]
        groups = [
            group(f"Put right by {last}", fixed, f"nodes that {base} got wrong and {last} right"),
            group(f"Got wrong by {last}", broken, f"nodes that {base} got right and {last} wrong"),
        ]
    groups.append(group("A random sample", pool, "nodes"))
    return [each for each in groups if each.examples]
