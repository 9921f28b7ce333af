"""Sensitivity: accuracy over the values of one setting, for each regularizer and seed.

A sweep is the base (no regularizer) once, and for each setting every value with each regularizer
that reads it, of SCR and SCR-m if none are named. All else stays as the recipe has it. Tasks are
ordered so that those with the same propagation follow each other, and a worker keeps its hops;
settings of the consistency term never change them. Every finished run is kept in `runs.jsonl`, as
in a comparison.

Reads a graph, writes `sweep.json`, `sweep.csv`, one picture per setting, one of all, and a page.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from scr.consistency import ConsistencyConfig, settings_of
from scr.errors import ConfigError
from scr.experiments._compare import Comparison, Task, run_tasks
from scr.report import (
    BASE,
    number_or_none,
    summarize,
    sweep_cautions,
    sweep_csv,
    sweep_curves,
    sweep_headline,
    sweep_sentences,
)
from scr.report.page import sweep_page, write_page
from scr.report.plots import sensitivity_curves, sensitivity_overview
from scr.runs import versions, write_json
from scr.storage import write_bytes
from scr.training import SECTIONS, check_regularizer

SWEEP_JSON, TABLE, SWEEP_PAGE, SWEEP_PICTURE = "sweep.json", "sweep.csv", "report.html", "sweep.png"

DEFAULT_VALUES: dict[str, tuple[float, ...]] = {
    # Half decades from the smallest lambda of the paper's tables (0.025) to ten times the largest
    # of the presets: both ends should be wrong somewhere.
    "consistency.weight": (0.03, 0.1, 0.3, 1, 3, 10),
    # All nodes take part; the paper's range (0.5 to 0.9) and between; almost none take part.
    "consistency.threshold": (0, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99),
    # The teacher averages over about 1 / (1 - decay) steps: 1 (no average), 2, 10, 33, 100, 1000.
    "consistency.decay": (0, 0.5, 0.9, 0.97, 0.99, 0.999),
    # From almost hard pseudo labels over the paper's 0.5 to none sharpened at all.
    "consistency.temperature": (0.1, 0.25, 0.5, 0.75, 1),
}
"""The paper's settings, with the values that a sweep tries if none are given."""


@dataclass(frozen=True)
class Setting:
    """One setting and the values to try."""

    section: str
    key: str
    values: tuple[float, ...]

    @property
    def name(self) -> str:
        """As in `--set`."""
        return f"{self.section}.{self.key}"

    def applies_to(self, regularizer: str) -> bool:
        """Whether the setting changes anything for a regularizer."""
        if self.section != "consistency":
            return True
        known = {field.name for field in fields(ConsistencyConfig)}
        # A name that nobody knows passes here: the recipe says which one was meant.
        return regularizer != BASE and self.key not in known - settings_of(regularizer)

    def tables(self, value: float) -> dict[str, Any]:
        """The recipe layer that sets one value."""
        table: dict[str, Any] = {self.key: value}
        if self.name == "consistency.threshold":
            # A threshold that falls later would be another threshold for most of the run.
            table["threshold_end"] = None
        return {self.section: table}


@dataclass(frozen=True, eq=False)
class SweepTask:
    """One run of a sweep; the base belongs to no setting."""

    task: Task
    setting: str | None = None
    value: float | None = None


def parse_settings(names: Sequence[str], values: Sequence[str] = ()) -> list[Setting]:
    """Settings by name, with the values of texts such as `weight=0.1,1,10`.

    Args:
        names: `section.key`, or the key alone for settings of the consistency term.
        values: `NAME=NUMBER,NUMBER`; other settings that are named here are swept too.
    """
    given: dict[str, tuple[float, ...]] = {}
    for text in values:
        left, equals, right = text.partition("=")
        if not equals:
            raise ConfigError("--values", text, "a setting with numbers, such as `weight=0.1,1,10`")
        given[full_name(left)] = _numbers(left, right)
    settings = []
    for name in dict.fromkeys([*(full_name(name) for name in names), *given]):
        chosen = given.get(name) or DEFAULT_VALUES.get(name)
        if chosen is None:
            raise ConfigError("--settings", name, "values for it", hint=f"--values {name}=1,2,3")
        section, _, key = name.partition(".")
        settings.append(Setting(section, key, chosen))
    if not settings:
        raise ConfigError("--settings", "", f"one or more of {', '.join(DEFAULT_VALUES)}")
    return settings


def full_name(name: str) -> str:
    """`weight` -> `consistency.weight`; a name with a section stays."""
    name = name.strip()
    full = name if "." in name else f"consistency.{name}"
    if full.partition(".")[0] not in SECTIONS:
        raise ConfigError("--settings", name, f"section.key with one of {', '.join(SECTIONS)}")
    return full


