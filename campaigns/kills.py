"""Commands that are killed at random instants, and given again until they end.

What they leave then must be what the undisturbed command leaves, byte by byte, and nothing else.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from campaigns import _fork
from campaigns._campaign import NOTE, Campaign, Result
from campaigns._scenarios import SCENARIOS, Reference, Scenario, reference
from campaigns._trees import differences, leftovers, part, tree

MOST_KILLS = 3
AGAIN = 0.3
"""How likely the command is killed again after a kill."""
THERE = "exists already"
"""What a command says that was killed after its result had its name."""


class Kills(Campaign):
    """Every long command, killed up to three times."""

    name = "kills"
    title = "every long command killed (SIGKILL) at random instants, then given again until it ends"
    cases = 850
    minutes = 30
    seconds = 900
    good = frozenset({"equal"})

    def start(self, shared: Path) -> None:
        """Import scr once; every command is a fork of this process."""
        self.shared = shared
        _fork.import_everything()

    def run(self, number: int, random: np.random.Generator, folder: Path) -> Result:
        """Kill one command, once or more often, and see what comes of it."""
        weights = np.array([scenario.weight for scenario in SCENARIOS])
        # Every command once before chance decides, so that few cases see many commands.
        chosen = random.choice(len(SCENARIOS), p=weights / weights.sum())
        scenario = SCENARIOS[number if number < len(SCENARIOS) else chosen]
        shares = random.random(MOST_KILLS)
        kills = 1 + next((k for k, again in enumerate(random.random(2)) if again > AGAIN), 2)
        return self.kill(scenario, shares[:kills].tolist(), folder)

    def kill(self, scenario: Scenario, shares: list[float], folder: Path) -> Result:
        """Kill a command after these shares of its time, one after the other."""
        expected = reference(scenario, self.shared)
        what = f"scr {scenario.line}; killed at " + ", ".join(f"{share:.3f}" for share in shares)
        what += f" of {expected.seconds:.2f} s"
        (folder / NOTE).write_text(f"{scenario.name}\n{what}", encoding="utf-8")
        work, log = folder / "work", folder / "log.txt"
        scenario.set_up(self.shared, work, log)
        kills, torn = 0, ""
        for share in shares:
            ended = _fork.run_command(
                scenario.words, work, log, constants=scenario.constants,
                kill_after=share * expected.seconds,
            )  # fmt: skip
            kills += ended.code < 0
            torn = torn or _torn(scenario, expected, tree(work))
        ended = _fork.run_command(scenario.words, work, log, constants=scenario.constants)
        outcome, detail = _judge(scenario, expected, ended, torn, work)
        return Result(
            outcome=outcome, kind=scenario.name, what=what, detail=detail, counts={"kills": kills}
        )


def _torn(scenario: Scenario, expected: Reference, found: dict[str, str]) -> str:
    """Whether something is half there that is to be there whole or not at all."""
    if scenario.whole is None:
        return ""
    there, after = part(found, scenario.whole), part(expected.after, scenario.whole)
    if there in (part(expected.before, scenario.whole), after):
        return ""
    return f"after a kill: {differences(after, there)} {leftovers(after, there)}"


def _judge(
    scenario: Scenario, expected: Reference, ended: _fork.Ended, torn: str, work: Path
) -> tuple[str, str]:
    """The outcome, and what was found."""
    said = " ".join(ended.output.split())[-300:]
    if ended.hung:
        return "hang", said
    if ended.is_unexpected:
        return "unexpected error", said
    if ended.code and THERE not in ended.output:
        return "does not recover", said
    found = tree(work)
    if changed := differences(expected.after, found):
        return ("does not recover", said) if ended.code else ("different", changed)
    if extra := leftovers(expected.after, found):
        return "leftovers", extra
    return ("half written", torn) if torn else ("equal", "")
