"""Training efficiency: accuracy per epoch of SCR and SCR-m beside multi-stage training (RLU).

A method is a regularizer (`scr`, `scr-m`, `none`), a way of training in stages (`rlu`, `sle`), or
both (`scr+rlu`). Every run is watched: its record in `runs.jsonl` holds test accuracy per
evaluated epoch, which nothing reads back into training. What the curves and "reaching" mean is
defined in `scr.report._efficiency`.

Reads a graph, writes `efficiency.json`, `efficiency.csv` and `efficiency.png`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scr import report
from scr.config import did_you_mean
from scr.consistency import REGULARIZERS
from scr.errors import ConfigError, GraphError
from scr.experiments._runner import Runner, Task
from scr.metrics import METRICS, effective_nodes
from scr.report.plots import efficiency_curves
from scr.selection import Selection
from scr.storage import write_bytes
from scr.training import merge, specialize, stage_count, variants

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
                "methods", name, f"one of {', '.join(known)}, or two such as `scr+rlu`",
                hint=did_you_mean(name, known),
            )  # fmt: skip
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
    epochs: dict[str, Epochs] = {}
    for text in texts:
        name, equals, right = text.rpartition("=")
        try:
            numbers = tuple(int(part) for part in right.split("+"))
        except ValueError:
            numbers = ()
        staged = Method.parse(name).stages != "none" if equals else False
        if not numbers or min(numbers) < 1 or (len(numbers) > 1 and not staged):
            raise ConfigError("epochs", text, "`200`, `scr=400` or, by stages, `rlu=400+300`")
        if equals and name not in names:
            raise ConfigError("epochs", text, f"one of the methods {', '.join(names)}")
        value: Epochs = numbers[0] if len(numbers) == 1 else numbers
        epochs |= {name: value} if equals else dict.fromkeys(names, value)
    return epochs


def plan_efficiency(
    methods: Sequence[Method],
    *,
    encoder: str = "gamlp",
    seeds: Sequence[int] = range(3),
    layers: Sequence[Mapping[str, Any]] = (),
    epochs: Mapping[str, Epochs] | None = None,
    preset: str = "auto",
) -> list[Task]:
    """All methods with all seeds; tasks are labeled with their `method`.

    Layers may have tables for a method, such as `[for.rlu.training]`, besides those for encoders
    and regularizers; those for a method win.
    """
    if not methods:
        raise ConfigError("methods", "", "at least one, such as `scr,scr-m,rlu`")
    given = epochs or {}
    tasks = []
    for seed in seeds:
        for method in methods:
            names = [*variants(encoder, method.regularizer)]
            if method.stages != "none":
                names += [method.stages, f"{encoder}+{method.stages}", method.name]
            known = [specialize(layer, *names) for layer in layers]
            tables = merge(*known, _fixed(method, given.get(method.name)))
            tasks.append(
                Task(
                    encoder, method.regularizer, seed, (tables,), preset, watch=True,
                    labels={"method": method.name},
                )
            )  # fmt: skip
    return tasks


def efficiency(runner: Runner, tasks: Sequence[Task], *, reference: str = "rlu") -> dict[str, Any]:
    """Run the tasks of `plan_efficiency` and draw their curves.

    With several processes, each has one thread: methods share the machine alike, so seconds
    compare.

    Args:
        runner: The graph, and where runs are kept.
        tasks: From `plan_efficiency`.
        reference: The method whose final accuracy the others are to reach.
    """
    methods = dict.fromkeys(task.labels["method"] for task in tasks)
    if reference not in methods:
        raise ConfigError("reference", reference, f"one of the methods {', '.join(methods)}")
    runs = runner.run(tasks)
    kept: dict[str, dict[int, report.KeptCurve]] = {method: {} for method in methods}
    for task, run in zip(tasks, runs, strict=True):
        recipe, graph = runner.recipe_of(task), runner.graph_of(task.seed)
        stages, training = recipe.stages, recipe.training
        nodes = effective_nodes(graph.labels[graph.valid], METRICS[training.metric])
        selections = [
            Selection(
                training.keeps, training.select_after, stages.epochs_of(stage, training.epochs),
                nodes, training.by_metric,
            )
            for stage in range(1, stage_count(recipe) + 1)
        ]  # fmt: skip
        curve = report.kept_curve(run["curve"], selections)
        if len(curve.epochs) == 0:
            raise GraphError(
                f"The graph `{runner.graph.name}` has no labeled validation and test nodes; "
                "expected both for a curve of accuracy"
            )
        kept[run["method"]][task.seed] = curve
    curves = [report.mean_curve(name, by_seed) for name, by_seed in kept.items()]
    reached = report.reaches(curves, reference)
    content = {
        "encoder": tasks[0].encoder,
        "reference": reference,
        "methods": reached,
        "sentences": report.efficiency_sentences(curves, reached, reference),
        "curves": curves,
        # The epochs of every run are in runs.jsonl.
        "runs": [{key: run[key] for key in run if key != "curve"} for run in runs],
    }
    result = runner.result(EFFICIENCY_JSON, content)
    if runner.out is not None:
        write_bytes(runner.out / TABLE, report.efficiency_csv(curves).encode())
        image = efficiency_curves(curves, reached, reference, file_format="png")
        write_bytes(runner.out / EFFICIENCY_PICTURE, image)
    return result


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
