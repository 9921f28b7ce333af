"""Presets: named defaults that fit the data, chosen by stated rules and recorded in the run.

A few labels on a small graph want strong dropout, weight decay and a shallow model; hundreds of
thousands of labels want the wide and deep models of the papers. Each preset is a TOML file beside
this one. Its `[for.NAME]` tables hold what an encoder or a regularizer wants different.

| preset | chosen when |
| --- | --- |
| `few-labels` | at most 100 training nodes per class on average |
| `some-labels` | more, but fewer than 20,000 training nodes in all |
| `many-labels` | at least 20,000 training nodes |
| `typed-few-labels` | several types of nodes or relations, fewer than 20,000 training nodes |
| `typed-many-labels` | several types of nodes or relations, at least 20,000 training nodes |
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any

from scr.errors import ConfigError

FEW_PER_CLASS = 100
MANY_IN_ALL = 20_000
PRESETS = (
    "few-labels", "some-labels", "many-labels", "typed-few-labels", "typed-many-labels"
)  # fmt: skip


@dataclass(frozen=True)
class GraphFacts:
    """What the choice of a preset looks at; never a validation or test label."""

    nodes: int
    train: int
    classes: int
    reduced: bool = False
    """Whether the features are so wide and sparse that they will be reduced."""
    types: int = 1
    """Types of nodes."""
    relations: int = 1
    """Kinds of edges."""
    multilabel: bool = False
    """Whether nodes have several yes-or-no targets instead of one class."""


def choose_preset(facts: GraphFacts) -> tuple[str, str]:
    """The preset for a graph, and the sentence that says why."""
    if facts.types > 1 or facts.relations > 1:
        preset = "typed-many-labels" if facts.train >= MANY_IN_ALL else "typed-few-labels"
        return preset, (
            f"types of nodes: {facts.types}, relations: {facts.relations}, "
            f"{facts.train:,} training nodes"
        )
    per_class = facts.train / max(facts.classes, 1)
    labels = f"{facts.train:,} training nodes, {per_class:,.1f} per class"
    if facts.train >= MANY_IN_ALL:
        return "many-labels", f"{labels}: at least {MANY_IN_ALL:,}"
    if per_class > FEW_PER_CLASS:
        return "some-labels", f"{labels}: more than {FEW_PER_CLASS} per class"
    return "few-labels", f"{labels}: at most {FEW_PER_CLASS} per class"


def read_preset(name: str) -> dict[str, Any]:
    """The tables of one preset."""
    if name not in PRESETS:
        raise ConfigError("preset", name, f"`auto` or one of {', '.join(PRESETS)}")
    text = resources.files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
