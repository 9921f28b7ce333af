"""Predictions of a large graph as a folder of Parquet files, written by several workers.

Every worker opens the run by its path and predicts some ranges of nodes, one file for each. The
files are in the order of the nodes, and together are the table that `write_predictions` writes.
The folder has its name once all of them are whole; what a call that was stopped has finished is
used by the next one.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from scr import runs
from scr.engines import Engine, Needs, opened
from scr.errors import EngineError
from scr.prediction._ensemble import open_run
from scr.prediction._table import ROWS_PER_PART, ProbabilityColumns, write_predictions
from scr.storage import FILE, atomic_folder, check_new_folder, check_replaced, digest, write_bytes

ROWS_PER_SHARD = 16 * ROWS_PER_PART
"""Of one file, about a million; whole parts, so that batches are those of a single file."""
_NAME = "part-{:05d}.parquet"
_REQUEST = "_request.json"
"""What the files are of, while they are written."""
_COUNT = -1
"""The item that asks for the number of rows."""


@dataclass(frozen=True, kw_only=True)
class ShardRequest:
    """What every worker predicts; arguments as of `Predictor.write_predictions`."""

    run: str
    columns: ProbabilityColumns
    coverage: float | None = None
    per_class: bool = False
    class_shares: str = "none"
    device: str = "cpu"
    rows: int = ROWS_PER_SHARD
    """Of one file."""


def write_prediction_shards(
    run: Path,
    out: Path,
    *,
    engine: Engine | str = "local",
    columns: ProbabilityColumns | None = None,
    coverage: float | None = None,
    per_class: bool = False,
    class_shares: str = "none",
    device: str = "cpu",
    overwrite: bool = False,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> int:
    """Write the predictions of a run as a folder of Parquet files; returns how many files.

    Args:
        run: A finished run directory, which all machines see.
        out: The folder, which all machines see.
        engine: What runs the workers, open or by its name.
        columns: Which probabilities to add.
        coverage: As of `NodeClassifier.write_predictions`, like the next two.
        per_class: Keep the coverage within every class.
        class_shares: Estimate that predictions are corrected by.
        device: Where torch computes.
        overwrite: Replace a folder of predictions.
        on_progress: Called with what is done, how many files, and of how many.
    """
    request = ShardRequest(
        run=str(run.resolve()), columns=columns or ProbabilityColumns(), coverage=coverage,
        per_class=per_class, class_shares=class_shares, device=device, rows=ROWS_PER_SHARD,
    )  # fmt: skip
    predictor = open_run(run, device=device)  # what is wrong with it is said before any work
    if coverage is not None:
        predictor.set_limits(coverage, per_class=per_class)
    del predictor
    check = _check_replaced if overwrite else check_new_folder
    with atomic_folder(out.absolute(), check=check, keep=True, resume=True) as folder:
        _prepare(folder, request)
        with opened(engine) as workers:
            count = _write_all(folder, request, workers, on_progress)
        _remove([folder / _REQUEST, *folder.glob(".*")])
    return count


def _prepare(folder: Path, request: ShardRequest) -> None:
    """Keep what an earlier call has written of the same, and nothing else."""
    files = [Path(request.run) / name for name in (runs.RUN, runs.METRICS)]
    identity = {**asdict(request), "files": [digest(each.read_bytes()) for each in files]}
    content = json.dumps(identity, sort_keys=True).encode()
    known = folder / _REQUEST
    if not known.is_file() or known.read_bytes() != content:
        _remove(folder.iterdir())
        write_bytes(known, content)
    _remove(folder.glob(".*"))  # of workers that were killed


def _remove(entries: Iterable[Path]) -> None:
    for entry in list(entries):
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _write_all(
    folder: Path,
    request: ShardRequest,
    engine: Engine,
    on_progress: Callable[[str, int, int], None] | None,
) -> int:
    total: int | None = None
    done = 0

    def items() -> Iterator[int | None]:
        yield _COUNT
        while total is None:
            yield None
        for number in range(total):
            if not (folder / _NAME.format(number)).is_file():
                yield number

    for item, result in engine.run(_start, (request, folder), items(), needs=Needs()):
        if item == _COUNT:
            total = -(-result // request.rows)
            done = sum((folder / _NAME.format(number)).is_file() for number in range(total))
        else:
            done += 1
            if not (folder / _NAME.format(item)).is_file():
                raise EngineError(
                    f"A worker has written a file in `{folder}` that is not there on this machine; "
                    "expected a file system that all machines share",
                    hint="choose a shared folder as `out`",
                )
        if on_progress is not None and total is not None:
            on_progress("Predicting", done, total)
    return done


def _start(shared: tuple[ShardRequest, Path]) -> Callable[[int], int]:
    """Set up a worker: open the run, and find out which nodes it predicts."""
    request, folder = shared
    predictor = open_run(Path(request.run), device=request.device)
    limits = None
    if request.coverage is not None:
        limits = predictor.set_limits(request.coverage, per_class=request.per_class)
    graph, index, predict = predictor.for_table(None, None, request.class_shares)
    count = graph.num_targets if index is None else len(index)
    write = partial(
        write_predictions, graph=graph, predict=predict, columns=request.columns,
        set_limits=limits, multilabel=predictor.model.multilabel,
    )  # fmt: skip

    def work(number: int) -> int:
        if number == _COUNT:
            return count
        start = number * request.rows
        rows = np.arange(start, min(start + request.rows, count))
        write(folder / _NAME.format(number), nodes=rows if index is None else index[rows])
        return len(rows)

    return work


def _check_replaced(path: Path) -> None:
    """Refuse to replace a folder that is not of predictions, or holds more than these."""
    contents: Any = {"part-*.parquet": FILE}
    check_replaced(path, contents, known_by=_NAME.format(0))
