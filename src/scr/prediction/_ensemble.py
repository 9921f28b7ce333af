"""Several models as one: their probabilities are averaged, each with its weight.

A run of an ensemble has what any run has, and `ensemble.json`, which names its models, folders with
the files of a run each, and their weights. The recipe, the history and the explanation of the run
are those of its heaviest model.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr import runs, training
from scr.compute import usable_device
from scr.errors import StoreError
from scr.graph import Graph, verify_store
from scr.networks import OwnModule
from scr.prediction._other_graphs import Nodes
from scr.prediction._predictor import Answer, Predictor
from scr.prediction._stored_model import check_weights, read_model, refuse_existing
from scr.prediction.calibration import read_calibration
from scr.storage import atomic_folder

ENSEMBLE = "ensemble.json"


@dataclass(frozen=True)
class WeightedModel:
    """One of several models."""

    folder: str
    """Below the run's folder."""
    weight: float


def read_ensemble(path: Path) -> list[WeightedModel] | None:
    """The models of a run, the heaviest first; none: it is a run of one."""
    if not (path / ENSEMBLE).is_file():
        return None
    content = runs.read_json(path / ENSEMBLE, {"models": list[dict[str, Any]]})
    try:
        models = [
            WeightedModel(str(each["folder"]), float(each["weight"])) for each in content["models"]
        ]
        inside = all(
            (path / each.folder).resolve().is_relative_to(path.resolve()) for each in models
        )
        weights = np.array([each.weight for each in models])
        is_sound = inside and len(models) and np.isfinite(weights).all() and (weights > 0).all()
    except (KeyError, TypeError, ValueError):
        is_sound = False
    if not is_sound:
        raise StoreError(f"`{path / ENSEMBLE}` does not name models below its folder and positive "
                         "weights; the run may be damaged")  # fmt: skip
    return sorted(models, key=lambda each: -each.weight)


def verify_models(path: Path) -> int:
    """Read every file of a run and of its models again; returns how many checksums were compared.

    Raises:
        StoreError: A file has changed, or weights are not numbers.
    """
    models = read_ensemble(path)
    folders = [path] if models is None else [path / each.folder for each in models]
    compared = len(runs.verify_run(path))
    for folder in folders:
        if folder != path:
            compared += len(runs.verify_run(folder))
        check_weights(folder / runs.MODEL)
    if (path / runs.GRAPH).is_dir():
        verify_store(path / runs.GRAPH)
    return compared


class EnsemblePredictor(Predictor):
    """Models with their weights, and the graph whose known labels they were trained on."""

    def __init__(
        self,
        path: Path,
        models: Sequence[WeightedModel],
        graph: Graph | None = None,
        *,
        device: str = "cpu",
    ) -> None:
        """Read the models of a run; arguments as of `Predictor`."""
        runs.verify_run(path, predictions=False)
        read = [read_model(path / each.folder) for each in models]
        for model in read:
            model.encoder.to(usable_device(device))
        first = read[0]
        run = runs.read_run(path)
        whole = dataclasses.replace(
            first, notes=list(run["notes"]), seed=run["seed"], origin=path,
            calibration=read_calibration(path, run),
        )  # fmt: skip
        super().__init__(whole, graph, device=device)
        weights = np.array([each.weight for each in models], dtype=np.float64)
        self._weights = (weights / weights.sum()).astype(np.float32)
        self._read, self._predictors = read, list[Predictor]()
        self._prepared: dict[str, Any] = {}

    @property
    def members(self) -> list[Predictor]:
        """A predictor for each model; those that read the same rows share them."""
        if not self._predictors:
            for model in self._read:
                assert isinstance(model.origin, Path)
                train, valid, _ = runs.read_split(model.origin / runs.SPLIT)
                graph = dataclasses.replace(self.graph, train=train, valid=valid)
                self._predictors.append(
                    Predictor(model, graph, device=self.device, shared=self._prepared)
                )
        return self._predictors

    def rows(self, graph: Graph | None, nodes: Nodes | None) -> training.RowSource:
        """What the heaviest model reads, whose encoder is the one that is explained."""
        return self.members[0].rows(graph, nodes)

    def held_out(self) -> Nodes:
        """None: every known label has trained some of the models."""
        return np.empty(0, dtype=np.int64)

    def answers(self, nodes: Nodes | None, graph: Graph | None) -> tuple[Nodes | None, Answer]:
        """As of `Predictor`; what predicts averages over the models."""
        index, predict = nodes, []
        for member in self.members:
            index, one = member.answers(nodes, graph)
            predict.append(one)

        def average(part: Nodes) -> NDArray[np.float32]:
            total = np.float32(0)
            for weight, one in zip(self._weights, predict, strict=True):
                total = total + weight * one(part)
            return np.asarray(total / total.sum(axis=1, keepdims=True), dtype=np.float32)

        return index, average

    def save(self, path: Path, *, source: str | None = None) -> Path:
        """Copy the run directory to a new folder, whole or not at all."""
        assert isinstance(self.model.origin, Path)
        refuse_existing(path)
        with atomic_folder(path) as temporary:
            shutil.copytree(self.model.origin, temporary, dirs_exist_ok=True)
            run = runs.read_run(temporary)
            graph = {**run["graph"], "source": source or run["graph"]["source"]}
            runs.rewrite_json(temporary, runs.RUN, {**run, "graph": graph})
        return path


def open_run(
    path: Path, graph: Graph | None = None, *, device: str = "cpu", own: OwnModule | None = None
) -> Predictor:
    """What a run directory says of nodes, be it of one model or of several.

    Args:
        path: Of a finished run.
        graph: The graph of its training; none: loaded again, when needed.
        device: Where torch computes.
        own: The module of a run with a module of the user's own.
    """
    models = read_ensemble(path)
    if models is not None:
        return EnsemblePredictor(path, models, graph, device=device)
    model = read_model(path, own)
    model.encoder.to(usable_device(device))
    return Predictor(model, graph, device=device)
