"""Write the table of campaigns into docs/promises.md, from what `results/` says.

python -m campaigns.table
python -m campaigns.table --check   1 if the page says something else
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from campaigns._catalog import CAMPAIGNS, ONLY_BY_NAME, find
from campaigns._summary import RESULTS, ROOT

PAGE = ROOT / "docs" / "promises.md"
BEGIN, END = "<!-- campaigns:begin -->", "<!-- campaigns:end -->"
HEAD = (
    "| campaign | what is done | cases | outcomes | failed |",
    "| --- | --- | --- | --- | --- |",
)


def table_lines(results: Path = RESULTS) -> list[str]:
    """A row for each campaign, and under the table when and with what they were run."""
    names = [name for name in CAMPAIGNS if name not in ONLY_BY_NAME]
    found = {}
    for name in names:
        file = results / f"{name}.json"
        if file.exists():
            found[name] = json.loads(file.read_text(encoding="utf-8"))
    rows = [_row(name, found.get(name)) for name in names]
    return [*HEAD, *rows, "", *(_note(found[name]) for name in names if name in found)]


def page_with(lines: list[str], page: str) -> str:
    """The page with these lines in the place of its table."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return "\n".join([before + BEGIN, "", *lines, "", END]) + after


def _row(name: str, found: Mapping[str, Any] | None) -> str:
    title = find(name).title
    if found is None:
        return f"| `{name}` | {title} | not run yet | | |"
    if found["skipped"]:
        return f"| `{name}` | {title} | skipped: {found['skipped']} | | |"
    counts = "".join(f", {count:,} {what}" for what, count in found["counts"].items())
    outcomes = ", ".join(f"{count:,} {what}" for what, count in found["outcomes"].items())
    return f"| `{name}` | {title} | {found['cases']:,}{counts} | {outcomes} | {found['failed']:,} |"


def _note(found: Mapping[str, Any]) -> str:
    hours = found["seconds_of_all_workers"] / 3600
    versions = found["versions"]
    return (
        f"- `{found['command']}`: {found['date']}, scr at {found['commit']}, Python "
        f"{versions['python']}, {versions['system']}, {hours:.1f} hours of a core."
    )


def main(arguments: list[str] | None = None) -> int:
    """Write the table, or compare it."""
    parser = argparse.ArgumentParser(prog="python -m campaigns.table", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    options = parser.parse_args(arguments)
    page = PAGE.read_text(encoding="utf-8")
    new = page_with(table_lines(), page)
    if options.check:
        return int(new != page)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
