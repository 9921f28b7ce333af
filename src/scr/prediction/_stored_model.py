"""A trained model, just fitted or read from a run, its files, and the graph of its run."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from scr.encoders import Encoder, ProblemShape
from scr.errors import ConfigError, RunError, StoreError
from scr.graph import Graph
from scr.networks import OWN, OwnModule, make_encoder
from scr.prediction.calibration import (
    Calibration,
    calibration_nodes,
    read_calibration,
)
from scr.report import read_history
from scr.runs import (
    GRAPH,
    HISTORY,
    METRICS,
    MODEL,
    RUN,
    SPLIT,
    read_metrics,
    read_run,
    read_split,
    verify_run,
)
from scr.sources import load_graph
from scr.training import (
    Fitted,
    Handover,
    Preparation,
    Recipe,
    SubsetNames,
    nodes_with_labels,
    predict_probabilities,
    read_header,
    read_tensors,
    write_tensors,
)
from scr.typed_features import restore_fitted

_SIZES = [
    each.name if each.default is dataclasses.MISSING else f"{each.name}?"
    for each in dataclasses.fields(ProblemShape)
]
"""What the header of a model says of its `ProblemShape`; younger sizes may be missing."""
MOST_HOPS = 10_000
"""Of a recipe that is no mistake."""


@dataclass(frozen=True, kw_only=True)
class TrainedModel:
    """An encoder, and what was prepared and recorded with it."""

    encoder: Encoder
    shape: ProblemShape
    """Sizes that the encoder was built for."""
    recipe: Recipe
    seed: int
    features: Preparation
    """How features were prepared, to be applied to new nodes."""
    subsets: SubsetNames | None
    """Subsets of relations that hops were made over; none: over all edges alike."""
    class_names: tuple[str, ...]
    relations: tuple[str, ...]
    """Full names of the relations trained on; none of a graph of one type and relation."""
    notes: list[str]
    """What the run decided by itself, in sentences."""
    multilabel: bool = False
    """Whether outputs are of several yes-or-no targets, which `class_names` names."""
    origin: Fitted | Path
    """The fit of this process, or the run directory that the model was read from."""
    calibration: Calibration = field(default_factory=Calibration)
    """What validation nodes say about the probabilities."""

    @classmethod
    def of(cls, fitted: Fitted, graph: Graph) -> TrainedModel:
        """The model of a fit on a graph, calibrated on its labeled validation nodes."""
        calibration = Calibration()
        if not fitted.multilabel:
            valid = calibration_nodes(graph)
            soft = fitted.held_out  # after a refit, validation nodes were trained on
            if soft is None:
                index = torch.from_numpy(valid)
                soft = predict_probabilities(fitted.encoder, fitted.rows, index)
            else:
                soft = soft[np.searchsorted(nodes_with_labels(graph, "valid"), valid)]
            labels = np.array(graph.labels[valid], dtype=np.int64)
            method = fitted.recipe.postprocess.calibrate
            calibration = Calibration.of(soft.numpy(), labels, method)
        return cls(
            encoder=fitted.encoder, shape=fitted.rows.shape, recipe=fitted.recipe,
            seed=fitted.seed,
            features=fitted.prepared.features, subsets=fitted.prepared.subsets,
            class_names=graph.class_names,
            relations=tuple(map(str, graph.relations)) if graph.is_typed else (),
            notes=[*fitted.notes, *calibration.notes], multilabel=fitted.multilabel, origin=fitted,
            calibration=calibration,
        )  # fmt: skip

    @property
    def history(self) -> list[dict[str, Any]]:
        """One record per evaluated epoch."""
        if isinstance(self.origin, Path):
            return read_history(self.origin / HISTORY)
        return self.origin.outcome.history

    def ending(self, what: Literal["best_epoch", "stopped", "acted"]) -> Any:
        """How training ended: the epoch kept, why it stopped, and whether a regularizer acted."""
        if isinstance(self.origin, Path):
            summary = read_summary(self.origin)
            term = summary.get("consistency", {})
            return term.get("acted", True) if what == "acted" else summary[what]
        if what == "acted":
            return self.origin.term is None or self.origin.term.acted
        return getattr(self.origin.outcome, what)


def read_summary(path: Path) -> dict[str, Any]:
    file = path / METRICS
    if not file.exists():
        raise RunError(
            f"The run has no `{file}`; expected a finished run", hint="`scr train` can resume it"
        )
    return read_metrics(path)


def refuse_existing(path: Path) -> None:
    """A run is saved to a new folder."""
    if path.exists():
        message = f"`{path}` exists already; expected a new folder"
        raise RunError(message, hint="choose another path")


def write_model(path: Path, fitted: Fitted) -> None:
    """Weights and the features' preparation in one file."""
    shape = fitted.rows.shape
    tensors: dict[str, Tensor] = {}
    addresses: set[int] = set()
    for name, tensor in fitted.encoder.state_dict().items():
        stored = tensor.detach().cpu().contiguous()
        if stored.untyped_storage().data_ptr() in addresses:
            stored = stored.clone()  # a weight that a module has twice
        addresses.add(stored.untyped_storage().data_ptr())
        tensors[f"encoder/{name}"] = stored
    for name, array in fitted.prepared.features.arrays().items():
        tensors[f"features/{name}"] = torch.from_numpy(array)
    header = {
        "shape": json.dumps(vars(shape)),
        "features": json.dumps(fitted.prepared.features.settings()),
    }
    write_tensors(path, tensors, header)


