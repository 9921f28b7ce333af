"""The frame of the campaigns: programs that are known to be bad are found out, rows are kept."""

import json
import os
import time
from pathlib import Path

import pytest

pytest.importorskip("campaigns", reason="a package without its campaigns")

from campaigns import Campaign, Result, generator, run_cases
from campaigns.__main__ import main
from campaigns._summary import Rows, summary


class Bad(Campaign):
    """Every way to fail: case 1 crashes, 2 hangs, 3 raises, 4 is wrong; the others are right."""

    name, title, cases, minutes, seconds = "bad", "a bad program", 8, 0.1, 1.0
    good = frozenset({"right"})

    def prepare(self, shared: Path) -> None:
        (shared / "count").write_text("1")

    def start(self, shared: Path) -> None:
        self.shared = shared

    def run(self, number, random, folder):
        (folder / "what.txt").write_text(f"kind\ncase {number}")
        if number == 1:
            os.abort()
        if number == 2:
            time.sleep(60)
        if number == 3:
            raise ValueError("not a number")
        found = "wrong" if number == 4 else "right"
        what = f"{random.integers(1000)} {(self.shared / 'count').read_text()}"
        return Result(outcome=found, kind="kind", what=what, counts={"kills": 2})


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    work = tmp_path_factory.mktemp("work")
    found = {row.number: row for row in run_cases(Bad(), range(8), seed=5, work=work, jobs=2)}
    return work, found


def test_every_way_to_fail_is_told_apart(rows):
    _, found = rows
    outcomes = [found[number].result.outcome for number in range(8)]
    expected = ["right", "crash", "hang", "broken campaign", "wrong", "right", "right", "right"]
    assert outcomes == expected
    assert found[1].result.what == "case 1"
    assert "ValueError: not a number" in found[3].result.detail


def test_folders_of_failures_stay_and_those_of_successes_go(rows):
    work, _ = rows
    left = {path.name for path in work.glob("case-*")}
    assert left == {"case-1", "case-2", "case-3", "case-4"}


def test_a_case_depends_on_campaign_seed_and_number_alone(rows):
    _, found = rows
    first = int(generator("bad", 5, 6).integers(1000))
    assert found[6].result.what == f"{first} 1"
    others = {int(generator(*each).integers(2**60)) for each in
              (("bad", 5, 6), ("bad", 6, 5), ("bad", 5, 5), ("good", 5, 6))}  # fmt: skip
    assert len(others) == 4


def test_the_summary_counts_and_names_what_failed(rows):
    _, found = rows
    told = summary(Bad(), found.values(), command="c", seed=5)
    assert told["cases"] == 8
    assert told["failed"] == 4
    assert [each["number"] for each in told["failures"]] == [1, 2, 3, 4]
    assert told["counts"] == {"kills": 10}
    assert told["kinds"]["kind"] == {"crash": 1, "hang": 1, "right": 4, "wrong": 1}


def test_a_stopped_campaign_resumes_after_its_rows(rows, tmp_path):
    _, found = rows
    file = tmp_path / "bad.jsonl"
    stored = Rows(file, 5)
    stored.add(found[0])
    stored.add(found[4])
    with file.open("a") as stream:
        stream.write('{"seed": 5, "num')  # killed while it wrote
    resumed = Rows(file, 5)
    assert [row.result for row in resumed.rows.values()] == [found[0].result, found[4].result]
    assert Rows(file, 6).rows == {}
    resumed.add(found[5])
    assert list(Rows(file, 5).rows) == [0, 4, 5]


def test_the_command_runs_resumes_and_repeats(tmp_path, capsys):
    places = ["--work", str(tmp_path / "work"), "--results", str(tmp_path / "results")]
    assert main(["example", "--cases", "3", "--jobs", "1", *places]) == 0
    assert main(["example", "--cases", "5", "--jobs", "1", *places]) == 0
    lines = (tmp_path / "work" / "example.jsonl").read_text().splitlines()
    assert [json.loads(line)["number"] for line in lines] == [0, 1, 2, 3, 4]
    assert json.loads((tmp_path / "results" / "example.json").read_text())["cases"] == 5
    capsys.readouterr()
    assert main(["example", "--case", "2", *places]) == 0
    assert "outcome: equal" in capsys.readouterr().out
    assert len((tmp_path / "work" / "example.jsonl").read_text().splitlines()) == 5
