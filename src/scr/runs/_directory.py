"""A run on disk: what was asked, what came out, and the weights, in files that anybody can read.

run.json            recipe, preset and why, seed, versions, data fingerprint, notes
history.jsonl       one line per evaluated epoch
model.safetensors   weights, and the fitted preparation of the features
explanation.json    which hops and relations carry the predictions
metrics.json        accuracies, times, memory; written last: a run with it is finished
predictions.parquet one row per node
split.npz           numbers of the training, validation and test nodes
handover.safetensors   of a run in stages that reads label hops: what its last stage was given
checkpoint*.safetensors   while the run is under way
"""

from __future__ import annotations

import io
import json
import platform
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from scr.encoders import Encoder, ProblemShape
from scr.errors import ConfigError, RunError, StoreError
from scr.graph import Graph
from scr.networks import OWN, OwnModule, make_encoder
from scr.storage import write_bytes
from scr.training import Fitted, Handover, Preparation, Recipe, SubsetNames
from scr.typed_features import restore_fitted

SCHEMA = 1
RUN, METRICS, HISTORY = "run.json", "metrics.json", "history.jsonl"
MODEL, PREDICTIONS, CHECKPOINT = (
    "model.safetensors",
    "predictions.parquet",
    "checkpoint.safetensors",
)
REPORT, SPLIT, HANDOVER = "report.html", "split.npz", "handover.safetensors"
EXPLANATION = "explanation.json"

_PACKAGES = ("scr-gnn", "torch", "numpy", "scipy", "numba", "scikit-learn", "pyarrow")


@dataclass(frozen=True)
class StoredModel:
    """What is needed to predict: encoder, preparation of features, and the facts of the run."""

    encoder: Encoder
    features: Preparation
    recipe: Recipe
    run: dict[str, Any]
    path: Path

    @property
    def subsets(self) -> SubsetNames | None:
        """Subsets of relations that the run was trained with, as it recorded them."""
        recorded = self.run.get("subsets")
        return None if recorded is None else tuple(tuple(subset) for subset in recorded)


def describe_run(
    graph: Graph, recipe: Recipe, *, seed: int, source: str | None, command: str | None
) -> dict[str, Any]:
    """The content of `run.json`, as far as it is known before training."""
    other_features = graph.features_file
    return {
        "schema": SCHEMA,
        "graph": {
            "name": graph.name,
            "source": source,
            "nodes": graph.num_targets,
            "edges": graph.num_edges,
            "features": graph.num_features,
            "classes": graph.num_classes,
            "class_names": list(graph.class_names),
            "train": len(graph.train),
            "valid": len(graph.valid),
            "test": len(graph.test),
            "fingerprint": graph.fingerprint(),
            "steps": list(graph.steps),
            **({} if other_features is None else {"features_file": str(other_features)}),
            **(_types(graph) if graph.is_typed else {}),
        },
        "encoder": recipe.encoder,
        "regularizer": recipe.regularizer,
        "recipe": recipe.tables(),
        "preset": {"name": recipe.preset, "reason": recipe.reason},
        "rows_kept": "all",
        "seed": seed,
        "threads": torch.get_num_threads(),
        "versions": versions(),
        "command": command,
        "notes": [],
    }


def _types(graph: Graph) -> dict[str, Any]:
    """What a graph of several types has more."""
    relations = [str(relation) for relation in graph.relations]
    return {"target": graph.target, "types": dict(graph.node_types), "relations": relations}


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide numbers."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def start_run(path: Path, run: Mapping[str, Any], *, resume: bool) -> bool:
    """Make the folder of a run, or check that an existing one is the same run.

    Args:
        path: The run directory.
        run: From `describe_run`.
        resume: Accept an existing run, and continue it.

    Returns:
        Whether the run is finished already.
    """
    if path.exists() and not path.is_dir():
        raise RunError(f"`{path}` is a file; expected a folder for the run, or nothing")
    if path.exists() and any(path.iterdir()):
        if not resume:
            raise RunError(
                f"The run directory `{path}` exists already; expected a new one",
                hint="choose another --out, or continue the run with --resume",
            )
        if (path / RUN).exists():
            _check_same(path, read_json(path / RUN), run)
            return (path / METRICS).exists()
        if (path / METRICS).exists() or (path / MODEL).exists():
            raise RunError(f"`{path}` has no {RUN}; expected a run directory to continue")
    path.mkdir(parents=True, exist_ok=True)
    write_json(path / RUN, run)
    return False


def withdraw_run(path: Path) -> None:
    """Remove a run in which nothing was trained, as if it had never been started.

    What is wrong with the input of a run may only show once its graph is prepared.
    """
    if [file.name for file in path.iterdir()] == [RUN]:
        (path / RUN).unlink()
        path.rmdir()


