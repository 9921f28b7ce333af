"""Training efficiency: accuracy per epoch of SCR and SCR-m beside multi-stage training (RLU).

A method is a regularizer (`scr`, `scr-m`, `none`), a way of training in stages (`rlu`, `sle`), or
both (`scr+rlu`). Every run is watched: its record in `runs.jsonl` holds test accuracy per
evaluated epoch, which nothing reads back into training. What the curves and "reaching" mean is
defined in `scr.report._efficiency`.

Reads a graph, writes `efficiency.json`, `efficiency.csv` and `efficiency.png`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scr.config import did_you_mean
from scr.consistency import REGULARIZERS
from scr.errors import ConfigError, GraphError
from scr.experiments._compare import Comparison, Task, run_tasks
from scr.report import (
    KeptCurve,
    efficiency_csv,
    efficiency_sentences,
    kept_curve,
    mean_curve,
    reaches,
)
from scr.report.plots import efficiency_curves
from scr.runs import versions, write_json
from scr.selection import Selection
from scr.storage import write_bytes
from scr.training import Recipe, merge, specialize, stage_count, variants

EFFICIENCY_JSON, TABLE, EFFICIENCY_PICTURE = "efficiency.json", "efficiency.csv", "efficiency.png"
STAGED = ("rlu", "sle")
"""Ways of training in stages."""

Epochs = int | tuple[int, ...]
"""Of a run or of every stage, or of each stage."""


@dataclass(frozen=True)
class Method:
    """What a curve of the figure is trained with."""

    regularizer: str
    stages: str = "none"

    @classmethod
    def parse(cls, name: str) -> Method:
        """`scr`, `rlu` or `scr+rlu`."""
        regularizer, _, stages = name.partition("+")
        if regularizer in STAGED and not stages:
            regularizer, stages = "none", regularizer
        if regularizer not in REGULARIZERS or stages not in ("", *STAGED):
            known = (*REGULARIZERS, *STAGED)
            raise ConfigError(
                "--methods",
                name,
                f"one of {', '.join(known)}, or two such as `scr+rlu`",
                hint=did_you_mean(name, known),
            )
        return cls(regularizer, stages or "none")

    @property
    def name(self) -> str:
        """As it is given and shown."""
        if self.stages == "none":
            return self.regularizer
        return self.stages if self.regularizer == "none" else f"{self.regularizer}+{self.stages}"


def parse_epochs(texts: Sequence[str], methods: Sequence[Method]) -> dict[str, Epochs]:
    """Epochs per method from `200`, `scr=400` or `rlu=400+300+300`; later texts win."""
    names = [method.name for method in methods]
    found: dict[str, Epochs] = {}
    for text in texts:
        name, equals, right = text.rpartition("=")
        try:
            numbers = tuple(int(part) for part in right.split("+"))
        except ValueError:
            numbers = ()
        staged = Method.parse(name).stages != "none" if equals else False
        if not numbers or min(numbers) < 1 or (len(numbers) > 1 and not staged):
            raise ConfigError("--epochs", text, "`200`, `scr=400` or, by stages, `rlu=400+300`")
        if equals and name not in names:
            raise ConfigError("--epochs", text, f"one of the methods {', '.join(names)}")
        value: Epochs = numbers[0] if len(numbers) == 1 else numbers
        found |= {name: value} if equals else dict.fromkeys(names, value)
    return found


def plan_efficiency(
    methods: Sequence[Method],
    *,
    encoder: str = "gamlp",
    seeds: Sequence[int] = range(3),
    layers: Sequence[Mapping[str, Any]] = (),
    epochs: Mapping[str, Epochs] | None = None,
    preset: str = "auto",
) -> list[tuple[Method, Task]]:
    """All methods with all seeds.

    Layers may have tables for a method, such as `[for.rlu.training]`, besides those for encoders
    and regularizers; those for a method win.
    """
    if not methods:
        raise ConfigError("--methods", "", "at least one, such as `scr,scr-m,rlu`")
    given = epochs or {}
    planned = []
    for seed in seeds:
        for method in methods:
            names = [*variants(encoder, method.regularizer)]
            if method.stages != "none":
                names += [method.stages, f"{encoder}+{method.stages}", method.name]
            known = [specialize(layer, *names) for layer in layers]
            fixed = _fixed(method, given.get(method.name))
            tables = merge(*known, fixed)
            task = Task(encoder, method.regularizer, seed, (tables,), preset, watch=True)
            planned.append((method, task))
    return planned


def efficiency(
    comparison: Comparison,
    planned: Sequence[tuple[Method, Task]],
    *,
    reference: str = "rlu",
    out: Path | None = None,
    jobs: int = 1,
    on_plan: Callable[[int], None] | None = None,
    on_run: Callable[[Mapping[str, Any]], None] | None = None,
    command: str | None = None,
) -> dict[str, Any]:
    """Run what is not done yet and draw all.

    Args:
        comparison: The graph and its splits.
        planned: From `plan_efficiency`.
        reference: The method whose final accuracy the others are to reach.
        out: Folder for `runs.jsonl` and results; none keeps nothing.
        jobs: Processes, one thread each; methods share the machine alike, so seconds compare.
        on_plan: Called once, with the number of runs that are not done yet.
        on_run: Called with every run that finishes.
        command: Recorded in the result.

    Returns:
        The content of `efficiency.json`.
    """
    names = [method.name for method, _ in planned]
    if reference not in names:
        known = ", ".join(dict.fromkeys(names))
        raise ConfigError("--reference", reference, f"one of the methods {known}")
    records = run_tasks(comparison, [task for _, task in planned], out=out, jobs=jobs,
                        on_plan=on_plan, on_run=on_run)  # fmt: skip
    runs = [{**record, "method": name} for record, name in zip(records, names, strict=True)]
    kept: dict[str, dict[int, KeptCurve]] = {}
    for (method, task), run in zip(planned, runs, strict=True):
        graph = comparison.graph_of(task.seed)
        recipe = task.classifier().resolve(graph)
        curve = kept_curve(run["curve"], selections_of(recipe, len(graph.valid)))
        if len(curve.epochs) == 0:
            raise GraphError(
                f"The graph `{comparison.graph.name}` has no labeled validation and test nodes; "
                "expected both for a curve of accuracy"
            )
        kept.setdefault(method.name, {})[task.seed] = curve
    curves = [mean_curve(name, by_seed) for name, by_seed in kept.items()]
    found = reaches(curves, reference)
    result = {
        "graph": comparison.facts(),
        "encoder": planned[0][1].encoder,
        "command": command,
        "versions": versions(),
        "reference": reference,
        "methods": found,
        "sentences": efficiency_sentences(curves, found, reference),
        "curves": curves,
        # The epochs of every run are in runs.jsonl.
        "runs": [{key: run[key] for key in run if key != "curve"} for run in runs],
    }
    if out is not None:
        write_json(out / EFFICIENCY_JSON, result)
        write_bytes(out / TABLE, efficiency_csv(curves).encode())
        write_bytes(
            out / EFFICIENCY_PICTURE, efficiency_curves(curves, found, reference, file_format="png")
        )
    return result


def selections_of(recipe: Recipe, nodes: int) -> list[Selection]:
    """How each stage of a run with this recipe chooses its weights.

    Args:
        recipe: Its settings.
        nodes: Validation nodes.
    """
    stages, training = recipe.stages, recipe.training
    return [
        Selection(
            training.select,
            training.select_after,
            stages.epochs_of(stage, training.epochs),
            nodes,
        )
        for stage in range(1, stage_count(recipe) + 1)
    ]


def _fixed(method: Method, epochs: Epochs | None) -> dict[str, Any]:
    """What the method and its number of epochs decide, whatever the recipe says."""
    stages: dict[str, Any] = {"method": method.stages}
    if epochs is None:
        return {"stages": stages}
    if method.stages == "none":
        return {"stages": stages, "training": {"epochs": epochs}}
    stages["epochs"] = epochs
    if isinstance(epochs, tuple):
        stages["count"] = len(epochs)
    return {"stages": stages}