def read_model(path: Path, own: OwnModule | None = None) -> TrainedModel:
    """Read the directory of a finished run; nothing in it is executed, nothing in it names code.

    A run that was trained with a module of the user's own needs that module.
    """
    verify_run(path, predictions=False)
    run = read_run(path)
    _check_own(path, run, own)
    file = path / MODEL
    hint = "is the run finished? `scr train` can resume it"
    tensors, header = read_tensors(file, what="model", hint=hint)
    recipe = _read_recipe(path, run)
    sizes = read_header(file, header, "shape", dict.fromkeys(_SIZES, int))
    settings = read_header(file, header, "features", {})
    arrays = {name: tensor.numpy() for name, tensor in _below("features/", tensors).items()}
    weights = _below("encoder/", tensors)
    _check_finite(file, {**weights, **_below("features/", tensors)}, own)
    try:
        shape = ProblemShape(**sizes)
        if min(sizes.values()) < 0 or shape.classes != len(run["graph"]["class_names"]):
            raise ValueError(f"the shape {sizes} is not that of the run")
        features = restore_fitted(settings, arrays)
        if features.width != shape.features:
            raise ValueError(f"{shape.features} features of the {features.width} prepared ones")
        if max(recipe.propagation.hops, recipe.propagation.label_hops) > MOST_HOPS:
            raise ValueError(f"more than {MOST_HOPS} hops")
        if own is None:
            with torch.device("meta"):  # where sizes that are damaged take no memory
                sketch = make_encoder(recipe.encoder, recipe.encoder_settings, shape)
                sketch.load_state_dict({name: w.to("meta") for name, w in weights.items()})
        encoder = make_encoder(recipe.encoder, recipe.encoder_settings, shape, own)
        encoder.load_state_dict(weights)
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError, MemoryError) as error:
        if own is None:
            reason = " ".join(str(error).split())
            raise StoreError(
                f"The model `{file}` does not fit `{path / RUN}`: {reason}", hint="train it again"
            ) from None
        raise ConfigError(
            "encoder", type(own.given).__name__, f"the module of the run `{path}`: {error}"
        ) from None
    encoder.eval()
    subsets = run.get("subsets")
    return TrainedModel(
        encoder=encoder, shape=shape, recipe=recipe, seed=run["seed"],
        features=features,
        subsets=None if subsets is None else tuple(tuple(subset) for subset in subsets),
        class_names=tuple(run["graph"]["class_names"]),
        relations=tuple(run["graph"].get("relations", ())), notes=list(run["notes"]),
        multilabel=bool(run["graph"].get("multilabel")), origin=path,
        calibration=read_calibration(path, run),
    )  # fmt: skip


def _read_recipe(path: Path, run: Mapping[str, Any]) -> Recipe:
    try:
        return Recipe.from_tables(run["recipe"], preset=run["preset"]["name"])
    except ConfigError as error:
        raise StoreError(f"The recipe in `{path / RUN}` is damaged: {error.message}") from None


