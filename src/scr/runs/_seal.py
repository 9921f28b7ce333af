"""Checksums of a finished run: written with it, compared whenever the run is used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from scr.errors import RunError
from scr.runs._directory import (
    BREAKDOWN,
    CALIBRATION,
    EXPLANATION,
    HANDOVER,
    HISTORY,
    METRICS,
    MODEL,
    PREDICTIONS,
    RUN,
    SPLIT,
    SUGGESTIONS,
    as_json,
)
from scr.storage import CHECKSUMS, check_sealed, is_sealed, replace_sealed, seal_folder

SEALED = (
    RUN, HISTORY, MODEL, SPLIT, PREDICTIONS, CALIBRATION, BREAKDOWN, HANDOVER, EXPLANATION,
    SUGGESTIONS, "ensemble.json", "fit.json", "preparation.json", "preparation.npz", "times.json",
)  # fmt: skip
"""Files of a run that must stay as they were written; its page may be made again."""


def finish_run(path: Path, summary: Mapping[str, Any], members: Iterable[str] = ()) -> None:
    """Write checksums of a run and, last, its `metrics.json`; `members` are folders of models."""
    finish_files(path, METRICS, as_json(summary), [f"{folder}/{CHECKSUMS}" for folder in members])


def finish_files(path: Path, last: str, content: bytes, others: Iterable[str] = ()) -> None:
    """The same of a folder with files of a run, which another file than `metrics.json` finishes."""
    seal_folder(path, [*SEALED, *others], last, content)


def rewrite_json(path: Path, name: str, content: Mapping[str, Any]) -> None:
    """Change a JSON file of a run, be it finished or not."""
    replace_sealed(path, name, as_json(content))


def verify_run(path: Path, *, predictions: bool = True, may_lack: bool = False) -> list[str]:
    """Compare the files of a run with their checksums; returns the names of those that were read.

    Args:
        path: The run directory; a run of a version without checksums is accepted.
        predictions: Read `predictions.parquet` too, which may be large.
        may_lack: Accept missing files.

    Raises:
        RunError: The run is not finished.
        StoreError: A file is missing or has changed.
    """
    is_fold = not (path / METRICS).exists()
    if is_sealed(path) and is_fold and not may_lack and not (path / "held_out.npy").exists():
        raise RunError(
            f"The run has no `{path / METRICS}`; expected a finished run",
            hint="`scr train` can resume it",
        )
    return check_sealed(path, without=() if predictions else (PREDICTIONS,), may_lack=may_lack)
