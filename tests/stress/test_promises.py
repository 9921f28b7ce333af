"""docs/promises.md: what it names exists, and its table is what was measured."""

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("campaigns", reason="a package without its campaigns")

from campaigns._catalog import CAMPAIGNS, ONLY_BY_NAME, find
from campaigns.table import BEGIN, END, PAGE, page_with, table_lines

REPOSITORY = Path(__file__).parents[2]
TEXT = PAGE.read_text(encoding="utf-8")
TESTS = sorted(set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", TEXT)))
PROMISES = TEXT.partition("## What is not promised")[0].split("\n- ")[1:]


def test_the_page_was_read():
    assert len(TESTS) >= 20
    assert len(PROMISES) >= 15


@pytest.mark.parametrize(("file", "test"), TESTS)
def test_every_test_that_is_named_exists(file, test):
    text = (REPOSITORY / file).read_text(encoding="utf-8")
    assert f"def {test}(" in text if test else "def test_" in text


def test_every_campaign_that_is_named_exists_and_every_campaign_is_named():
    named = set(re.findall(r"campaign `([\w-]+)`", TEXT))
    assert named <= set(CAMPAIGNS)
    measured = set(CAMPAIGNS) - ONLY_BY_NAME
    assert measured <= {find(name).name for name in CAMPAIGNS}
    assert all(f"| `{name}` |" in TEXT for name in measured)


@pytest.mark.parametrize("promise", PROMISES)
def test_every_promise_names_what_keeps_it(promise):
    _, _, kept = promise.partition("*Kept by*")
    assert "`tests/" in kept or "campaign `" in kept


def test_the_table_says_what_was_measured():
    assert page_with(table_lines(), TEXT) == TEXT


def test_a_row_has_cases_counts_outcomes_and_failures(tmp_path):
    found = {
        "command": "python -m campaigns kills --seed 0", "date": "2026-01-31", "commit": "abc",
        "versions": {"python": "3.11.7", "system": "Linux"}, "seconds_of_all_workers": 5400,
        "skipped": None, "cases": 1200, "counts": {"kills": 1500}, "failed": 1,
        "outcomes": {"equal": 1199, "leftovers": 1},
    }  # fmt: skip
    (tmp_path / "kills.json").write_text(json.dumps(found))
    lines = table_lines(tmp_path)
    (row,) = [line for line in lines if line.startswith("| `kills` |")]
    assert row.endswith("| 1,200, 1,500 kills | 1,199 equal, 1 leftovers | 1 |")
    assert "1.5 hours of a core" in lines[-1]
    assert sum("not run yet" in line for line in lines) == len(CAMPAIGNS) - len(ONLY_BY_NAME) - 1


def test_a_table_is_replaced_and_the_rest_stays():
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert page_with(["new"], page) == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    assert page_with(["new"], page_with(["new"], page)) == page_with(["new"], page)