def check_weights(file: Path) -> None:
    """Raise a `StoreError` if a model cannot be read or has weights that are not numbers."""
    tensors, header = read_tensors(file, what="model")
    read_header(file, header, "shape", dict.fromkeys(_SIZES, int))
    for name, tensor in tensors.items():
        if bool(torch.isnan(tensor).any()):
            raise _not_finite(file, name)


def _not_finite(file: Path, name: str) -> StoreError:
    return StoreError(
        f"The model `{file}` has weights that are not finite numbers, in `{name}`",
        hint="bring the file back, or train the run again",
    )


def _check_finite(file: Path, tensors: Mapping[str, Tensor], own: OwnModule | None) -> None:
    """Refuse weights that are no numbers; a module of the user's own may have infinite ones."""
    for name, tensor in tensors.items():
        is_bad = torch.isnan(tensor) if own is not None else ~torch.isfinite(tensor)
        if bool(is_bad.any()):
            raise _not_finite(file, name)


def _check_own(path: Path, run: Mapping[str, Any], own: OwnModule | None) -> None:
    """Weights of a module that is not ours fit that module only, which no file holds."""
    if run["encoder"] in OWN and own is None:
        raise RunError(
            f"The run `{path}` was trained with a torch module of its user, of which it has the "
            "weights; expected the module to be given again",
            hint="`scr.NodeClassifier.load(path, encoder=my_module)`",
        )
    if run["encoder"] not in OWN and own is not None:
        raise RunError(
            f"The run `{path}` was trained with the encoder `{run['encoder']}`; expected no module",
            hint="`scr.NodeClassifier.load(path)`",
        )


def write_handover(path: Path, handover: Handover) -> None:
    """What the last stage was given, so that its label hops can be built again."""
    write_tensors(path, {"nodes": handover.nodes, "soft_labels": handover.soft_labels}, {})


def read_handover(path: Path) -> Handover:
    """What the last stage was given, of a run whose label hops are built from it."""
    tensors, _ = read_tensors(path, what="labels of earlier stages")
    nodes, soft = tensors.get("nodes"), tensors.get("soft_labels")
    if (
        nodes is None or soft is None or nodes.dtype != torch.int64 or nodes.ndim != 1
        or not soft.is_floating_point() or soft.ndim != 2 or len(soft) != len(nodes)
    ):  # fmt: skip
        raise StoreError(
            f"The labels of earlier stages `{path}` are damaged; expected nodes and a row of "
            "probabilities for each"
        )
    return Handover(nodes, soft, nodes[:0])


def _below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


def load_run_graph(path: Path) -> Graph:
    """Load the graph that the run of a directory was trained on, with its split.

    A model is only as good as the features that it reads: a graph that has changed is refused.

    Raises:
        RunError: The graph was made in memory, or is not what it was at training.
    """
    verify_run(path, predictions=False)
    facts = read_run(path)["graph"]
    source, features_file = facts["source"], facts.get("features_file")
    if (path / GRAPH).is_dir():  # wherever the run was moved to
        source, features_file = str(path / GRAPH), None
    if source is None:
        raise RunError(
            "The graph of this run was made in memory or read with options of its own; expected "
            "one that can be loaded again",
            hint="in Python, pass it to `NodeClassifier.load(path, graph=graph)`",
        )
    train, valid, test = read_split(path / SPLIT)
    graph = load_graph(source, features=features_file)
    # Not `with_split`: that is for people, and refuses a split that is empty.
    graph = dataclasses.replace(graph, train=train, valid=valid, test=test)
    # A fingerprint knows classes by their numbers only.
    same_classes = list(graph.class_names) == facts["class_names"]
    if not same_classes or graph.fingerprint() != facts["fingerprint"]:
        shown = f"`{source}`" + (f" with `{features_file}`" if features_file else "")
        raise RunError(
            f"{shown} is not the graph that the run was trained on; expected the same "
            f"{facts['nodes']:,} nodes, edges, {facts['features']:,} features and labels",
            hint="bring the old files back, train again, name it as another graph when predicting, "
            "or, if it was changed in Python before training, pass it to "
            "`NodeClassifier.load(path, graph=graph)`",
        )
    return graph