def _check_same(path: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """A run continues only with the settings, seed and data that it was started with."""
    for what, before, now in (
        ("graph", old["graph"]["fingerprint"], new["graph"]["fingerprint"]),
        ("recipe", old["recipe"], json.loads(json.dumps(new["recipe"]))),
        ("seed", old["seed"], new["seed"]),
    ):
        if before != now:
            raise RunError(
                f"The run in `{path}` was started with another {what}; expected the same to "
                "continue it",
                hint="use the settings of the first call, or another --out",
            )


def write_model(path: Path, fitted: Fitted) -> None:
    """Weights and the features' preparation in one file."""
    shape = fitted.rows.shape
    tensors: dict[str, Tensor] = {}
    places: set[int] = set()
    for name, tensor in fitted.encoder.state_dict().items():
        stored = tensor.detach().cpu().contiguous()
        if stored.untyped_storage().data_ptr() in places:
            stored = stored.clone()  # a weight that a module has twice
        places.add(stored.untyped_storage().data_ptr())
        tensors[f"encoder/{name}"] = stored
    for name, array in fitted.prepared.features.arrays().items():
        tensors[f"features/{name}"] = torch.from_numpy(array)
    header = {
        "shape": json.dumps(vars(shape)),
        "features": json.dumps(fitted.prepared.features.settings()),
    }
    write_bytes(path, save(tensors, metadata=header))


def read_model(path: Path, own: OwnModule | None = None) -> StoredModel:
    """Read a finished run; nothing in it is executed, and nothing in it names code.

    Args:
        path: The run directory.
        own: The module that the run was trained with, if it was the user's own.
    """
    from safetensors import safe_open

    run = read_run(path)
    _check_own(path, run, own)
    file = path / MODEL
    try:
        tensors = load_file(file)
        with safe_open(file, framework="pt") as opened:
            header = opened.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise StoreError(
            f"The model `{file}` cannot be read: {error}",
            hint="is the run finished? continue it with `scr train ... --resume`",
        ) from None
    recipe = Recipe.from_tables(run["recipe"], preset=run["preset"]["name"])
    shape = ProblemShape(**json.loads(header["shape"]))
    encoder = make_encoder(recipe.encoder, recipe.encoder_settings, shape, own)
    try:
        encoder.load_state_dict(_below("encoder/", tensors))
    except RuntimeError as error:
        if own is None:
            raise
        raise ConfigError(
            "encoder", type(encoder.module).__name__, f"the module of the run `{path}`: {error}"
        ) from None
    encoder.eval()
    arrays = {name: tensor.numpy() for name, tensor in _below("features/", tensors).items()}
    features = restore_fitted(json.loads(header["features"]), arrays)
    return StoredModel(encoder, features, recipe, run, path)


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
    write_bytes(path, save({"nodes": handover.nodes, "soft_labels": handover.soft_labels}))


def read_handover(path: Path) -> Handover:
    """What the last stage was given, of a run whose label hops are built from it."""
    try:
        tensors = load_file(path)
        return Handover(tensors["nodes"], tensors["soft_labels"], tensors["nodes"][:0])
    except (SafetensorError, OSError, KeyError) as error:
        raise StoreError(f"The labels of earlier stages `{path}` cannot be read: {error}") from None


def remove_checkpoints(path: Path) -> None:
    """Remove what only a run under way needs."""
    for file in path.glob(f"{Path(CHECKPOINT).stem}*{Path(CHECKPOINT).suffix}"):
        file.unlink(missing_ok=True)


def write_split(path: Path, graph: Graph) -> None:
    """The split of the run, so that it can be used again wherever the graph comes from."""
    buffer = io.BytesIO()
    np.savez(buffer, train=graph.train, valid=graph.valid, test=graph.test)
    write_bytes(path, buffer.getvalue())


def read_split(path: Path) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Training, validation and test nodes of a run."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return file["train"], file["valid"], file["test"]
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise StoreError(f"The split `{path}` cannot be read: {error}") from None


def read_run(path: Path) -> dict[str, Any]:
    """`run.json` of a run directory."""
    if not (path / RUN).exists():
        raise RunError(
            f"`{path}` is not a run directory: it has no {RUN}",
            hint="`scr train GRAPH --out RUN` makes one",
        )
    return read_json(path / RUN)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object, with the file's name in any complaint."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StoreError(f"`{path}` cannot be read as JSON: {error}") from None
    return content


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON object whole or not at all."""
    write_bytes(path, (json.dumps(content, indent=2) + "\n").encode())


def write_history(path: Path, history: list[dict[str, Any]]) -> None:
    """One JSON object per line."""
    write_bytes(path, "".join(json.dumps(record) + "\n" for record in history).encode())


def _below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }
