"""Run cases of a campaign in worker processes, each restarted when a case ends or blocks it.

Workers are started afresh, not forked, so that a campaign may fork a worker safely. A worker whose
case crashes is replaced, and the case has the outcome `crash`; one that does not answer in time is
killed with all that it started, and the case has the outcome `hang`.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from filelock import FileLock

from campaigns._campaign import BROKEN, CRASH, HANG, NOTE, Campaign, Result, generator

PREPARED = "prepared"
PREPARATION_SECONDS = 900.0
"""A worker that is not ready after this long does not become so."""
CONTEXT = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Row:
    """The result of one case, with its number and how long it took."""

    number: int
    seconds: float
    result: Result

    def json(self) -> dict[str, Any]:
        """The row as it is stored."""
        found = self.result
        row = {"number": self.number, "outcome": found.outcome, "kind": found.kind}
        row |= {"what": found.what, "detail": found.detail, "counts": dict(found.counts)}
        return row | {"seconds": round(self.seconds, 3)}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Row:
        """A stored row."""
        names = ("outcome", "kind", "what", "detail", "counts")
        return cls(row["number"], row["seconds"], Result(**{name: row[name] for name in names}))


def run_cases(
    campaign: Campaign,
    numbers: Iterable[int],
    *,
    seed: int,
    work: Path,
    jobs: int = 1,
    until: Callable[[], bool] = lambda: False,
) -> Iterator[Row]:
    """Run cases on `jobs` workers and yield their rows as they come; `until` says when to stop.

    Args:
        work: Where `shared` files and the folders of cases are; folders of failures stay.
    """
    work.mkdir(parents=True, exist_ok=True)
    left = iter(numbers)
    workers: list[_Worker] = []
    try:
        while True:
            while len(workers) < jobs and not until():
                number = next(left, None)
                if number is None:
                    break
                idle = _Worker(campaign, seed, work)
                workers.append(idle)
                idle.give(number)
            if not workers:
                return
            wait([each.answers for each in workers], timeout=0.5)
            for worker in list(workers):
                row = worker.row()
                if row is None:
                    continue
                yield row
                number = None if until() else next(left, None)
                if number is None or not worker.is_alive():
                    worker.close()
                    workers.remove(worker)
                    if number is not None:
                        workers.append(_Worker(campaign, seed, work))
                        workers[-1].give(number)
                else:
                    worker.give(number)
    finally:
        for worker in workers:
            worker.close()


class _Worker:
    """A process that runs one case after the other."""

    def __init__(self, campaign: Campaign, seed: int, work: Path) -> None:
        self.campaign, self.work = campaign, work
        self.answers, theirs = CONTEXT.Pipe()
        self.process = CONTEXT.Process(target=_serve, args=(campaign, seed, work, theirs))
        self.process.start()
        theirs.close()
        self.number, self.given, self.is_ready = -1, 0.0, False

    def give(self, number: int) -> None:
        """Start a case."""
        self.number, self.given = number, time.monotonic()
        self.answers.send(number)

    def is_alive(self) -> bool:
        return self.process.is_alive()

    def row(self) -> Row | None:
        """The row of the case that runs, once it has ended in any way."""
        elapsed = time.monotonic() - self.given
        if self.answers.poll():
            try:
                answer = self.answers.recv()
            except (EOFError, ConnectionResetError):
                self.process.join()
                if not self.is_ready:
                    raise SystemExit(f"{self.campaign.name}: cannot be prepared") from None
                return self._row(elapsed, CRASH, f"exit code {self.process.exitcode}")
            if answer == PREPARED:
                self.is_ready, self.given = True, time.monotonic()
                return None
            return Row(self.number, elapsed, answer)
        if elapsed > (self.campaign.seconds if self.is_ready else PREPARATION_SECONDS):
            self.close()
            return self._row(elapsed, HANG, f"no answer after {elapsed:.0f} s")
        return None

    def close(self) -> None:
        """End the process, and all that it has started."""
        self.answers.close()
        if self.process.is_alive() and self.process.pid is not None:
            if os.getpgid(self.process.pid) == self.process.pid:
                os.killpg(self.process.pid, signal.SIGKILL)
            else:
                self.process.kill()
        self.process.join()

    def _row(self, elapsed: float, outcome: str, detail: str) -> Row:
        note = self.work / f"case-{self.number}" / NOTE
        text = note.read_text(encoding="utf-8") if note.exists() else "?"
        kind, _, what = text.partition("\n")
        return Row(
            self.number, elapsed, Result(outcome=outcome, kind=kind, what=what, detail=detail)
        )


def _serve(campaign: Campaign, seed: int, work: Path, answers: Connection) -> None:
    """Run the cases that are asked for, until nobody asks."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when a case is over
    shared = work / "shared"
    with FileLock(work / "shared.lock"):
        if not (shared / PREPARED).exists():
            shutil.rmtree(shared, ignore_errors=True)
            shared.mkdir()
            campaign.prepare(shared)
            (shared / PREPARED).touch()
    campaign.start(shared)
    answers.send(PREPARED)
    while True:
        try:
            number = answers.recv()
        except EOFError:
            return
        folder = work / f"case-{number}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        try:
            result = campaign.run(number, generator(campaign.name, seed, number), folder)
        except Exception:  # noqa: BLE001 - a mistake of the campaign is a row as well
            result = Result(outcome=BROKEN, kind="?", detail=traceback.format_exc()[-2000:])
        if result.outcome in campaign.good:
            shutil.rmtree(folder, ignore_errors=True)
        answers.send(result)
