"""Settings that are tried on every graph, the most promising first.

Their order was learned from other graphs (benchmarks/portfolio.py): each next one is the one with
which the pick by held-out labels gains most, as in AutoGluon's zero-shot portfolios
(Salinas and Erickson 2023, arXiv:2311.02971). Each is laid over what `encoder="auto"` chooses.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from scr.encoders import HopBatch
from scr.errors import ConfigError, PairError
from scr.graph import Graph
from scr.networks import encoder_class
from scr.training import Recipe, choose, graph_facts, merge, resolve

PLAIN, TYPED = "portfolio.toml", "typed_portfolio.toml"
MOST_COUPLED = 50_000
"""Nodes up to which encoders that read the whole graph in every step are tried."""
ALONE = {"consistency": {"trust": "measured"}, "postprocess": {"calibrate": "none"}}
"""Below all members: the ensemble weighs them against each other and is calibrated as a whole."""


@dataclass(frozen=True)
class Member:
    """Settings under a name."""

    name: str
    recipe: Recipe
    handicap: float = 0.0
    """By how much held-out labels overrate it, as an accuracy. They are often drawn class by class,
    and do not see what others gain where classes are of different size."""


def read_portfolio(*, typed: bool) -> dict[str, dict[str, Any]]:
    """The tables of all members by name, in their order."""
    file = resources.files(__package__).joinpath(TYPED if typed else PLAIN)
    return tomllib.loads(file.read_text(encoding="utf-8"))


def portfolio(
    graph: Graph,
    *,
    layers: Sequence[Mapping[str, Any]] = (),
    regularizer: str | None = None,
    preset: str = "auto",
    tables: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Member]:
    """What is tried on a graph, in this order.

    Args:
        graph: A look at its labels decides what the members have in common.
        layers: Settings of the user, which all members keep.
        regularizer: The only one, if it is named.
        preset: As of `NodeClassifier`.
        tables: Another portfolio than the one that comes with the package.
    """
    is_typed = graph.is_typed or len(graph.relations) > 1
    tables = read_portfolio(typed=is_typed) if tables is None else tables
    choice = choose(graph)
    members: dict[str, Member] = {}
    for name, table in tables.items():
        settings = {key: value for key, value in table.items() if key != "handicap"}
        try:
            recipe = resolve(
                graph_facts(graph, choice),
                regularizer=regularizer,
                layers=[ALONE, _below(settings, layers), *layers],
                preset=preset,
                choice=choice,
            )
        except (ConfigError, PairError):
            if name == next(iter(tables)):
                raise  # the user's own settings are wrong
            continue  # they do not go with this member
        is_coupled = encoder_class(recipe.encoder).batch_kind is not HopBatch
        if is_coupled and graph.num_nodes > MOST_COUPLED:
            continue
        same = json.dumps(recipe.tables(), sort_keys=True, default=str)
        members.setdefault(same, Member(name, recipe, float(table.get("handicap", 0))))
    return list(members.values())


def _below(tables: Mapping[str, Any], layers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A member's settings under the user's: those of another encoder than the user's are left."""
    named = merge(*layers).get("encoder", {}).get("name")
    below = dict(tables)
    if named and below.get("encoder", {}).get("name", named) != named:
        below.pop("encoder")
    return below
