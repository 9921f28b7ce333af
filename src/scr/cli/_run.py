"""What commands that train share: settings from files and options, names, and a counted runner."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from scr.cli._console import console
from scr.cli._progress import counted
from scr.config import parse_assignment, read_toml
from scr.errors import ConfigError

if TYPE_CHECKING:
    from scr.experiments import Runner
    from scr.graph import Graph

INTERRUPTED = 130
"""Exit code of a command that was stopped from the keyboard, as shells have it."""


def recipe_layers(
    recipe: Path | None, settings: list[str] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A recipe, by file or by name, and what `--set` lays over it.

    They stay two layers: in one, the recipe's `for` tables would win over `--set`.
    """
    if recipe is None:
        return {}, assigned(settings)
    from scr.recipes import settings_only

    return settings_only(read_toml(_recipe_file(recipe))), assigned(settings)


def assigned(settings: list[str] | None) -> dict[str, Any]:
    """The tables of `--set section.key=value`, repeated."""
    tables: dict[str, Any] = {}
    for text in settings or []:
        section, key, value = parse_assignment(text)
        tables[section] = {**tables.get(section, {}), key: value}
    return tables


def section_settings(settings: list[str] | None, section: str, example: str) -> dict[str, Any]:
    """What `--set` assigns in one section, the only one that a command reads."""
    for text in settings or []:
        if parse_assignment(text)[0] != section:
            raise ConfigError("--set", text, f"a setting of `{section}`, such as `{example}`")
    return dict(assigned(settings).get(section, {}))


def preset_below(recipe: Path | None, preset: str) -> str:
    """The preset to lay a recipe over: a published one stands alone, unless one is asked for."""
    published = recipe is not None and "published" in read_toml(_recipe_file(recipe))
    return "none" if published and preset == "auto" else preset


def _recipe_file(recipe: Path) -> Path:
    """The file given, or the file of the published recipe of this name."""
    if recipe.exists() or recipe.suffix == ".toml" or len(recipe.parts) > 1:
        return recipe
    from scr.recipes import read_recipe

    return read_recipe(str(recipe)).path


def chosen_encoder(encoder: str | None, layers: Sequence[dict[str, Any]]) -> str:
    """The encoder that is asked for, else the recipe's, else `gamlp`."""
    from scr.networks import encoder_class
    from scr.training import merge

    name = encoder or str(merge(*layers).get("encoder", {}).get("name", "gamlp"))
    encoder_class(name)
    return name


def names(text: str) -> list[str]:
    """Split a list with commas.

    >>> names("ssgc, sign")
    ['ssgc', 'sign']
    """
    return [name.strip() for name in text.split(",") if name.strip()]


def shown_command() -> str:
    """The command as it can be typed again, for the record."""
    return shlex.join(["scr", *sys.argv[1:]])


@contextmanager
def running(
    title: str,
    graph: Graph,
    out: Path,
    *,
    splits: str | None,
    jobs: int,
    seeds: int | None = None,
    extra: int = 0,
) -> Iterator[Runner]:
    """A runner whose finished runs are counted on a bar, and named as kept after a Ctrl-C.

    Args:
        title: What is being done, such as `Sweeping`.
        graph: Of all runs.
        out: Folder of the result.
        splits: A splits file or rule.
        jobs: Processes.
        seeds: How many; a split that is missing for the last one is an error before any run.
        extra: Runs that the command counts itself, by `on_run`.
    """
    from scr.experiments import Runner

    if seeds is not None:
        Runner(graph, splits).graph_of(seeds - 1)
    try:
        with counted(title) as bar:
            yield Runner(
                graph,
                splits,
                out=out,
                jobs=jobs,
                on_plan=lambda runs: bar.expect(runs + extra),
                on_run=bar.finish,
                command=shown_command(),
            )
    except KeyboardInterrupt:
        console.print(
            f"Stopped; finished runs are kept in {out}. Continue with the same command: "
            f"{shown_command()}",
            soft_wrap=True,
        )
        raise typer.Exit(INTERRUPTED) from None
