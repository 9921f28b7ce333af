"""Reorganizing code changes no result and nothing that users rely on."""

import difflib
import json

import pytest
from tests.golden.runs import RECORD, RUNS, machine, measured
from tests.golden.surface import RECORD as SURFACE
from tests.golden.surface import surface

RECORDED = json.loads(RECORD.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", RUNS)
def test_a_run_gives_what_is_recorded(name):
    found, expected = measured(name), RECORDED["runs"][name]
    assert found["shape"] == expected["shape"]
    assert found["mean"] == pytest.approx(expected["mean"], rel=0.05)
    if machine() == RECORDED["machine"]:
        assert found["hash"] == expected["hash"]


def test_the_record_is_of_exactly_these_runs():
    assert list(RECORDED["runs"]) == list(RUNS)


def test_names_options_keys_and_files_are_those_recorded():
    """Meant to change? `python -m tests.golden.surface > tests/golden/surface.txt`, and say why."""
    changes = difflib.unified_diff(
        SURFACE.read_text(encoding="utf-8").splitlines(), surface().splitlines(), lineterm="", n=0
    )
    assert "\n".join(changes) == ""
