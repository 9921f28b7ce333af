"""Which members are trained on which folds, and when: a race with fewer members in every round.

First every member is trained on one fold, in the order of the portfolio, for at most a part of the
time. The better ones go on to the next folds, the best to all. So whenever time runs out there is
an answer, and time goes where it counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scr.engines import Engine, LocalEngine, Needs
from scr.errors import EngineError
from scr.graph import Graph
from scr.metrics import ACCURACY, METRICS, Metric
from scr.tuning._portfolio import Member
from scr.tuning._trials import Trial, run_trial
from scr.tuning._weights import score

ROUNDS: tuple[tuple[int, int | None, float], ...] = ((1, None, 0.5), (3, 6, 0.75), (5, 4, 1.0))
"""Folds that are finished after a round, members that take part (none: all), and the share of the
time after which no further one starts."""
SHARE_OF_TIME = 0.92
"""Of the whole time, for training; the rest is for predicting and writing."""


@dataclass(frozen=True)
class Clock:
    """When to stop; times are those of `time.time`."""

    started: float
    limit: float | None
    """Seconds; none: all rounds are run to their end."""

    def passed(self, share: float) -> bool:
        """Whether this share of the time is over."""
        if self.limit is None:
            return False
        return time.time() - self.started > share * SHARE_OF_TIME * self.limit

    @property
    def deadline(self) -> float | None:
        """When training must end."""
        return None if self.limit is None else self.started + SHARE_OF_TIME * self.limit


@dataclass(frozen=True)
class Shared:
    """What all workers need of a race."""

    graphs: Sequence[Graph]
    """One for each fold."""
    folder: Path
    """Of the trials."""
    seed: int = 0
    device: str = "cpu"


class _Item(NamedTuple):
    """One member on some folds."""

    member: Member
    folds: list[int]
    deadline: float | None


@dataclass(frozen=True)
class Race:
    """What all rounds share."""

    shared: Shared
    clock: Clock
    metric: Metric = ACCURACY
    """What counts."""
    engine: Engine = field(default_factory=LocalEngine)
    """Which runs trials; workers stay for all rounds."""
    on_trial: Callable[[Trial], None] | None = None

    @property
    def graphs(self) -> Sequence[Graph]:
        """One for each fold."""
        return self.shared.graphs

    @property
    def slots(self) -> int:
        """How many trials run at once."""
        return self.engine.slots(Needs())

    def run(self, members: Sequence[Member], rounds: Any = ROUNDS) -> list[Trial]:
        """All rounds; returns a trial for each member that was started, the best first."""
        folder = self.shared.folder
        trials = {each.name: Trial.read(each, folder / each.name) for each in members}
        for folds, most, share in rounds:
            wanted = range(min(folds, len(self.graphs)))
            chosen = list(members)
            if most is not None:
                chosen = [each.member for each in self._best(trials.values(), len(wanted))[:most]]
            items = self._items(chosen, trials, wanted, share)
            for _, trial in self.engine.run(_start, self.shared, items, needs=Needs()):
                _check_shared(trial)
                trials[trial.member.name] = trial
                if self.on_trial is not None:
                    self.on_trial(trial)
        return self.ranked(trials.values())

    def _items(
        self, members: Sequence[Member], trials: dict[str, Trial], folds: range, share: float
    ) -> Iterator[_Item]:
        """What is left to do for some folds, as long as there is time; the first always has it."""
        for position, member in enumerate(members):
            if set(folds) <= trials[member.name].folds.keys():
                continue
            is_first = position == 0 and folds == range(1)
            if not is_first and self.clock.passed(share):
                return
            yield _Item(member, list(folds), None if is_first else self.clock.deadline)

    def _best(self, trials: Any, wanted: int) -> list[Trial]:
        """Trials by their scores on the folds that all which may go on have finished.

        Some have finished more; what counts is what they can be compared by.
        """
        before = max((count for count, _, _ in ROUNDS if count < wanted), default=1)
        judged = range(min(before, len(self.graphs)))
        ready = [each for each in trials if set(judged) <= each.folds.keys()]
        alike = [(each, replace(each, folds={f: each.folds[f] for f in judged})) for each in ready]
        return [each for each, part in sorted(alike, key=lambda pair: self._order(pair[1]))]

    def ranked(self, trials: Any) -> list[Trial]:
        """Trials with a finished fold, those with more folds and better scores first."""
        done = [trial for trial in trials if trial.folds]
        return sorted(done, key=lambda trial: (-len(trial.folds), *self._order(trial)))

    def _order(self, trial: Trial) -> tuple[float, float]:
        """By score; of equal ones the surer is better, since few labels tie often."""
        labels, soft = held_out(trial, self.graphs, sorted(trial.folds))
        return -self.scored(trial), -score(METRICS["log-loss"], labels, soft)

    def scored(self, trial: Trial) -> float:
        """How good a trial is on what its folds held out, less its handicap."""
        labels, soft = held_out(trial, self.graphs, sorted(trial.folds))
        handicap = trial.member.handicap if self.metric is ACCURACY else 0.0
        return score(self.metric, labels, soft) - handicap


def held_out(
    trial: Trial, graphs: Sequence[Graph], folds: Sequence[int]
) -> tuple[NDArray[np.integer[Any]], NDArray[np.float32]]:
    """Labels and probabilities of the nodes that some folds held out, fold by fold."""
    labels = [np.asarray(graphs[fold].labels[graphs[fold].valid]) for fold in folds]
    return np.concatenate(labels), np.concatenate([trial.folds[fold] for fold in folds])


def _check_shared(trial: Trial) -> None:
    """Refuse trials whose files another machine has written where this one does not see them."""
    for fold in trial.folds:
        if not (trial.folder / f"fold-{fold}").is_dir():
            raise EngineError(
                f"A worker has written `{trial.folder}`, which is not there on this machine; "
                "expected a file system that all machines share",
                hint="choose a shared folder as `out`",
            )


def _start(shared: Shared) -> Callable[[_Item], Trial]:
    """Set up a worker of an engine."""

    def run(item: _Item) -> Trial:
        return run_trial(
            item.member, shared.graphs, item.folds, shared.folder / item.member.name,
            seed=shared.seed, device=shared.device, deadline=item.deadline,
        )  # fmt: skip

    return run
