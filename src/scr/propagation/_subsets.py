"""Subsets of relations, over each of which features are propagated on their own.

A subset is a tuple of relations in the order of the graph. Its edges count both ways and all alike:
one graph of its own, over all nodes, whose hops tell what a target node sees through just these
relations. An encoder learns how to mix the subsets.

Paper: Yu et al. 2020, "Scalable Graph Neural Networks for Heterogeneous Graphs" (NARS),
arXiv:2011.09679.
"""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scr.errors import ConfigError, GraphError, SourceError
from scr.graph import Relation, find_relation
from scr.propagation._config import PropagationConfig

if TYPE_CHECKING:
    from scr.graph import Graph

Subset = tuple[Relation, ...]

SINGLE, ALL = "single", "all"
_SEPARATORS = re.compile(r"[\s,]+")


def choose_subsets(graph: Graph, config: PropagationConfig) -> tuple[Subset, ...]:
    """The subsets that `config.subsets` and `config.subset_seed` ask for."""
    if isinstance(config.subsets, int):
        count = config.subsets
        if count == PropagationConfig.subsets:
            # Nobody asked for just as many: a graph of few relations has fewer, and that is fine.
            count = min(count, count_subsets(graph))
        return draw_subsets(graph, count, config.subset_seed)
    if config.subsets == SINGLE:
        return single_relations(graph)
    if config.subsets == ALL:
        return as_subsets(graph, [graph.relations])
    return read_subsets(config.subsets, graph)


def count_subsets(graph: Graph) -> int:
    """Subsets with a relation that touches the target type."""
    away = sum(not _touches(graph, each) for each in graph.relations)
    return int(2 ** len(graph.relations) - 2**away)


def draw_subsets(graph: Graph, count: int, seed: int = 0) -> tuple[Subset, ...]:
    """Draw distinct subsets: each relation is in or out with chance 1/2.

    Only subsets with a relation that touches the target type are taken. Where there are no more
    than asked for, all of them are returned, small numbers of relations first; where there are
    fewer, with a warning.
    """
    relations, there = graph.relations, count_subsets(graph)
    if there <= count:
        if there < count:
            warnings.warn(
                f"The graph has {there} subsets of relations that touch `{graph.target}`, "
                f"{count} were asked for: all of them are taken",
                stacklevel=2,
            )
        sizes = range(1, len(relations) + 1)
        every = (some for size in sizes for some in itertools.combinations(relations, size))
        return tuple(some for some in every if any(_touches(graph, each) for each in some))
    touching = np.array([_touches(graph, each) for each in relations])
    generator = np.random.default_rng(seed)
    drawn: dict[Subset, None] = {}
    while len(drawn) < count:
        inside = generator.random(len(relations)) < 0.5
        if (inside & touching).any():
            drawn[tuple(itertools.compress(relations, inside))] = None
    return tuple(drawn)


def single_relations(graph: Graph) -> tuple[Subset, ...]:
    """Every relation alone, in the order of the graph.

    A relation that does not touch the target type brings nothing to it alone: it is joined with the
    shortest chain of relations from there (the earlier relation where several are as short). One
    that no chain reaches is left out, with a warning.
    """
    chains = _chains(graph)
    subsets = []
    for relation in graph.relations:
        near = [chains[end] for end in (relation.source, relation.target) if end in chains]
        if not near:
            warnings.warn(
                f"No chain of relations leads from `{graph.target}` to {relation}: "
                "it is left out of the subsets",
                stacklevel=2,
            )
            continue
        chain = {relation, *min(near, key=len)}
        subsets.append(tuple(each for each in graph.relations if each in chain))
    return tuple(subsets)


def read_subsets(path: str | Path, graph: Graph) -> tuple[Subset, ...]:
    """Read a file with one subset per line: names of relations between spaces or commas.

    What follows `#` is a comment. A name is as `find_relation` takes it.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        if isinstance(error, FileNotFoundError):
            reason = "does not exist"
        raise SourceError(
            f"`{path}` {reason}; expected a file with one subset of relations per line",
            hint="subsets are a number, `single`, `all`, or such a file",
        ) from None
    listed: dict[Subset, None] = {}
    for number, line in enumerate(text.splitlines(), 1):
        names = _names(line.partition("#")[0])
        if not names:
            continue
        try:
            subset = _subset(graph, names)
        except GraphError as error:
            raise SourceError(
                f"Line {number} of `{path}`: {error.message}", hint=error.hint
            ) from None
        if subset in listed:
            repeated = f"Line {number} of `{path}` repeats a subset: it counts once"
            warnings.warn(repeated, stacklevel=2)
        elif any(_touches(graph, each) for each in subset):
            _warn_of_useless(graph, subset, f"Line {number} of `{path}`")
        listed[subset] = None
    if not listed:
        raise SourceError(
            f"`{path}` names no subset; expected relations of the graph, one subset per line",
            hint=f"the relations are {', '.join(map(str, graph.relations))}",
        )
    return as_subsets(graph, listed)


def as_subsets(graph: Graph, subsets: Iterable[Any]) -> tuple[Subset, ...]:
    """Check subsets that were given in any form that names relations.

    Args:
        graph: The relations are of this graph.
        subsets: Each a line as in a file, or a list of names, triples or relations.
    """
    if isinstance(subsets, (str, int)):
        raise ConfigError(
            "subsets", subsets, "a list of subsets, each a list of relations",
            hint="`scr.propagation.choose_subsets` makes one",
        )  # fmt: skip
    made = tuple(
        _subset(graph, _names(each) if isinstance(each, str) else each) for each in subsets
    )
    if not made:
        raise ConfigError("subsets", [], "at least one subset of relations")
    for subset in made:
        if not any(_touches(graph, each) for each in subset):
            near = ", ".join(str(each) for each in graph.relations if _touches(graph, each))
            raise GraphError(
                f"The subset `{' '.join(map(str, subset))}` never reaches the target type "
                f"`{graph.target}`; expected a relation that has it as source or target",
                hint=f"add one of {near}",
            )
    return made


def _subset(graph: Graph, names: Iterable[Any]) -> Subset:
    found = {find_relation(graph.relations, name) for name in names}
    return tuple(graph.relations[number] for number in sorted(found))


def _names(line: str) -> list[str]:
    return [name for name in _SEPARATORS.split(line) if name]


def _warn_of_useless(graph: Graph, subset: Subset, where: str) -> None:
    reached = _chains(graph, subset)
    useless = [str(each) for each in subset if each.source not in reached]
    if useless:
        warnings.warn(
            f"{where}: no relation of the subset leads from `{graph.target}` to "
            f"{', '.join(useless)}, so nothing comes from there",
            stacklevel=3,
        )


def _chains(graph: Graph, relations: Subset | None = None) -> dict[str, Subset]:
    """The shortest chain of relations, taken either way, from the target to each type reached."""
    relations = graph.relations if relations is None else relations
    chains: dict[str, Subset] = {graph.target: ()}
    waiting = [graph.target]
    for kind in waiting:
        for relation in relations:
            ends = relation.source, relation.target
            for here, there in (ends, ends[::-1]):
                if here == kind and there not in chains:
                    chains[there] = (*chains[kind], relation)
                    waiting.append(there)
    return chains


def _touches(graph: Graph, relation: Relation) -> bool:
    return graph.target in (relation.source, relation.target)
