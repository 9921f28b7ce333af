"""Results that held before code was reorganized hold after it, if all golden runs are the same.

    python benchmarks/carry.py REVISION

Takes the versions of the code at a git revision and, for records that were current there, notes
today's version as `confirmed`, with the keys that runs have today. Refuses unless the golden runs
(`tests/golden`) give the bits that they gave at the revision. For moves and merges: a change
that is meant to alter results needs `confirm.py`, or new runs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from accuracy import DATA
from code_version import PACKAGES, code_version
from confirm import SLOW, TASKS, comparison_of, console, write
from scr.graph import Graph
from stored_rows import StoredRow, results_files, stored_rows

ROOT = Path(__file__).parents[1]
GOLDEN = "tests/golden/runs.json"


def versions_at(revision: str) -> dict[str, str]:
    """The version of every kind of results at a git revision, by the script of that revision."""
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(
            ["git", "archive", revision, "src", ":(glob)benchmarks/*.py"],
            cwd=ROOT, check=True, capture_output=True,
        ).stdout  # fmt: skip
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        code = (
            "import json, code_version as c; "
            "print(json.dumps({kind: c.code_version(kind) for kind in c.PACKAGES}))"
        )
        printed = subprocess.run(
            [sys.executable, "-c", code], cwd=Path(folder, "benchmarks"), check=True,
            capture_output=True, text=True,
        ).stdout  # fmt: skip
        return dict(json.loads(printed))


def check_golden_runs(revision: str) -> None:
    """Stop unless all golden runs give what they gave at a revision."""
    sys.path.insert(0, str(ROOT))
    from tests.golden.runs import RUNS, measured

    shown = ["git", "show", f"{revision}:{GOLDEN}"]
    before = json.loads(subprocess.run(shown, cwd=ROOT, check=True, capture_output=True).stdout)
    for name in RUNS:
        if name in before["runs"] and measured(name)["hash"] != before["runs"][name]["hash"]:
            raise SystemExit(f"The golden run {name} gives other bits than at {revision}")
    console.print(f"{len(RUNS)} golden runs give the same bits as at {revision}")


def carry(kind: str, file: Path, before: str, data: Path) -> int:
    """Note today's version in the records of one file that were current before.

    Returns:
        How many there were.
    """
    content = json.loads(file.read_text(encoding="utf-8"))
    now, count = code_version(kind), 0
    for row in stored_rows(kind, file, content):
        for record in row.records:
            if before in (record.get("code"), record.get("confirmed")):
                record["confirmed"] = now
                count += 1
                if "key" in record:
                    record["key"] = _key(kind, row, content, record, data)
    if count:
        write(file, content)
    return count


def _key(kind: str, row: StoredRow, content: Any, record: Any, data: Path) -> str:
    if kind not in TASKS or kind in SLOW:
        return str(record["key"])
    graph = row.file.stem
    task = TASKS[kind](graph, content, record)
    return task.key(_graph(kind, graph, data, task.seed))


@cache
def _graph(kind: str, graph: str, data: Path, seed: int) -> Graph:
    return comparison_of(kind, graph, data).graph_of(seed)


def main() -> None:
    """Carry all results files over."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("revision")
    parser.add_argument("--data", type=Path, default=DATA)
    options = parser.parse_args()
    before = versions_at(options.revision)
    check_golden_runs(options.revision)
    for kind, file in results_files():
        alike = [each for each in before if PACKAGES.get(each) == PACKAGES.get(kind, ())]
        if alike:
            count = carry(kind, file, before[alike[0]], options.data)
            console.print(f"{file.name}: {count} records of {kind} carried over")


if __name__ == "__main__":
    main()
