"""`scr verify`: whether what is on disk is still what was written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scr import graph, prediction, propagation, storage
from scr.cli._console import print_line
from scr.cli._ending import Report
from scr.errors import RunError, StoreError

HOPS = "hops"
BESIDE = (HOPS, "features")
"""Folders of a store with what was made from it, each an artifact."""


def verify(
    path: Annotated[Path, typer.Argument(help="A store, hops, or a run directory.")],
) -> Report:
    """Read every byte of a store again, checksums and ranges, or check the files of a run."""
    if (path / "run.json").is_file():
        files = _verify_run(path)
        compared = prediction.verify_models(path)
        agree = f", and {compared} checksums agree" if compared else "; it has no checksums"
        print_line(f"{path} is intact: {', '.join(files)} can be read{agree}")
        return {"path": path, "files": files}
    arrays, size = _verify_artifact(path)
    beside = []
    for folder in sorted(each for name in BESIDE for each in (path / name).glob("[!.]*/")):
        try:
            _verify_artifact(folder)
        except StoreError as error:
            raise StoreError(
                f"{error.message} (`{path}` itself is intact)",
                hint="it is made again when it is next needed, or remove the folder",
            ) from None
        beside.append(folder)
    return {"path": path, "arrays": arrays, "bytes": size, "beside": beside}


def _verify_artifact(path: Path) -> tuple[int, int]:
    """Read all of a store, or of what lies beside one; returns how many arrays and bytes."""
    kind = storage.read_manifest(path).kind
    if kind == graph.KIND:
        manifest = graph.verify_store(path)
    else:
        manifest = storage.verify(path)
    if kind == HOPS:
        propagation.Hops.open(path)  # which compares its arrays with each other
    arrays = manifest.arrays
    size = sum(entry.bytes for entry in arrays.values())
    ranges = " with every number in its range" if kind == graph.KIND else ""
    print_line(
        f"{path} is intact: {len(arrays)} arrays{ranges}, {size:,} bytes, every checksum agrees"
    )
    return len(arrays), size


def _verify_run(path: Path) -> list[str]:
    """Open every file of a run; returns their names."""
    import pyarrow
    import pyarrow.parquet
    from safetensors import SafetensorError, safe_open

    damage = (ValueError, OSError, pyarrow.ArrowException, SafetensorError)
    checked = []
    models = [] if (path / prediction.ENSEMBLE).is_file() else ["model.safetensors"]
    for name in ("run.json", "metrics.json", *models, "predictions.parquet"):
        file = path / name
        if not file.exists():
            raise RunError(f"`{path}` has no `{name}`; expected a finished run")
        try:
            storage.check_plain(file)
            if name.endswith(".json"):
                storage.read_object(file)
            elif name.endswith(".parquet"):
                pyarrow.parquet.read_table(file)
            else:
                with safe_open(file, framework="numpy"):
                    pass
        except damage as error:
            raise RunError(f"`{file}` is damaged: {error}") from None
        checked.append(name)
    return checked
