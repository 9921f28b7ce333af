"""Commands of a user who may not write, read or replace what is named.

The command runs as another user than the owner of the files. It must refuse in one sentence, before
it trains and without a change, or do its work where reading suffices.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np

from campaigns import _fork
from campaigns._campaign import NOTE, Campaign, Result
from campaigns._refusals import complaint
from campaigns._scenarios import BY_NAME, Scenario, reference
from campaigns._trees import differences, leftovers, tree

NOBODY = 65534
TRAINING = "training begins"
"""What a command prints, in this campaign, when it begins to train."""
SCENARIOS = tuple(scenario for name, scenario in BY_NAME.items() if scenario.weight >= 0.5)
OBSTACLES = (
    "the folder is read-only",
    "inputs are not readable",
    "one input file is not readable",
    "the older result belongs to another",
    "inputs are read-only",
)


class Folders(Campaign):
    """Every command, where rights are missing."""

    name = "folders"
    title = "every command as a user who may not write or read what it names"
    cases = 150
    minutes = 4
    good = frozenset({"refused before work", "worked"})

    def skip(self) -> str | None:
        """Only root can become another user."""
        return None if os.geteuid() == 0 else "only root can run commands as another user"

    def start(self, shared: Path) -> None:
        """Import scr once."""
        self.shared = shared
        _fork.import_everything()

    def run(self, number: int, random: np.random.Generator, folder: Path) -> Result:
        """Put one obstacle before one command."""
        obstacle = OBSTACLES[number % len(OBSTACLES)]
        possible = [
            scenario for scenario in SCENARIOS
            if ("input" not in obstacle or scenario.inputs)
            and ("older" not in obstacle or scenario.older)
        ]  # fmt: skip
        return self.obstruct(possible[int(random.integers(len(possible)))], obstacle, folder)

    def obstruct(self, scenario: Scenario, obstacle: str, folder: Path) -> Result:
        """Run a command behind an obstacle."""
        expected = reference(scenario, self.shared)
        what = f"scr {scenario.line}; {obstacle}"
        (folder / NOTE).write_text(f"{obstacle}\n{what}", encoding="utf-8")
        # Not within the folders of whoever runs the campaign, which others may not enter.
        place = Path("/tmp") / f"scr-campaign-{os.getpid()}"
        shutil.rmtree(place, ignore_errors=True)
        work, log = place / "work", place / "log.txt"
        place.mkdir(mode=0o755)
        scenario.set_up(self.shared, work, log)
        _obstruct(scenario, obstacle, work)
        log.write_bytes(b"")
        log.chmod(0o666)
        before = tree(work)
        ended = _fork.run_command(
            scenario.words, work, log, constants=scenario.constants, before=_as_nobody
        )
        found = tree(work)
        shutil.copy(log, folder / "log.txt")
        shutil.rmtree(place)
        changed = differences(before, found) or leftovers(before, found)
        if ended.code == 0:
            changed = differences(expected.after, found)
            outcome, detail = ("different", changed) if changed else ("worked", "")
        else:
            outcome, detail = complaint(ended)
            if not outcome and changed:
                outcome, detail = "changed something", changed
            if not outcome and TRAINING in ended.output:
                outcome, detail = "refused after training", ended.output[-300:]
            outcome = outcome or "refused before work"
        return Result(outcome=outcome, kind=obstacle, what=what, detail=detail)


def _as_nobody() -> None:
    """Become another user, and say when training begins."""
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    os.environ["HOME"] = "/nonexistent"
    import scr

    whole = scr.NodeClassifier.fit

    def fit(*arguments: object, **settings: object) -> object:
        print(TRAINING, flush=True)
        return whole(*arguments, **settings)

    scr.NodeClassifier.fit = fit


def _obstruct(scenario: Scenario, obstacle: str, work: Path) -> None:
    """Take the rights away."""
    inputs = [work / name for name in scenario.inputs]
    if obstacle == "the folder is read-only":
        work.chmod(0o555)
        for path in work.iterdir():
            _give(path)
        return
    work.chmod(0o777)
    for path in work.iterdir():
        if obstacle != "the older result belongs to another" or path in inputs:
            _give(path)
    if obstacle == "inputs are not readable":
        for path in inputs:
            path.chmod(0)
    elif obstacle == "one input file is not readable":
        files = [file for path in inputs for file in (path, *path.rglob("*")) if file.is_file()]
        largest = max(files, key=lambda file: file.stat().st_size)
        os.chown(largest, 0, 0)
        largest.chmod(0)
    elif obstacle == "inputs are read-only":
        for path in inputs:
            for each in (path, *path.rglob("*")):
                os.chown(each, 0, 0)
                each.chmod(0o555 if each.is_dir() else 0o444)


def _give(path: Path) -> None:
    for each in (path, *path.rglob("*")):
        os.chown(each, NOBODY, NOBODY)
