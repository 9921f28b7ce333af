"""Run campaigns: `python -m campaigns [NAME ...] --minutes M --seed S --jobs J`."""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import signal
import sys
import time
from pathlib import Path

# Read when numpy and torch are imported, here and in every worker: one core each.
os.environ["OMP_NUM_THREADS"] = "1"

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from campaigns._campaign import Campaign
from campaigns._catalog import CAMPAIGNS, ONLY_BY_NAME, find
from campaigns._engine import run_cases
from campaigns._summary import RESULTS, Rows, failed, summary, write

WORK = Path(__file__).parent / ".work"


def main(arguments: list[str] | None = None) -> int:
    """Run what is asked for; 1 if any case failed."""
    options = _options().parse_args(arguments)
    # As Ctrl-C: workers end at once, and what they run with them.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    console = Console(soft_wrap=True)
    names = options.names or [name for name in CAMPAIGNS if name not in ONLY_BY_NAME]
    campaigns = [find(name) for name in names]
    console.print(f"seed {options.seed}, {options.jobs} workers, in {options.work}")
    weights = sum(campaign.minutes for campaign in campaigns)
    failures = 0
    for campaign in campaigns:
        minutes = options.minutes and options.minutes * campaign.minutes / weights
        failures += _run(campaign, options, minutes, console)
    return int(failures > 0)


def _run(
    campaign: Campaign, options: argparse.Namespace, minutes: float | None, console: Console
) -> int:
    """Run one campaign, from where it is; returns how many of its cases failed."""
    skipped = campaign.skip()
    rows = Rows(options.work / f"{campaign.name}.jsonl", options.seed)
    work = options.work / campaign.name / rows.tag["code"]
    if skipped is not None:
        console.print(f"{campaign.name}: skipped, {skipped}", style="yellow")
    elif options.case is not None:
        shutil.rmtree(work / f"case-{options.case}", ignore_errors=True)
        for row in run_cases(campaign, [options.case], seed=options.seed, work=work):
            for name, value in row.json().items():
                console.print(f"{name}: {value}", markup=False, highlight=False)
            return len(failed(campaign, [row]))
    else:
        _run_rest(campaign, options, minutes, rows, work)
    command = f"python -m campaigns {campaign.name} --seed {options.seed}"
    found = summary(
        campaign, rows.rows.values(), command=command, seed=options.seed, skipped=skipped
    )
    file = write(found, options.results)
    console.print(f"{campaign.name}: {found['cases']} cases, {found['outcomes']}: {file}")
    for failure in found["failures"]:
        line = "  case {number}: {outcome}, {kind}: {what}: {detail}".format(**failure)
        console.print(line, markup=False, highlight=False, style="red")
    return int(found["failed"])


def _run_rest(
    campaign: Campaign, options: argparse.Namespace, minutes: float | None, rows: Rows, work: Path
) -> None:
    """Run the cases that have no row yet, as far as time and number allow."""
    started = time.monotonic()
    most = options.cases or campaign.cases
    judged = rows.judged
    numbers = (number for number in itertools.count() if number not in judged)
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("{task.fields[failed]} failed"),
    )  # fmt: skip

    def is_over() -> bool:
        return minutes is not None and time.monotonic() - started > 60 * minutes

    with Progress(*columns) as progress:
        bad = len(failed(campaign, rows.rows.values()))
        done = len(judged)
        task = progress.add_task(campaign.name, total=most, completed=done, failed=bad)
        left = itertools.islice(numbers, max(0, most - done))
        for row in run_cases(
            campaign, left, seed=options.seed, work=work, jobs=options.jobs, until=is_over
        ):
            rows.add(row)
            bad += len(failed(campaign, [row]))
            progress.update(task, advance=1, failed=bad)


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m campaigns", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CAMPAIGNS))
    parser.add_argument("--minutes", type=float, help="for all campaigns together [their cases]")
    parser.add_argument("--cases", type=int, help="of each campaign [its own number]")
    parser.add_argument("--seed", type=int, default=0, help="decides all cases [0]")
    parser.add_argument("--jobs", type=int, default=2, help="workers [2]")
    parser.add_argument("--case", type=int, help="run one case again, and keep no row")
    parser.add_argument("--work", type=Path, default=WORK, help="rows and working files")
    parser.add_argument("--results", type=Path, default=RESULTS, help="summaries")
    return parser


if __name__ == "__main__":
    sys.exit(main())
