"""Rows of a campaign as they are stored, and the summary of all of them."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from campaigns._campaign import BROKEN, Campaign
from campaigns._engine import Row

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
SHOWN_FAILURES = 50
"""A summary names so many failures; the rows have all of them."""
PACKAGES = ("scr-gnn", "numpy", "torch", "numba", "pyarrow")


class Rows:
    """The rows of one campaign with one seed and one state of the code, appended as they come."""

    def __init__(self, file: Path, seed: int) -> None:
        self.file, self.tag = file, {"seed": seed, "code": code()}
        self.rows: dict[int, Row] = {}
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        self.torn = "\n" if text and not text.endswith("\n") else ""
        for line in text.splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue  # the last line of a campaign that was killed
            if self.tag.items() <= row.items():
                self.rows[row["number"]] = Row.from_json(row)

    @property
    def judged(self) -> set[int]:
        """Numbers of cases that need not be run again: in the others the campaign itself failed."""
        return {number for number, row in self.rows.items() if row.result.outcome != BROKEN}

    def add(self, row: Row) -> None:
        """Store a row."""
        self.rows[row.number] = row
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a", encoding="utf-8") as stream:
            stream.write(self.torn + json.dumps(self.tag | row.json()) + "\n")
        self.torn = ""


@cache
def code() -> str:
    """A hash of the package's source: rows of other code are not counted."""
    digest = hashlib.blake2b(digest_size=6)
    for file in sorted((ROOT / "src" / "scr").rglob("*.py")):
        digest.update(file.relative_to(ROOT).as_posix().encode() + file.read_bytes())
    return digest.hexdigest()


def summary(
    campaign: Campaign, rows: Iterable[Row], *, command: str, seed: int, skipped: str | None = None
) -> dict[str, Any]:
    """What `results/NAME.json` says."""
    rows = sorted(rows, key=lambda row: row.number)
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    counts: Counter[str] = Counter()
    for row in rows:
        kinds[row.result.kind][row.result.outcome] += 1
        counts.update(row.result.counts)
    failures = failed(campaign, rows)
    outcomes = Counter(row.result.outcome for row in rows)
    return {
        "campaign": campaign.name,
        "title": campaign.title,
        "command": command,
        "seed": seed,
        "date": datetime.now().astimezone().date().isoformat(),
        "commit": _commit(),
        "code": code(),
        "versions": versions(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "skipped": skipped,
        "cases": len(rows),
        "cases_of_a_whole_campaign": campaign.cases,
        "seconds_of_all_workers": round(sum(row.seconds for row in rows), 1),
        "counts": dict(sorted(counts.items())),
        "outcomes": dict(sorted(outcomes.items())),
        "failed": len(failures),
        "kinds": {kind: dict(sorted(kinds[kind].items())) for kind in sorted(kinds)},
        "failures": [_failure(row) for row in failures[:SHOWN_FAILURES]],
    }


def failed(campaign: Campaign, rows: Iterable[Row]) -> list[Row]:
    """Rows whose outcome is none of the good ones."""
    return [row for row in rows if row.result.outcome not in campaign.good]


def versions() -> dict[str, str]:
    """What the campaign ran with."""
    found = {"python": platform.python_version(), "system": f"{platform.system()} {os.uname()[2]}"}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "source"
    return found


def write(found: Mapping[str, Any], folder: Path = RESULTS) -> Path:
    """Write a summary; returns the file."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{found['campaign']}.json"
    file.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return file


def _failure(row: Row) -> dict[str, Any]:
    stored = row.json()
    return {name: stored[name] for name in ("number", "outcome", "kind", "what", "detail")}


def _commit() -> str:
    line = ["git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD"]
    try:
        return subprocess.run(line, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
