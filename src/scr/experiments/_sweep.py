"""Sensitivity: accuracy over the values of one setting, for each regularizer and seed.

A sweep is the base (no regularizer) once, and for each setting every value with each regularizer
that reads it, of SCR and SCR-m if none are named. All else stays as the recipe has it. Tasks are
ordered so that those with the same propagation follow each other, and a worker keeps its hops;
settings of the consistency term never change them.

Reads a graph, writes `sweep.json`, `sweep.csv`, one picture per setting, one of all, and a page.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from scr import report
from scr.consistency import ConsistencyConfig, settings_of
from scr.errors import ConfigError
from scr.experiments._runner import Runner, Task
from scr.report.page import sweep_page, write_page
from scr.report.plots import sensitivity_curves, sensitivity_overview
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
        """`section.key`."""
        return f"{self.section}.{self.key}"

    def applies_to(self, regularizer: str) -> bool:
        """Whether the setting changes anything for a regularizer."""
        if self.section != "consistency":
            return True
        known = {field.name for field in fields(ConsistencyConfig)}
        # A name that nobody knows passes here: the recipe says which one was meant.
        return regularizer != report.BASE and self.key not in known - settings_of(regularizer)

    def tables(self, value: float) -> dict[str, Any]:
        """The recipe layer that sets one value."""
        table: dict[str, Any] = {self.key: value}
        if self.name == "consistency.threshold":
            # A threshold that falls later would be another threshold for most of the run.
            table["threshold_end"] = None
        return {self.section: table}


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
            raise ConfigError("values", text, "a setting with numbers, such as `weight=0.1,1,10`")
        given[full_name(left)] = _numbers(left, right)
    settings = []
    for name in dict.fromkeys([*(full_name(name) for name in names), *given]):
        chosen = given.get(name) or DEFAULT_VALUES.get(name)
        if chosen is None:
            raise ConfigError(
                "settings", name, "values for it", hint=f"give them, such as `{name}=1,2,3`"
            )
        section, _, key = name.partition(".")
        settings.append(Setting(section, key, chosen))
    if not settings:
        raise ConfigError("settings", "", f"one or more of {', '.join(DEFAULT_VALUES)}")
    return settings


def full_name(name: str) -> str:
    """`weight` -> `consistency.weight`; a name with a section stays."""
    name = name.strip()
    full = name if "." in name else f"consistency.{name}"
    if full.partition(".")[0] not in SECTIONS:
        raise ConfigError("settings", name, f"section.key with one of {', '.join(SECTIONS)}")
    return full


def plan_sweep(
    settings: Sequence[Setting],
    *,
    encoder: str = "gamlp",
    regularizers: Sequence[str] = ("scr", "scr-m"),
    seeds: Sequence[int] = range(5),
    layers: Sequence[Mapping[str, Any]] = (),
    preset: str = "auto",
) -> list[Task]:
    """The base and all values of all settings, those that share hops next to each other.

    Tasks are labeled with their `setting` and `value`; the base belongs to no setting.
    """
    for name in regularizers:
        check_regularizer(name, "regularizers")
    names = [report.BASE, *(name for name in regularizers if name != report.BASE)]
    known = tuple(dict(layer) for layer in layers)

    def task(regularizer: str, seed: int, tables: dict[str, Any], **labels: Any) -> Task:
        return Task(encoder, regularizer, seed, (*known, tables), preset, labels=labels)

    swept = [
        task(regularizer, seed, setting.tables(value), setting=setting.name, value=value)
        for setting in settings
        for value in setting.values
        for seed in seeds
        for regularizer in names
        if setting.applies_to(regularizer)
    ]
    if not swept:
        raise ConfigError(
            "regularizers", ",".join(regularizers), "one to which the settings apply, as `scr-m`"
        )
    return [*(task(report.BASE, seed, {}, setting=None, value=None) for seed in seeds), *swept]


def sweep(runner: Runner, tasks: Sequence[Task]) -> dict[str, Any]:
    """Run the tasks of `plan_sweep`, summarize and draw them; the content of `sweep.json`."""
    runs = runner.run(tasks)
    base_runs = [run for run in runs if run["setting"] is None]
    swept = [run for run in runs if run["setting"] is not None]
    curves = report.sweep_curves(swept, base_runs, recipe_values=_recipe_values(runner, tasks))
    base = report.summarize({run["seed"]: run for run in base_runs}, {}, value=0.0)
    notes = [note for run in swept for note in run.get("notes") or []]
    content = {
        "encoder": tasks[0].encoder,
        "base": base,
        "curves": curves,
        "headline": report.sweep_headline(curves),
        "sentences": [report.curve_sentence(curve) for curve in curves],
        "cautions": report.sweep_cautions(curves, notes),
        "runs": runs,
    }
    result, out = runner.result(SWEEP_JSON, content), runner.out
    if out is not None:
        write_bytes(out / TABLE, report.sweep_csv(curves, base).encode())
        for setting, image in sensitivity_curves(curves, base, file_format="png").items():
            write_bytes(out / f"{setting}.png", image)
        write_bytes(out / SWEEP_PICTURE, sensitivity_overview(curves, base, file_format="png"))
        write_page(out / SWEEP_PAGE, sweep_page(result))
    return result


def _recipe_values(runner: Runner, tasks: Sequence[Task]) -> dict[tuple[str, str], float | None]:
    """What the recipe has for each setting and regularizer where nothing is swept."""
    first = {(task.labels["setting"], task.regularizer): task for task in reversed(tasks)}
    values = {}
    for (setting, regularizer), task in first.items():
        if setting is not None:
            section, _, key = setting.partition(".")
            tables = runner.recipe_of(replace(task, layers=task.layers[:-1])).tables()
            values[setting, regularizer] = report.number_or_none(tables.get(section, {}).get(key))
    return values


def _numbers(name: str, text: str) -> tuple[float, ...]:
    numbers: list[float] = []
    for part in text.split(","):
        try:
            # Some settings take whole numbers only.
            numbers.append(int(part) if part.strip().lstrip("-").isdecimal() else float(part))
        except ValueError:
            raise ConfigError(f"values of {name.strip()}", part, "a number") from None
        if not math.isfinite(numbers[-1]):
            raise ConfigError(f"values of {name.strip()}", part, "a finite number")
    return tuple(dict.fromkeys(numbers))
