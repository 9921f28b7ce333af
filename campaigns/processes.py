"""Two and eight processes at the same time on one target, one run, one store with its cache.

All must end, with the result or with one sentence; what is there in the end is what one process
alone would have left.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from campaigns import _fork
from campaigns._campaign import NOTE, Campaign, Result
from campaigns._refusals import complaint
from campaigns._scenarios import BY_NAME, QUICK, SMALL, Scenario, reference
from campaigns._trees import differences, leftovers, tree

SCENARIOS = tuple(
    scenario for name, scenario in BY_NAME.items() if scenario.weight >= 0.5 and name != "synth ogb"
)
SHARED_STORE = "one store, a run for each"
OWN_RUN = "train store --encoder {encoder} --out run-{number} " + QUICK
ENCODERS = ("sagn", "sgc", "gamlp", "gcn")
END_SECONDS = 240.0
"""Eight processes on two cores take four times as long as one."""


class Processes(Campaign):
    """Every command, by several processes at once."""

    name = "processes"
    title = "two and eight processes at once on one target, one run, one store"
    cases = 150
    minutes = 12
    seconds = 600
    good = frozenset({"equal"})

    def start(self, shared: Path) -> None:
        """Import scr once."""
        self.shared = shared
        _fork.import_everything()

    def run(self, number: int, random: np.random.Generator, folder: Path) -> Result:
        """Run one command several times at once, or several on one store."""
        count = int(random.choice([2, 2, 2, 8]))
        starts = random.random(count)
        starts[0] = 0.0
        chosen = int(random.integers(len(SCENARIOS) + 4))
        if number < len(SCENARIOS):
            chosen = number
        if chosen >= len(SCENARIOS):
            return self.share_store(starts.tolist(), folder)
        return self.crowd(SCENARIOS[chosen], starts.tolist(), folder)

    def crowd(self, scenario: Scenario, starts: list[float], folder: Path) -> Result:
        """Start one command several times, at shares of its duration."""
        expected = reference(scenario, self.shared)
        shown = ", ".join(f"{start:.2f}" for start in starts)
        what = (
            f"scr {scenario.line}; {len(starts)} processes at {shown} of {expected.seconds:.2f} s"
        )
        kind = f"{scenario.name}, {len(starts)} processes"
        (folder / NOTE).write_text(f"{kind}\n{what}", encoding="utf-8")
        work = folder / "work"
        scenario.set_up(self.shared, work, folder / "log.txt")
        commands = [(scenario.words, start * expected.seconds) for start in starts]
        ended = _together(commands, work, folder, dict(scenario.constants))
        outcome, detail = _complaints(ended)
        if not outcome and not any(each.code == 0 for each in ended):
            outcome, detail = "nobody succeeded", ended[0].output[-300:]
        found = tree(work)
        if not outcome and (changed := differences(expected.after, found)):
            outcome, detail = "different", changed
        if not outcome and (extra := leftovers(expected.after, found)):
            outcome, detail = "leftovers", extra
        counts = {"processes": len(ended), "refused": sum(each.code == 2 for each in ended)}
        return Result(
            outcome=outcome or "equal", kind=kind, what=what, detail=detail, counts=counts
        )

    def share_store(self, starts: list[float], folder: Path) -> Result:
        """Train on one store several times at once, each in a run of its own."""
        kind = f"{SHARED_STORE}, {len(starts)} processes"
        (folder / NOTE).write_text(kind, encoding="utf-8")
        work = folder / "work"
        lines = [
            OWN_RUN.format(encoder=ENCODERS[number % len(ENCODERS)], number=number)
            for number in range(len(starts))
        ]
        expected = {}
        for number, line in enumerate(lines):
            alone = Scenario(f"store {number}", line, ("store",), constants=SMALL)
            expected |= reference(alone, self.shared).after
        Scenario("store", "", ("store",)).set_up(self.shared, work, folder / "log.txt")
        commands = [(line.split(), start) for line, start in zip(lines, starts, strict=True)]
        ended = _together(commands, work, folder, dict(SMALL))
        outcome, detail = _complaints(ended)
        if not outcome and any(each.code for each in ended):
            outcome, detail = "refused", next(each.output for each in ended if each.code)[-300:]
        found = tree(work)
        if not outcome and (changed := differences(expected, found)):
            outcome, detail = "different", changed
        if not outcome and (extra := leftovers(expected, found)):
            outcome, detail = "leftovers", extra
        return Result(
            outcome=outcome or "equal", kind=kind, what="; ".join(lines), detail=detail,
            counts={"processes": len(ended)},
        )  # fmt: skip


def _together(
    commands: list[tuple[list[str], float]], work: Path, folder: Path, constants: dict[str, object]
) -> list[_fork.Ended]:
    """Start commands at their times, and wait for all."""
    began, running = time.monotonic(), []
    for number, (words, start) in sorted(enumerate(commands), key=lambda each: each[1][1]):
        time.sleep(max(0.0, began + start - time.monotonic()))
        log = folder / f"log-{number}.txt"
        running.append(_fork.Running(words, work, log, constants=constants))
    for each in running:
        each.wait(END_SECONDS - (time.monotonic() - began))
    hung = [each for each in running if each.ended is None]
    ended = [each.kill() for each in running]
    if hung:
        raise TimeoutError(f"{len(hung)} of {len(running)} processes did not end")
    return ended


def _complaints(ended: list[_fork.Ended]) -> tuple[str, str]:
    """What is wrong with the way in which any of them ended."""
    for each in ended:
        outcome, detail = complaint(each) if each.code else ("", "")
        if outcome:
            return outcome, detail
    return "", ""
