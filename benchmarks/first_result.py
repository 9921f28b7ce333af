"""Time to a first result: `scr train digits`, beside `import torch` alone.

    python benchmarks/first_result.py

`warm` runs after another run; `cold` with empty folders for compiled loops (of numba) and for the
fonts of matplotlib. Commands take turns, so that a busy machine slows all of them. Rows are written
one by one to results/first_result.json.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from pathlib import Path

from harness import RESULTS, Results, console, measure, scr_command

TURNS = 3
TORCH = [sys.executable, "-c", "import torch"]


def main() -> None:
    """Measure what is missing, and print the medians."""
    results = Results(RESULTS / "first_result.json", {"turns": TURNS})
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        measure(scr_command("train", "digits", "--out", work / "before"))
        for turn in range(TURNS):
            for kind in ("torch", "warm", "cold"):
                if results.find(kind=kind, turn=turn):
                    continue
                command = TORCH
                if kind != "torch":
                    command = scr_command("train", "digits", "--out", work / f"{kind}-{turn}")
                if kind == "cold":
                    caches = {"NUMBA_CACHE_DIR": f"numba-{turn}", "MPLCONFIGDIR": f"fonts-{turn}"}
                    os.environ |= {name: str(work / place) for name, place in caches.items()}
                measured = measure(command, folders=[work])
                for name in ("NUMBA_CACHE_DIR", "MPLCONFIGDIR"):
                    os.environ.pop(name, None)
                row = {name: measured.row()[name] for name in ("seconds", "processor_seconds")}
                results.add({"kind": kind, "turn": turn}, row)
                console.print(f"{kind} {turn}: {row['seconds']:.1f} s")
    medians = {
        kind: statistics.median(row["seconds"] for row in results.rows if row["kind"] == kind)
        for kind in ("torch", "warm", "cold")
    }
    console.print(
        f"import torch {medians['torch']:.1f} s, warm {medians['warm']:.1f} s, cold "
        f"{medians['cold']:.1f} s"
    )


if __name__ == "__main__":
    main()
