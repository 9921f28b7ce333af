"""The campaign of kills against programs whose defects are known: each is found, and named."""

import json
import os
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("campaigns", reason="a package without its campaigns")

from campaigns import run_cases
from campaigns._fork import Ended
from campaigns._refusals import complaint
from campaigns._scenarios import Scenario
from campaigns._trees import differences, leftovers, tree
from campaigns.kills import Kills
from scr.report import record_checksum
from scr.storage import seal_folder

LATE = 1e6
"""Shares of its time after which nobody kills a program: these die by themselves."""


def instant():
    """Where a program dies when a case runs it for the first time, as if it were killed there."""
    is_case, died = Path("../what.txt").exists(), Path("../died")
    if is_case and not died.exists():
        died.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def good(words):
    """Makes its result under a name that the next run removes, and renames it."""
    shutil.rmtree(".made", ignore_errors=True)
    Path(".made").mkdir()
    Path(".made/a").write_text("a")
    instant()
    Path(".made").rename("made")


def forgetful(words):
    """Leaves what a killed run has made."""
    partial = Path(f".made-{time.time_ns()}")
    partial.mkdir()
    instant()
    partial.rename("made")


def torn(words):
    """Makes its result in the place where others look for it."""
    Path("made").mkdir(exist_ok=True)
    instant()
    Path("made/a").write_text("a")


def stuck(words):
    """Refuses what it has begun itself."""
    if Path("made").exists():
        print("error: `made` is there")
        raise SystemExit(2)
    Path("made").mkdir()
    instant()
    Path("made/a").write_text("a")


def counting(words):
    """Makes something else when it is run again."""
    made = Path("made")
    count = int(made.read_text()) if made.exists() else 0
    made.write_text(str(count + 1))
    instant()


def surprised(words):
    """Does not expect what it has begun itself."""
    Path("made").mkdir()
    instant()
    Path("made/a").write_text("a")


PROGRAMS = {
    good: ("made", "equal"), forgetful: (None, "leftovers"), torn: ("made", "half written"),
    stuck: (None, "does not recover"), counting: (None, "different"),
    surprised: (None, "unexpected error"),
}  # fmt: skip


class Programs(Kills):
    name, cases = "programs", len(PROGRAMS)

    def start(self, shared):
        self.shared = shared

    def run(self, number, random, folder):
        program, (whole, _) = list(PROGRAMS.items())[number]
        scenario = Scenario(
            program.__name__, "nothing", whole=whole, constants={"scr.cli:main": program}
        )
        return self.kill(scenario, [LATE], folder)


def test_every_defect_is_found_by_its_name(tmp_path):
    rows = run_cases(Programs(), range(len(PROGRAMS)), seed=0, work=tmp_path / "work")
    found = {row.number: row.result.outcome for row in rows}
    expected = [outcome for _, outcome in PROGRAMS.values()]
    assert [found[number] for number in range(len(PROGRAMS))] == expected


def test_times_memory_and_folders_are_no_differences(tmp_path):
    for name, seconds in (("one", 1.5), ("two", 22)):
        (tmp_path / name).mkdir()
        text = f'{{"train_seconds": {seconds}, "out": "{tmp_path / name}/run", "epochs": 3}}'
        (tmp_path / name / "a.json").write_text(text)
        (tmp_path / name / "a.html").write_text(f"<td>{seconds} s</td><td>3 hops</td>")
        np.save(tmp_path / name / "b.npy", np.arange(3))
    one, two = tree(tmp_path / "one"), tree(tmp_path / "two")
    assert differences(one, two) == ""
    (tmp_path / "two" / "a.json").write_text('{"train_seconds": 2, "epochs": 4}')
    (tmp_path / "two" / "a.html").write_text("<td>2 s</td><td>4 hops</td>")
    (tmp_path / "two" / "b.npy").unlink()
    (tmp_path / "two" / ".c").touch()
    two = tree(tmp_path / "two")
    assert differences(one, two) == "missing: b.npy; changed: a.html, a.json"
    assert leftovers(one, two) == ".c"


def test_checksums_of_times_are_no_differences_and_wrong_ones_are(tmp_path):
    for name, seconds in (("one", 1.5), ("two", 22), ("three", 1.5)):
        folder = tmp_path / name
        folder.mkdir()
        lines = []
        for seed in (0, 1) if name == "one" else (1, 0):
            record = {"seed": seed, "train_seconds": seconds + seed}
            lines.append(json.dumps({**record, "checksum": record_checksum(record)}))
        (folder / "runs.jsonl").write_text("\n".join(lines) + "\n")
        seal_folder(folder, [], "metrics.json", f'{{"seconds": {seconds}}}'.encode())
    three = tmp_path / "three"
    (three / "runs.jsonl").write_text((three / "runs.jsonl").read_text().replace("1.5", "1.6"))
    (three / "metrics.json").write_text('{"seconds": 2}')
    one, two, three = (tree(tmp_path / name) for name in ("one", "two", "three"))
    assert differences(one, two) == ""
    assert differences(one, three) == "changed: checksums.json, runs.jsonl"


@pytest.mark.parametrize(
    ("code", "output", "outcome"),
    [
        (2, "error: The disk is too full to write `made`; nothing was written\nhint: free", ""),
        (2, "error: No space is left", "no file named"),
        (2, "error: [Errno 13] Permission denied: 'made'", "no sentence"),
        (2, "error: `a` is bad\nerror: `b` is bad", "no sentence"),
        (1, "error: unexpected KeyError: 3", "unexpected error"),
        (2, "Traceback (most recent call last):", "unexpected error"),
        (-11, "", "crash"),
        (0, "fine", "no refusal"),
    ],
)
def test_a_refusal_is_one_sentence_that_names_a_file(code, output, outcome):
    assert complaint(Ended(code, 1.0, output))[0] == outcome
