"""Run a page: its Python blocks in one namespace, its commands in one folder, in order."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.docs import shell
from tests.docs.blocks import PYTHON, SETTINGS, SHELL, Block

import scr

SHORTER = {
    r"time_limit=\d+": "time_limit=2, epochs=10, select_after=0.0",
    r"parts=\d+": "parts=30",
}
"""What is run instead: seconds for a search that a page gives minutes, parts of a small graph."""


class PageError(AssertionError):
    """A block that fails, with its place in the page."""


class Session:
    """The blocks of one page, run one after the other in the current folder."""

    def __init__(
        self, blocks: list[Block], given: Callable[[], dict[str, Any]], finished: Path
    ) -> None:
        self.blocks = list(blocks)
        self.names: dict[str, Any] = {"__name__": "page"}
        self.outputs: list[str] = []
        """What commands of `scr` printed."""
        self._given, self._finished = given, finished

    def run_until(self, start: str) -> None:
        """Run all blocks before the one that begins with this text."""
        while not self.blocks[0].text.startswith(start):
            self.run_next()

    def run_all(self) -> None:
        """Run all blocks that are left."""
        while self.blocks:
            self.run_next()

    def run_next(self) -> None:
        """Run, write or check one block."""
        block = self.blocks.pop(0)
        try:
            self._run(block)
        except Exception as error:
            raise PageError(f"{block}: {type(error).__name__}: {error}\n\n{block.text}") from error

    def _run(self, block: Block) -> None:
        if block.title:
            Path(block.title).parent.mkdir(parents=True, exist_ok=True)
            Path(block.title).write_text(block.text, encoding="utf-8")
        elif block.language in SHELL:
            for words in shell.commands(block.text):
                if block.not_run:
                    shell.check(words)
                else:
                    self.outputs.append(shell.run(words, self._finished))
        elif block.language in PYTHON:
            code = compile(_shortened(block.text), str(block), "exec")
            if not block.not_run:
                self._exec(code, block)
        elif block.language in SETTINGS:
            tables = tomllib.loads(block.text)
            if not block.is_included:
                scr.NodeClassifier(recipe=tables).resolve(self._given()["graph"])

    def _exec(self, code: Any, block: Block) -> None:
        if block.given:
            given = self._given()
            self.names.update({name: given[name] for name in block.given})
        exec(code, self.names)


def _shortened(text: str) -> str:
    for pattern, shorter in SHORTER.items():
        text = re.sub(pattern, shorter, text)
    return text
