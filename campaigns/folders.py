"""Commands of a user who may not write, read or replace what is named.

The command runs without the rights of root, on files of another user. It must refuse in one
sentence, before it trains and without a change, or do its work where reading suffices.
"""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path

import numpy as np

from campaigns import _fork
from campaigns._campaign import NOTE, Campaign, Result
from campaigns._refusals import complaint
from campaigns._scenarios import BY_NAME, Scenario, reference
from campaigns._trees import differences, leftovers, tree

OTHER = 65534
"""A user who is not the one that runs the campaign."""
CAPABILITIES_3 = 0x20080522
"""Version of the interface in linux/capability.h."""
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
        """Only root can make files of another user."""
        return None if os.geteuid() == 0 else "only root can make files of another user"

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
        work, log = folder / "work", folder / "log.txt"
        scenario.set_up(self.shared, work, log)
        before = tree(work)
        _obstruct(scenario, obstacle, work)
        try:
            ended = _fork.run_command(
                scenario.words, work, log, constants=scenario.constants, before=_drop_rights
            )
        finally:
            for path in (work, *work.rglob("*")):
                if not path.is_symlink():
                    path.chmod(0o755)
        found = tree(work)
        changed = differences(before, found) or leftovers(before, found)
        if ended.code == 0:
            changed = _unlike(scenario, obstacle, before, expected.after, found)
            outcome, detail = ("different", changed) if changed else ("worked", "")
        else:
            outcome, detail = complaint(ended)
            if not outcome and changed:
                outcome, detail = "changed something", changed
            if not outcome and TRAINING in ended.output:
                outcome, detail = "refused after training", ended.output[-300:]
            outcome = outcome or "refused before work"
        return Result(outcome=outcome, kind=obstacle, what=what, detail=detail)


def _unlike(
    scenario: Scenario, obstacle: str, before: dict[str, str], after: dict[str, str],
    found: dict[str, str],
) -> str:  # fmt: skip
    """What a command that worked has left otherwise than it should."""
    if obstacle == "inputs are read-only":  # what is kept beside an input has no place there
        after = {
            name: digest
            for entries, is_input in ((after, False), (before, True))
            for name, digest in entries.items()
            if (name.partition("/")[0] in scenario.inputs) == is_input
        }
    return differences(after, found) or leftovers(after, found)


def _drop_rights() -> None:
    """Be an owner of files like any other, and say when training begins."""
    header = struct.pack("Ii", CAPABILITIES_3, 0)
    if ctypes.CDLL(None, use_errno=True).capset(header, bytes(24)) != 0:
        raise OSError(ctypes.get_errno(), "capset")
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
        os.chown(work, OTHER, OTHER)
    elif obstacle == "inputs are not readable":
        for path in inputs:
            path.chmod(0)
    elif obstacle == "one input file is not readable":
        files = [file for path in inputs for file in (path, *path.rglob("*")) if file.is_file()]
        max(files, key=lambda file: file.stat().st_size).chmod(0)
    elif obstacle == "inputs are read-only":
        for path in inputs:
            _give_away(path)
    elif obstacle == "the older result belongs to another":
        for path in work.iterdir():
            if path not in inputs:
                _give_away(path)


def _give_away(path: Path) -> None:
    for each in (path, *path.rglob("*")):
        os.chown(each, OTHER, OTHER)
