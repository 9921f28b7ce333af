"""Commands on a disk that becomes full while they write.

The disk is a tmpfs with a random number of bytes free (Linux, as root), or files may not grow
beyond a random size (`RLIMIT_FSIZE`). The command must say so in a sentence that names a file,
leave nothing half written, and end as if undisturbed when it is given again with enough space.
"""

from __future__ import annotations

import ctypes
import os
import resource
from pathlib import Path

import numpy as np

from campaigns import _fork
from campaigns._campaign import NOTE, Campaign, Result
from campaigns._refusals import complaint
from campaigns._scenarios import BY_NAME, Reference, Scenario, reference
from campaigns._trees import differences, leftovers, part, tree

SCENARIOS = tuple(
    scenario for name, scenario in BY_NAME.items() if scenario.weight >= 0.5 and name != "synth ogb"
)
"""All but the slowest ones, of which a case would take half a minute."""
CLONE_NEWNS, MS_REC, MS_PRIVATE, MS_REMOUNT, MNT_DETACH = 0x20000, 0x4000, 1 << 18, 32, 2
AMPLE = 1 << 30
SMALLEST_FILE = 8192
"""The log of a command is a file as well, and must hold its sentence."""
MORE = 1.3
"""The largest disk, against what the command leaves: it may need more while it works."""


class FullDisk(Campaign):
    """Every command on a disk without enough space."""

    name = "full-disk"
    title = "every command on a disk that becomes full, then given again with enough space"
    cases = 300
    minutes = 8
    seconds = 300
    good = frozenset({"said and recovered", "enough space"})

    def start(self, shared: Path) -> None:
        """Import scr once, and see whether disks can be mounted here."""
        self.shared = shared
        _fork.import_everything()
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.mounts = self._own_mounts()

    def run(self, number: int, random: np.random.Generator, folder: Path) -> Result:
        """Run one command without space, then with."""
        chosen = number if number < len(SCENARIOS) else int(random.integers(len(SCENARIOS)))
        scenario, share = SCENARIOS[chosen], float(random.random())
        # Drawn in any case, so that a case is the same one with and without disks.
        on_disk = bool(random.random() < 0.7) and self.mounts
        return self.fill(scenario, share, folder, on_disk=on_disk)

    def fill(self, scenario: Scenario, share: float, folder: Path, *, on_disk: bool) -> Result:
        """Run a command with this share of the space that it needs."""
        expected = reference(scenario, self.shared)
        work, log = folder / "work", folder / "log.txt"
        work.mkdir()
        if on_disk:
            self._mount(work, AMPLE)
        try:
            return self._fill(scenario, expected, share, folder, work, log, on_disk=on_disk)
        finally:
            if on_disk:
                self.libc.umount2(os.fsencode(work), MNT_DETACH)

    def _fill(
        self, scenario: Scenario, expected: Reference, share: float, folder: Path, work: Path,
        log: Path, *, on_disk: bool,
    ) -> Result:  # fmt: skip
        scenario.set_up(self.shared, work, log)
        before = tree(work)
        free = _free(expected, share, on_disk=on_disk)
        what = f"scr {scenario.line}; {free:,} bytes {'free' if on_disk else 'at most in a file'}"
        (folder / NOTE).write_text(f"{scenario.name}\n{what}", encoding="utf-8")
        if on_disk:
            used = os.statvfs(work)
            page = os.sysconf("SC_PAGE_SIZE")
            held = (used.f_blocks - used.f_bfree) * used.f_frsize
            self._mount(work, max(page, held + free // page * page), again=True)

        def limit() -> None:
            if not on_disk:
                resource.setrlimit(resource.RLIMIT_FSIZE, (free, free))

        ended = _fork.run_command(
            scenario.words, work, log, constants=scenario.constants, before=limit
        )
        if on_disk:
            self._mount(work, AMPLE, again=True)
        outcome, detail = _judge(scenario, expected, before, ended, work, log)
        return Result(
            outcome=outcome, kind=scenario.name, what=what, detail=detail,
            counts={"full disks": int(ended.code != 0)},
        )  # fmt: skip

    def _own_mounts(self) -> bool:
        """Mounts of this worker are its own, and end with it."""
        if os.geteuid() != 0 or self.libc.unshare(CLONE_NEWNS) != 0:
            return False
        return bool(self.libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) == 0)

    def _mount(self, folder: Path, size: int, *, again: bool = False) -> None:
        flags, options = MS_REMOUNT if again else 0, f"size={size}".encode()
        if self.libc.mount(b"scr", os.fsencode(folder), b"tmpfs", flags, options) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"tmpfs of {size} bytes: {os.strerror(number)}")


def _free(expected: Reference, share: float, *, on_disk: bool) -> int:
    """How many bytes a command gets: of the disk, or in its largest file."""
    new = [
        size for name, size in expected.sizes.items()
        if expected.before.get(name) != expected.after.get(name)
    ]  # fmt: skip
    if on_disk:
        return int(share * MORE * sum(new))
    return int(SMALLEST_FILE + share * max(0, max(new, default=0) - SMALLEST_FILE))


def _judge(
    scenario: Scenario, expected: Reference, before: dict[str, str], ended: _fork.Ended,
    work: Path, log: Path,
) -> tuple[str, str]:  # fmt: skip
    """The outcome, and what was found."""
    found = tree(work)
    if ended.code == 0:
        changed = differences(expected.after, found) or leftovers(expected.after, found)
        return ("different", changed) if changed else ("enough space", "")
    outcome, detail = complaint(ended)
    if outcome:
        return outcome, detail
    if scenario.whole is not None and part(found, scenario.whole) != part(before, scenario.whole):
        return "half written", differences(part(before, scenario.whole), found)
    again = _fork.run_command(scenario.words, work, log, constants=scenario.constants)
    said = " ".join(again.output.split())[-300:]
    if again.hung or again.code:
        return "does not recover", said
    found = tree(work)
    if changed := differences(expected.after, found):
        return "different", changed
    if extra := leftovers(expected.after, found):
        return "leftovers", extra
    return "said and recovered", ""
