"""Which members are trained on which folds, and when: a race with fewer members in every round.

First every member is trained on one fold, in the order of the portfolio, for at most a part of the
time. The better ones go on to the next folds, the best to all. So whenever time runs out there is
an answer, and time goes where it counts.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
class Race:
    """What all rounds share."""

    graphs: Sequence[Graph]
    """One for each fold."""
    folder: Path
    """Of the trials."""
    clock: Clock
    metric: Metric = ACCURACY
    """What counts."""
    seed: int = 0
    device: str = "cpu"
    jobs: int = 1
    on_trial: Callable[[Trial], None] | None = None

    def run(self, members: Sequence[Member], rounds: Any = ROUNDS) -> list[Trial]:
        """All rounds; returns a trial for each member that was started, the best first."""
        trials = {each.name: Trial.read(each, self.folder / each.name) for each in members}
        for folds, most, share in rounds:
            wanted = range(min(folds, len(self.graphs)))
            chosen = list(members)
            if most is not None:
                chosen = [each.member for each in self._best(trials.values(), len(wanted))[:most]]
            for trial in _in_processes(self._tasks(chosen, trials, wanted, share), self.jobs):
                trials[trial.member.name] = trial
                if self.on_trial is not None:
                    self.on_trial(trial)
        return self.ranked(trials.values())

    def _tasks(
        self, members: Sequence[Member], trials: dict[str, Trial], folds: range, share: float
    ) -> Iterator[Callable[[], Trial]]:
        """What is left to do for some folds, as long as there is time; the first always has it."""
        for position, member in enumerate(members):
            if set(folds) <= trials[member.name].folds.keys():
                continue
            is_first = position == 0 and folds == range(1)
            if not is_first and self.clock.passed(share):
                return
            yield partial(
                run_trial, member, self.graphs, list(folds), self.folder / member.name,
                seed=self.seed, device=self.device,
                deadline=None if is_first else self.clock.deadline,
            )  # fmt: skip

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


def _in_processes(tasks: Iterator[Callable[[], Trial]], jobs: int) -> Iterator[Trial]:
    """Run tasks, each taken when there is a process for it; results as they come."""
    if jobs == 1:
        for task in tasks:
            yield task()
        return
    from joblib import Parallel, delayed, parallel_config

    # Not `multiprocessing`: its processes import the user's script again.
    with parallel_config(backend="loky", n_jobs=jobs, inner_max_num_threads=1):
        parallel = Parallel(pre_dispatch="n_jobs", batch_size=1, return_as="generator_unordered")
        yield from parallel(delayed(_call)(task) for task in tasks)


@contextmanager
def processes(jobs: int) -> Iterator[None]:
    """For the time of a search; its processes would wait for minutes for more work."""
    with warnings.catch_warnings():
        # A process whose memory has grown is replaced, which joblib takes for a failure.
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs")
        try:
            yield
        finally:
            if jobs > 1:
                from joblib.externals.loky import get_reusable_executor

                get_reusable_executor().shutdown(wait=True, kill_workers=True)


def _call(task: Callable[[], Trial]) -> Trial:
    return task()
