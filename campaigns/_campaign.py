"""What a campaign is: cases that are decided by a number, each with one outcome."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np

CRASH, HANG, BROKEN = "crash", "hang", "broken campaign"
"""Outcomes that the frame gives: the worker died, did not answer, or the campaign's code failed."""
NOTE = "what.txt"
"""A file in a case's folder: its kind, and on further lines what is done. Campaigns whose cases may
crash or hang the worker writes it first, so that such a row says more than a number."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """What came of one case."""

    outcome: str
    """One word or two, such as `equal` or `leftovers`; those in `Campaign.good` are successes."""
    kind: str
    """What the case was about, such as a command or a reader; outcomes are counted by it."""
    what: str = ""
    """What was done, precisely enough to be repeated by hand."""
    detail: str = ""
    """What was found, where it is not as it should be."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Numbers that are added up over all cases, such as kills."""


class Campaign(ABC):
    """Cases against one promise. All state is made in `start`; the object itself is only a name."""

    name: ClassVar[str]
    title: ClassVar[str]
    """What is done, in one line of the table of campaigns."""
    cases: ClassVar[int]
    """Cases of a whole campaign."""
    minutes: ClassVar[float]
    """Roughly how long a whole campaign takes on two cores."""
    seconds: ClassVar[float] = 120.0
    """A case that takes longer than this hangs."""
    good: ClassVar[frozenset[str]]
    """Outcomes as they must be; every other one is a failure."""

    def skip(self) -> str | None:
        """Why this machine cannot run the campaign; none: it can."""
        return None

    def prepare(self, shared: Path) -> None:  # noqa: B027 - most campaigns need no files
        """Make the files that all cases read, once, in the first worker; `shared` is empty."""

    def start(self, shared: Path) -> None:  # noqa: B027 - most campaigns need no state
        """Make what one worker needs: imports, compiled loops, objects read from `shared`."""

    @abstractmethod
    def run(self, number: int, random: np.random.Generator, folder: Path) -> Result:
        """Run one case in an empty folder of its own; the same number is the same case."""


def generator(campaign: str, seed: int, number: int) -> np.random.Generator:
    """The random numbers of one case: they depend on nothing else."""
    return np.random.default_rng([seed, zlib.crc32(campaign.encode()), number])
