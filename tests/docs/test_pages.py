"""Every code block of the documentation runs, and every command that it names exists."""

from __future__ import annotations

import re

import pytest
from tests.docs import shell
from tests.docs.blocks import PAGES, REPOSITORY
from tests.docs.expectations import EXPECTATIONS

BLOCK = re.compile(r"^ *```.*?^ *```$", re.M | re.S)
INLINE = re.compile(r"`((?:scr|make|python|pip)\s[^`]+)`")


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.filterwarnings("ignore:.*no training label")
def test_what_a_page_shows_can_be_run(page, open_page, capsys):
    session = open_page(page)
    EXPECTATIONS.get(page, lambda session, _: session.run_all())(session, capsys)
    assert not session.blocks


@pytest.mark.parametrize("page", PAGES)
def test_commands_in_the_text_of_a_page_exist(page):
    text = BLOCK.sub("", (REPOSITORY / page).read_text(encoding="utf-8"))
    for command in INLINE.findall(text):
        (words,) = shell.commands(" ".join(command.split()))
        shell.check(words)
