"""What it takes to open a store: one that is known, and one that has to be read first.

    python benchmarks/verification.py --folder DIR

Draws a synthetic store of about 1 GB, then takes the best of some rounds of: reading its arrays,
`b2sum` of its arrays (the same hash, on one core), opening the store without its record of what was
verified (checksums and ranges of every number), and opening it with the record. Everything is in
the page cache, so that computation counts and not the disk. The store is removed in the end.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from harness import console, size
from scr.compute import default_threads
from scr.graph import open_store
from scr.storage import RECORD
from scr.synth import SynthConfig, write_synth_store

NODES, EDGES, FEATURES = 1_500_000, 30_000_000, 128
ROUNDS = 5
BUFFER = bytearray(1 << 20)


def read(files: list[Path]) -> None:
    """Read every byte, by plain reads."""
    for file in files:
        with file.open("rb", buffering=0) as stream:
            while stream.readinto(BUFFER):
                pass


def best(
    work: Callable[[], object], before: Callable[[], object] = lambda: None
) -> tuple[float, float]:
    """Seconds of the fastest round, and of all cores in the round that took the least of them."""
    taken, computed = [], []
    for _ in range(ROUNDS):
        before()
        started, used = time.perf_counter(), sum(os.times()[:4])
        work()
        taken.append(time.perf_counter() - started)
        computed.append(sum(os.times()[:4]) - used)
    return min(taken), min(computed)


def main() -> None:
    """Measure all four and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="where there is room for the store")
    with TemporaryDirectory(dir=parser.parse_args().folder) as folder:
        config = SynthConfig(nodes=NODES, edges=EDGES, features=FEATURES)
        store = write_synth_store(config, Path(folder) / "store")
        files = sorted(store.glob("*.npy"))
        total = sum(file.stat().st_size for file in files)
        rows = {"read": best(lambda: read(files))}
        if shutil.which("b2sum"):
            command = ["b2sum", *map(str, files)]
            rows["b2sum"] = best(lambda: subprocess.run(command, check=True, capture_output=True))
        rows["open, unknown"] = best(lambda: open_store(store), (store / RECORD).unlink)
        rows["open, known"] = best(lambda: open_store(store))
    console.print(f"{size(total)} of arrays, {default_threads()} threads, best of {ROUNDS} rounds")
    for name, (seconds, computed) in rows.items():
        speed = f"{total / seconds / 1e9:10.2f} GB/s"
        console.print(f"{name:15} {seconds:8.3f} s {speed}, {computed:8.3f} s of all cores")


if __name__ == "__main__":
    main()
