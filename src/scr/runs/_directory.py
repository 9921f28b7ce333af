"""A run on disk: what was asked, what came out, and the weights, in files that anybody can read.

run.json            recipe, preset and why, seed, versions, data fingerprint, notes
history.jsonl       one line per evaluated epoch
model.safetensors   weights, and the fitted preparation of the features
explanation.json    which hops and relations carry the predictions
metrics.json        accuracies, times, memory; written last: a run with it is finished
predictions.parquet one row per node
split.npz           numbers of the training, validation and test nodes
checksums.json      of the files above and below, but for its page and checkpoints
calibration.npz     scores of the validation nodes, for prediction sets
breakdown.json      how many nodes are right, by degree and by distance to a known label
graph/              of a run that `scr fit` made: its graph, as a store
handover.safetensors   of a run in stages that reads label hops: what its last stage was given
checkpoint*.safetensors   while the run is under way
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scr.errors import RunError, StoreError
from scr.storage import CHECKSUMS, discard_partial, load_arrays, read_object, write_bytes

if TYPE_CHECKING:
    from scr.graph import Graph
    from scr.training import Recipe

SCHEMA = 1
IDENTITY = 2
"""Version of the rule for `run_identity`; version 1 left out settings that were younger than it."""
RUN, METRICS, HISTORY = "run.json", "metrics.json", "history.jsonl"
MODEL, CHECKPOINT = "model.safetensors", "checkpoint.safetensors"
PREDICTIONS, EXPLANATION = "predictions.parquet", "explanation.json"
SUGGESTIONS = "suggestions.json"
REPORT, SPLIT, HANDOVER = "report.html", "split.npz", "handover.safetensors"
CALIBRATION, BREAKDOWN, GRAPH = "calibration.npz", "breakdown.json", "graph"

RUN_FIELDS: dict[str, Any] = {
    "graph.name": str, "graph.source": str | None, "graph.nodes": int, "graph.edges": int,
    "graph.features": int, "graph.classes": int, "graph.class_names": list[str],
    "graph.fingerprint": str, "graph.features_file?": str | None, "graph.relations?": list[str],
    "encoder": str, "regularizer": str, "recipe": dict, "preset.name": str, "preset.reason": str,
    "seed": int, "notes": list[str], "subsets?": list[list[str]] | None, "threads?": int,
    "versions?": dict[str, str],
}  # fmt: skip
"""What is read from `run.json`."""
METRICS_FIELDS: dict[str, Any] = {
    "valid_accuracy": float | None, "test_accuracy": float | None, "epochs": int,
    "best_epoch": int, "stopped": str, "train_seconds": float, "seconds?": float, "metric?": str,
    "valid?": dict[str, Any], "test?": dict[str, Any], "consistency?": dict[str, Any],
}  # fmt: skip
"""What is read from `metrics.json`."""

_NOT_SET = object()
_PACKAGES = ("scr-gnn", "torch", "numpy", "scipy", "numba", "scikit-learn", "pyarrow")


def describe_run(
    graph: Graph,
    recipe: Recipe,
    *,
    seed: int,
    source: str | None,
    command: str | None,
    threads: int,
) -> dict[str, Any]:
    """The content of `run.json`, as far as it is known before training.

    The source is where the graph can be loaded from again, the command as it was typed.
    """
    other_features, types = graph.features_file, {}
    if graph.is_typed:
        relations = [str(relation) for relation in graph.relations]
        types = {"target": graph.target, "types": dict(graph.node_types), "relations": relations}
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
            **types,
            **({"multilabel": True} if graph.is_multilabel else {}),
        },
        "encoder": recipe.encoder,
        "regularizer": recipe.regularizer,
        "recipe": recipe.tables(),
        "preset": {"name": recipe.preset, "reason": recipe.reason},
        "rows_kept": "all",
        "seed": seed,
        "threads": threads,
        "versions": versions(),
        "command": command,
        "notes": [],
    }


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide numbers."""
    installed = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            installed[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return installed


def run_identity(graph: Graph, recipe: Recipe, seed: int, *special: str) -> str:
    """Names a run by everything that decides its result: graph, split, settings, seed.

    What else decides it is `special`, such as the rows that hops were kept for.
    """
    content = [IDENTITY, recipe.tables(), seed, graph.fingerprint(), *special]
    encoded = json.dumps(content, sort_keys=True).encode()
    return hashlib.blake2b(encoded, digest_size=8).hexdigest()


def subsets_identity(subsets: Sequence[Sequence[str]] | None) -> list[str]:
    """What names subsets of relations in the identity of a run."""
    return [] if subsets is None else [f"subsets {json.dumps(subsets)}"]


def start_run(path: Path, run: Mapping[str, Any], *, resume: bool) -> bool:
    """Make the folder of a run, or, to resume, check that an existing one is the same run.

    Returns whether the run is finished already.
    """
    if path.exists() and not path.is_dir():
        raise RunError(f"`{path}` is a file; expected a folder for the run, or nothing")
    if path.exists() and any(path.iterdir()):
        if not resume:
            raise RunError(
                f"The run directory `{path}` exists already; expected a new one",
                hint="choose another folder as `out`, or continue the run with `resume`",
            )
        if (path / RUN).exists():
            _check_same(path, read_run(path), run)
            is_finished = (path / METRICS).exists()
            if not is_finished:  # a kill has left them, and files will change
                (path / CHECKSUMS).unlink(missing_ok=True)
            return is_finished
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
            named = "" if what == "graph" else f": {', '.join(_changes(what, before, now))}"
            raise RunError(
                f"The run in `{path}` was started with another {what}{named}; expected the same to "
                "continue it",
                hint="use the settings of the first call, or another folder",
            )


def _changes(name: str, before: Any, now: Any) -> Iterator[str]:
    """Every setting that differs, by its name.

    >>> [*_changes("recipe", {"stages": {"epochs": 3, "share": 9}}, {"stages": {"epochs": 5}})]
    ['stages.epochs was 3, is 5', 'stages.share was 9, is not set']
    """
    if not (isinstance(before, Mapping) and isinstance(now, Mapping)):
        yield f"{name} was {_shown(before)}, is {_shown(now)}"
        return
    prefix = "" if name == "recipe" else f"{name}."
    for key in dict.fromkeys([*before, *now]):
        one, other = before.get(key, _NOT_SET), now.get(key, _NOT_SET)
        if one != other:
            yield from _changes(f"{prefix}{key}", one, other)


def _shown(value: Any) -> str:
    return "not set" if value is _NOT_SET else json.dumps(value).strip('"')


def read_run(path: Path) -> dict[str, Any]:
    """`run.json` of a run directory."""
    if not path.exists():
        raise RunError(
            f"`{path}` does not exist; expected a run directory",
            hint="`scr fit` and `scr train` make one",
        )
    if not (path / RUN).exists():
        raise RunError(
            f"`{path}` is not a run directory: it has no {RUN}",
            hint="`scr fit` and `scr train` make one",
        )
    return read_object(path / RUN, what="record of the run", fields=RUN_FIELDS)


def read_metrics(path: Path) -> dict[str, Any]:
    """`metrics.json` of a run directory."""
    return read_object(path / METRICS, what="result of the run", fields=METRICS_FIELDS)


def remove_checkpoints(path: Path) -> None:
    """Remove what only a run under way needs."""
    for file in path.glob(f"{Path(CHECKPOINT).stem}*{Path(CHECKPOINT).suffix}"):
        file.unlink(missing_ok=True)
    discard_partial(path)


def read_json(path: Path, fields: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Read a JSON object, with the file's name in any complaint; `fields` as of `check_fields`."""
    return read_object(path, fields=fields)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON object whole or not at all."""
    write_bytes(path, as_json(content))


def as_json(content: Mapping[str, Any]) -> bytes:
    """The text of a JSON object, as files of a run have it."""
    return (json.dumps(content, indent=2) + "\n").encode()


def write_history(path: Path, history: list[dict[str, Any]]) -> None:
    """One JSON object per line."""
    write_bytes(path, "".join(json.dumps(record) + "\n" for record in history).encode())


def write_split(path: Path, graph: Graph) -> None:
    """The split of the run, so that it can be used again wherever the graph comes from."""
    buffer = io.BytesIO()
    np.savez(buffer, train=graph.train, valid=graph.valid, test=graph.test)
    write_bytes(path, buffer.getvalue())


def read_split(path: Path) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Training, validation and test nodes of a run."""
    arrays = load_arrays(path, what="a split", names=("train", "valid", "test"))
    parts = arrays["train"], arrays["valid"], arrays["test"]
    for part in parts:
        if part.ndim != 1 or part.dtype != np.int64 or (len(part) and part.min() < 0):
            raise StoreError(f"The split `{path}` is damaged; expected three lists of nodes")
    return parts