def plan_sweep(
    settings: Sequence[Setting],
    *,
    encoder: str = "gamlp",
    regularizers: Sequence[str] = ("scr", "scr-m"),
    seeds: Sequence[int] = range(5),
    layers: Sequence[Mapping[str, Any]] = (),
    preset: str = "auto",
) -> list[SweepTask]:
    """The base and all values of all settings, those that share hops next to each other."""
    for name in regularizers:
        check_regularizer(name, "--regularizers")
    names = [BASE, *(name for name in regularizers if name != BASE)]
    known = [dict(layer) for layer in layers]

    def task(regularizer: str, seed: int, swept: Mapping[str, Any]) -> Task:
        return Task(encoder, regularizer, seed, (*known, dict(swept)), preset)

    swept = [
        SweepTask(task(regularizer, seed, setting.tables(value)), setting.name, value)
        for setting in settings
        for value in setting.values
        for seed in seeds
        for regularizer in names
        if setting.applies_to(regularizer)
    ]
    if not swept:
        raise ConfigError(
            "--regularizers", ",".join(regularizers), "one to which the settings apply, as `scr-m`"
        )
    return [*(SweepTask(task(BASE, seed, {})) for seed in seeds), *swept]


def sweep(
    comparison: Comparison,
    planned: Sequence[SweepTask],
    *,
    out: Path | None = None,
    jobs: int = 1,
    on_plan: Callable[[int], None] | None = None,
    on_run: Callable[[Mapping[str, Any]], None] | None = None,
    command: str | None = None,
) -> dict[str, Any]:
    """Run what is not done yet and summarize all; arguments as those of `compare`.

    Returns:
        The content of `sweep.json`: `graph`, `encoder`, `base`, `curves`, `sentences`, `runs`.
    """
    records = run_tasks(comparison, [each.task for each in planned], out=out, jobs=jobs,
                        on_plan=on_plan, on_run=on_run)  # fmt: skip
    runs = [
        {**record, "setting": each.setting, "value": each.value}
        for each, record in zip(planned, records, strict=True)
    ]
    base_runs = [run for run in runs if run["setting"] is None]
    swept = [run for run in runs if run["setting"] is not None]
    curves = sweep_curves(swept, base_runs, recipe_values=_recipe_values(comparison, planned))
    base = summarize({run["seed"]: run for run in base_runs}, {}, value=0.0)
    notes = [note for run in swept for note in run.get("notes") or []]
    result = {
        "graph": comparison.facts(),
        "encoder": planned[0].task.encoder,
        "command": command,
        "versions": versions(),
        "base": base,
        "curves": curves,
        "headline": sweep_headline(curves),
        "sentences": sweep_sentences(curves),
        "cautions": sweep_cautions(curves, notes),
        "runs": runs,
    }
    if out is not None:
        write_sweep(out, result)
    return result


def write_sweep(out: Path, result: Mapping[str, Any]) -> None:
    """Write what a sweep showed: numbers, table, pictures and page."""
    curves, base = result["curves"], result["base"]
    write_json(out / SWEEP_JSON, result)
    write_bytes(out / TABLE, sweep_csv(curves, base).encode())
    for setting, picture in sensitivity_curves(curves, base, file_format="png").items():
        write_bytes(out / f"{setting}.png", picture)
    write_bytes(out / SWEEP_PICTURE, sensitivity_overview(curves, base, file_format="png"))
    write_page(out / SWEEP_PAGE, sweep_page(result))


def _recipe_values(
    comparison: Comparison, planned: Sequence[SweepTask]
) -> dict[tuple[str, str], float | None]:
    """What the recipe has for each setting and regularizer where nothing is swept."""
    graph = comparison.graph_of(planned[0].task.seed)
    found: dict[tuple[str, str], float | None] = {}
    for each in planned:
        if each.setting is None or (each.setting, each.task.regularizer) in found:
            continue
        section, _, key = each.setting.partition(".")
        plain = replace(each.task, layers=each.task.layers[:-1])
        value = plain.classifier().resolve(graph).tables().get(section, {}).get(key)
        found[each.setting, each.task.regularizer] = number_or_none(value)
    return found


def _numbers(name: str, text: str) -> tuple[float, ...]:
    found: list[float] = []
    for part in text.split(","):
        try:
            # Some settings take whole numbers only.
            found.append(int(part) if part.strip().lstrip("-").isdecimal() else float(part))
        except ValueError:
            raise ConfigError(f"--values {name.strip()}", part, "a number") from None
        if not math.isfinite(found[-1]):
            raise ConfigError(f"--values {name.strip()}", part, "a finite number")
    return tuple(dict.fromkeys(found))
