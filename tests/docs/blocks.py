"""The code blocks of a Markdown page, with what the comment before each says about it.

Two comments are read, on the line before a block:

    <!-- not run: reason -->        its commands are checked by name alone
    <!-- given: graph, model -->    names that a reader of the block has already
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(REPOSITORY).as_posix()
    for path in (REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md"))
)

PYTHON = {"python"}
SHELL = {"sh", "bash"}
SETTINGS = {"toml"}
PROSE = {"text", "csv", "json", "math", "bibtex"}
"""Languages that nobody runs: output, trees of files, tables, requests, equations, a citation."""

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)(?P<options>.*)$")
_TITLE = re.compile(r'title="([^"]+)"')
_COMMENT = re.compile(r"^\s*<!-- (not run|given): (.+) -->\s*$")
_INCLUDE = re.compile(r'^--8<-- "([^"]+)"$', re.M)


class UnreadablePage(Exception):
    """A block that nobody would run, check or skip knowingly."""


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    page: str
    line: int
    language: str
    text: str
    title: str = ""
    """The file that it is shown as; written before later blocks run."""
    not_run: str = ""
    """Why it cannot be run."""
    given: tuple[str, ...] = ()
    is_included: bool = False
    """Whether it is a file of the package, which has tests of its own."""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def read_blocks(text: str, page: str) -> list[Block]:
    """All blocks of a page in order; one with an unknown language or an unused comment raises."""
    blocks: list[Block] = []
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        fence = _FENCE.match(lines[number])
        if fence is None:
            if _COMMENT.match(lines[number]) and not _FENCE.match((*lines, "")[number + 1]):
                raise UnreadablePage(f"{page}:{number + 1}: no block follows {lines[number]}")
            number += 1
            continue
        closing = f"{fence['indent']}```"
        end = next((at for at in range(number + 1, len(lines)) if lines[at] == closing), None)
        if end is None:
            raise UnreadablePage(f"{page}:{number + 1}: the block has no end")
        body = textwrap.dedent("\n".join([*lines[number + 1 : end], ""]))
        blocks.append(_block(page, number + 1, fence, body, lines[number - 1] if number else ""))
        number = end + 1
    return blocks


def _block(page: str, line: int, fence: re.Match[str], body: str, before: str) -> Block:
    language = fence["language"]
    if language not in PYTHON | SHELL | SETTINGS | PROSE:
        raise UnreadablePage(f"{page}:{line}: no one knows how to run `{language}`")
    title, comment = _TITLE.search(fence["options"]), _COMMENT.match(before)
    said = {comment[1]: comment[2]} if comment else {}
    return Block(
        page, line, language, _INCLUDE.sub(_included, body),
        title=title[1] if title else "",
        not_run=said.get("not run", ""),
        is_included=bool(_INCLUDE.search(body)),
        given=tuple(name.strip() for name in said.get("given", "").split(",") if name),
    )  # fmt: skip


def _included(match: re.Match[str]) -> str:
    return (REPOSITORY / match[1]).read_text(encoding="utf-8")
