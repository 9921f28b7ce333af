"""A few cases of every campaign: what `python -m campaigns` runs for an hour."""

import pytest

pytest.importorskip("campaigns", reason="a package without its campaigns")

from campaigns import run_cases
from campaigns.selection import Selection


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    work = tmp_path_factory.mktemp("work")
    return list(run_cases(Selection(), range(Selection.cases), seed=0, work=work))


def test_kills_full_disks_rights_processes_and_limits_end_as_promised(rows):
    failed = [row.json() for row in rows if row.result.outcome not in Selection.good]
    assert not failed


def test_commands_were_killed_and_disks_were_full(rows):
    kills = sum(row.result.counts.get("kills", 0) for row in rows)
    disks = sum(row.result.counts.get("full disks", 0) for row in rows)
    assert kills >= 1  # a machine that has become much faster meanwhile escapes some
    assert disks >= 3
