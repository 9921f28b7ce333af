"""What commands that train share: settings from files and options, names, and a counted runner."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from scr import engines, experiments, networks, runs, storage, training
from scr.cli._console import counted
from scr.cli._ending import when_stopped
from scr.cli._replacing import replacing
from scr.config import parse_assignment, read_toml
from scr.errors import ConfigError, RunError

if TYPE_CHECKING:
    from scr.graph import Graph


class Layers(NamedTuple):
    """Where the settings of runs come from, lowest first."""

    preset: str
    tables: tuple[dict[str, Any], dict[str, Any]]
    """Of the recipe and of `--set`: in one, the recipe's `for` tables would win over `--set`."""

    def encoder(self, given: str | None) -> str:
        """The encoder that is asked for, else the recipe's, else `gamlp`."""
        name = given or str(training.merge(*self.tables).get("encoder", {}).get("name", "gamlp"))
        networks.encoder_class(name)
        return name


def read_layers(
    recipe: Path | None, settings: list[str] | None, preset: str, metric: str | None = None
) -> Layers:
    """The layers of the options `--recipe`, a file or a name, `--set`, `--preset` and `--metric`.

    A published recipe stands alone, unless a preset is asked for.
    """
    if metric is not None:
        settings = [*(settings or []), f"training.metric={metric}"]
    if recipe is None:
        return Layers(preset, ({}, assigned(settings)))
    from scr.recipes import read_recipe, settings_only

    is_file = recipe.exists() or recipe.suffix == ".toml" or len(recipe.parts) > 1
    tables = read_toml(recipe if is_file else read_recipe(str(recipe)).path)
    stands_alone = "published" in tables and preset == "auto"
    return Layers("none" if stands_alone else preset, (settings_only(tables), assigned(settings)))


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


def names(text: str) -> list[str]:
    """Split a list with commas.

    >>> names("ssgc, sign")
    ['ssgc', 'sign']
    """
    return [name.strip() for name in text.split(",") if name.strip()]


def shown_command() -> str:
    """The command as it can be typed again, for the record."""
    return shlex.join(["scr", *sys.argv[1:]])


def check_out(out: Path | None, *, overwrite: bool = False, finished: str = "") -> None:
    """Refuse a folder that cannot be written before any work is done.

    To replace one, it is the folder that holds it which is written to. One that has a `finished`
    file may stay as it is.
    """
    if out is None or (finished and not overwrite and (out / finished).is_file()):
        return
    storage.check_writable(out.resolve().parent if overwrite and out.is_dir() else out)


def check_out_file(out: Path | None) -> None:
    """The same of a file, whose folder must exist."""
    if out is None:
        return
    if not out.absolute().parent.is_dir():
        raise ConfigError("--out", str(out), "a file in a folder that exists")
    storage.check_writable(out.absolute().parent)


@contextmanager
def run_folder(out: Path, *, overwrite: bool, resume: bool) -> Iterator[Path]:
    """The folder that a run is written to: `out`, or a new one that replaces it in the end."""
    storage.discard_partial(out)
    if out.is_dir() and any(out.iterdir()) and not overwrite and not resume:
        raise RunError(
            f"The run directory `{out}` exists already; expected a new one",
            hint="choose another folder as `out`, continue the run with `--resume`, or replace it "
            "with `--overwrite`",
        )
    with replacing(
        out,
        overwrite=overwrite,
        check=runs.check_replaced_run,
        resume=resume,
        finished=runs.METRICS,
    ) as folder:
        yield folder


@contextmanager
def result_folder(out: Path, result: str, of: Graph | str, *, overwrite: bool) -> Iterator[Path]:
    """The folder that an experiment writes to: `out`, or a new one that replaces it in the end.

    Runs in it are used again; a `result` of another graph, or of another recipe, is not replaced
    without `--overwrite`.
    """
    storage.discard_partial(out)
    if (out / runs.RUN).exists():
        raise RunError(
            f"`{out}` is a run directory; expected a folder of its own for the result",
            hint="choose another folder as `out`",
        )
    if (out / result).exists() and not overwrite:
        before = runs.read_json(out / result, {"graph?": dict})
        graph = before.get("graph", {})
        if isinstance(of, str):
            is_same, whose = before.get("recipe") == of, f"the recipe {before.get('recipe')}"
        else:
            is_same, whose = graph.get("fingerprint") == of.fingerprint(), "another graph"
        if not is_same:
            raise RunError(
                f"`{out / result}` exists already and is of {whose}; expected a new folder",
                hint="choose another folder as `out`, or replace it with `--overwrite`",
            )
    with replacing(
        out, overwrite=overwrite, check=runs.check_replaced_results, resume=True, finished=result
    ) as folder:
        yield folder


@contextmanager
def running(
    title: str,
    graph: Graph,
    out: Path | None,
    *,
    splits: str | None,
    jobs: int,
    engine: str = "local",
    address: str | None = None,
    seeds: int | None = None,
    extra: int = 0,
) -> Iterator[experiments.Runner]:
    """A runner whose finished runs are counted on a bar, and named as kept after a Ctrl-C.

    Of so many `seeds`, a split that is missing for the last is an error before any run. The command
    counts `extra` runs itself, by `on_run`.
    """
    if seeds is not None:
        experiments.Runner(graph, splits).graph_of(seeds - 1)
    again = f"Continue with the same command: {shown_command()}"
    kept = "no runs are kept" if out is None else f"finished runs are kept in {out}"
    stopped = f"Stopped; {kept}. {again}"
    with (
        when_stopped(stopped),
        engines.open_engine(engine, address, jobs=jobs) as opened,
        counted(title) as show,
    ):

        def on_run(run: Mapping[str, Any]) -> None:
            show(advance=1, state=f"{run['encoder']} {run['regularizer']} seed {run['seed']}")

        yield experiments.Runner(
            graph, splits, out=out, engine=opened, command=shown_command(), on_run=on_run,
            on_plan=lambda runs: show(total=runs + extra),
        )  # fmt: skip
