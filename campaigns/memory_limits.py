"""Commands in little memory: a limit on addresses (`ulimit -v`), or a control group of its own.

A command must end as without a limit, or say in one sentence that memory does not suffice; it must
not be killed, and nothing may be half written.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from campaigns import _fork
from campaigns._campaign import NOTE, Campaign, Result
from campaigns._refusals import complaint
from campaigns._scenarios import BY_NAME, Reference, Scenario, reference
from campaigns._trees import differences, part, tree

V1, V2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
MEGABYTE = 1 << 20
ADDRESSES = (200, 1500)
"""Megabytes of addresses beyond those that a process has with scr and torch imported."""
GROUP = (120, 900)
"""Megabytes of a control group, in which a process of its own starts from nothing."""
NAMES = (
    "synth", "ingest shards", "ingest parquet shards", "ingest tables", "ingest ogb",
    "ingest bundle", "propagate", "propagate larger", "train sagn scr", "train gcn scr-m",
    "predict csv",
)  # fmt: skip
EXTRA = (
    Scenario("propagate larger", "propagate larger --hops 8 --out hops", ("larger",), whole="hops"),
)
SCENARIOS = tuple(each for each in (*BY_NAME.values(), *EXTRA) if each.name in NAMES)


class MemoryLimits(Campaign):
    """Commands that read and compute, with less memory than they would take."""

    name = "memory-limits"
    title = "commands under `ulimit -v` and in control groups with little memory"
    cases = 150
    minutes = 6
    seconds = 300
    good = frozenset({"equal", "refused", "not possible here"})

    def skip(self) -> str | None:
        """Limits on addresses are those of Linux."""
        return None if sys.platform == "linux" else "limits of memory are those of Linux"

    def start(self, shared: Path) -> None:
        """Import scr once, and see which control groups there are."""
        self.shared = shared
        _fork.import_everything()

    def run(self, number: int, random: np.random.Generator, folder: Path) -> Result:
        """Run one command within one limit."""
        chosen = number if number < len(SCENARIOS) else int(random.integers(len(SCENARIOS)))
        wants_group = bool(random.random() < 0.3)
        lowest, highest = GROUP if wants_group else ADDRESSES
        size = int(MEGABYTE * lowest * (highest / lowest) ** random.random())
        return self.limit(SCENARIOS[chosen], size // MEGABYTE, folder, in_group=wants_group)

    def limit(
        self, scenario: Scenario, megabytes: int, folder: Path, *, in_group: bool = False
    ) -> Result:
        """Run a command with so much memory."""
        expected = reference(scenario, self.shared)
        what = f"scr {scenario.line}; {megabytes} MB " + (
            "in a control group" if in_group else "more addresses"
        )
        kind, size = "control group" if in_group else "ulimit -v", megabytes * MEGABYTE
        (folder / NOTE).write_text(f"{kind}\n{what}", encoding="utf-8")
        work, log = folder / "work", folder / "log.txt"
        scenario.set_up(self.shared, work, log)
        with contextlib.ExitStack() as stack:
            if in_group:
                group = stack.enter_context(control_group(size))
                if group is None:
                    return Result(outcome="not possible here", kind=kind, what=what)
                ended = _in_group(scenario, work, log, group)
            else:
                ended = _fork.run_command(
                    scenario.words, work, log, constants=scenario.constants,
                    before=lambda: _limit_addresses(size),
                )  # fmt: skip
        outcome, detail = _judge(scenario, expected, ended, tree(work))
        return Result(outcome=outcome, kind=kind, what=what, detail=detail)


def _limit_addresses(more: int) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    size = pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


@contextlib.contextmanager
def control_group(size: int) -> Iterator[Path | None]:
    """A control group with so much memory; none where this user may not make one."""
    is_v1 = (V1 / "memory.limit_in_bytes").exists()
    group = (V1 if is_v1 else V2) / f"scr-campaign-{os.getpid()}"
    try:
        group.mkdir()
        (group / ("memory.limit_in_bytes" if is_v1 else "memory.max")).write_text(str(size))
    except OSError:
        with contextlib.suppress(OSError):
            group.rmdir()
        yield None
        return
    try:
        yield group
    finally:
        for _ in range(100):  # the kernel forgets dead processes in its own time
            try:
                group.rmdir()
                break
            except OSError:
                time.sleep(0.05)


_CODE = """
import importlib, sys
from scr.cli import main
from scr.compute import check_limits
from scr.errors import MemoryBudgetError
try:
    check_limits()
except MemoryBudgetError:
    main(sys.argv[1:])  # says so before modules with constants, and torch with them, are imported
for name, value in {constants!r}.items():
    module, _, constant = name.partition(":")
    setattr(importlib.import_module(module), constant, value)
main(sys.argv[1:])
"""


def _in_group(scenario: Scenario, work: Path, log: Path, group: Path) -> _fork.Ended:
    """Run a command in a process of its own: what a fork shares would be charged to its parent."""
    code = _CODE.format(constants=dict(scenario.constants))
    environment = os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}

    def join() -> None:
        (group / "cgroup.procs").write_text(str(os.getpid()))

    began = time.monotonic()
    with log.open("wb") as output:
        done = subprocess.run(
            [sys.executable, "-c", code, *scenario.words], cwd=work, stdout=output, stderr=output,
            env=environment, preexec_fn=join, check=False, timeout=200,
        )  # fmt: skip
    text = log.read_text(encoding="utf-8", errors="replace")
    return _fork.Ended(done.returncode, time.monotonic() - began, text)


def _judge(
    scenario: Scenario, expected: Reference, ended: _fork.Ended, found: dict[str, str]
) -> tuple[str, str]:
    """The outcome, and what was found."""
    if ended.code == 0:
        changed = differences(expected.after, found)
        return ("different", changed) if changed else ("equal", "")
    outcome, detail = complaint(ended, names_file=False)
    if outcome == "crash" and "SIGKILL" in detail:
        outcome = "killed by the system"
    if outcome:
        return outcome, detail
    if not re.search(r"memory|budget|allocat|address space", ended.output, flags=re.IGNORECASE):
        return "another refusal", ended.output[-300:]
    name = scenario.whole
    if name is not None and part(found, name) != part(expected.before, name):
        return "half written", differences(part(expected.before, name), part(found, name))
    return "refused", ""
