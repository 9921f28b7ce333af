"""A few cases of each campaign, always the same, for `make test`: one process runs them all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from campaigns import _fork
from campaigns._campaign import Campaign, Result
from campaigns._scenarios import BY_NAME
from campaigns.folders import Folders
from campaigns.full_disk import FullDisk
from campaigns.kills import Kills
from campaigns.memory_limits import MemoryLimits
from campaigns.processes import Processes

KILLS = (
    ("ingest shards", [0.5]), ("ingest shards", [0.8, 0.3]), ("ingest tables", [0.6]),
    ("propagate", [0.7]), ("propagate overwrite", [0.9]), ("predict csv", [0.8]),
    ("predict parquet", [0.9, 0.5]), ("report", [0.9]),
)  # fmt: skip
FULL_DISKS = (
    ("synth", 0.4, True), ("propagate", 0.3, True), ("predict csv", 0.5, True),
    ("propagate", 0.6, False), ("report", 0.2, True),
)  # fmt: skip
FOLDERS = (
    ("predict csv", "the folder is read-only"),
    ("propagate", "inputs are read-only"),
    ("predict csv", "one input file is not readable"),
)
PROCESSES = (("propagate", [0.0, 0.1]), ("ingest shards", [0.0, 0.5, 0.2]))
LIMITS = (("propagate", 1200),)


class Selection(Campaign):
    """Short cases of all campaigns of commands, with one import of scr."""

    name = "selection"
    title = "a few cases of each campaign, for `make test`"
    cases = len(KILLS) + len(FULL_DISKS) + len(FOLDERS) + len(PROCESSES) + len(LIMITS)
    minutes = 0.5
    good = Kills.good | FullDisk.good | Folders.good | Processes.good | MemoryLimits.good

    def start(self, shared: Path) -> None:
        """Import scr once, for all of them."""
        _fork.import_everything()
        kills, disks, folders, crowds, limits = (
            Kills(), FullDisk(), Folders(), Processes(), MemoryLimits()
        )  # fmt: skip
        for campaign in (kills, folders, crowds, limits):
            campaign.shared = shared
        disks.start(shared)
        run: list[Callable[[Path], Result]] = []
        run += [lambda f, n=n, s=s: kills.kill(BY_NAME[n], s, f) for n, s in KILLS]
        run += [
            lambda f, n=n, s=s, d=d: disks.fill(BY_NAME[n], s, f, on_disk=d and disks.mounts)
            for n, s, d in FULL_DISKS
        ]
        if folders.skip() is None:
            run += [lambda f, n=n, o=o: folders.obstruct(BY_NAME[n], o, f) for n, o in FOLDERS]
        run += [lambda f, n=n, s=s: crowds.crowd(BY_NAME[n], s, f) for n, s in PROCESSES]
        run += [lambda f, n=n, m=m: limits.limit(BY_NAME[n], m, f) for n, m in LIMITS]
        self.run_all = run

    def run(self, number: int, random: np.random.Generator, folder: Path) -> Result:
        """One of the cases; those that this machine cannot run are equal to the last."""
        return self.run_all[min(number, len(self.run_all) - 1)](folder)
