"""What `scr encoders` and `scr regularizers` share: papers in short, and tables of settings.

Both are read from the code: the text at the top of a file, or of a class that shares its file with
others, names the paper, and the text below a field of a section says what the setting does.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from scr.cli._console import console, print_line, print_wide, table

if TYPE_CHECKING:
    from scr.config import Setting

WIDTH = 110
"""Columns that these tables take at least on a terminal."""
_PAPER = re.compile(r'Papers?: (?P<who>[^"]+ \d{4}), "[^"]+", (?P<where>[^;.,\s]+(?:\.\d+)?)')


def words_of(code: type[Any]) -> str:
    """The text of a class that has a title, or else of the file that it is in, on one line."""
    own = code.__doc__ or ""
    text = own if ": " in own.partition("\n")[0] else sys.modules[code.__module__].__doc__ or ""
    return " ".join(text.split())


def headline(text: str) -> str:
    """What a file is about, from its text: the first sentence without a name before it.

    >>> headline("SGC: logistic regression on the farthest hop. Paper: Wu et al. 2019")
    'logistic regression on the farthest hop'
    >>> headline("An MLP: what can be known without the graph.")
    'an MLP: what can be known without the graph'
    """
    sentence = text.partition(". ")[0].removesuffix(".")
    if sentence.startswith(("A ", "An ")):
        return f"a{sentence[1:]}"
    _, colon, rest = sentence.partition(": ")
    return rest if colon else sentence


def paper(text: str) -> str:
    """Who, when and where, of the first paper that a text names; empty if it names none.

    >>> paper('Paper: Wu et al. 2019, "Simplifying Networks", arXiv:1902.07153; a variant.')
    'Wu et al. 2019, arXiv:1902.07153'
    """
    match = _PAPER.search(text)
    return "" if match is None else f"{match['who']}, {match['where']}"


def print_methods(headings: Sequence[str], rows: Iterable[Sequence[str]], hint: str) -> None:
    """A table of names whose long texts are wrapped, and what may be done with them."""
    first, *others = headings
    lined = table([first], padding=(0, 1, 0, 0))
    for heading in others:
        lined.add_column(heading, overflow="fold")
    for row in rows:
        lined.add_row(*(Text(cell) for cell in row))
    print_wide(lined, WIDTH)
    console.print(hint)


def print_settings(about: str, settings: Iterable[Setting], section: str) -> None:
    """What a method is, and its settings: name, default, what else it may be, what it does."""
    print_line(about.rstrip())
    rows = [(each.name, shown(each.default), each.expected, each.meaning) for each in settings]
    if not rows:
        console.print("It reads no settings.")
        return
    hint = (
        f"Change one with --set {section}.NAME=VALUE. A preset may have other values than these "
        "defaults; run.json records those of a run."
    )
    print_methods(("setting", "default", "may be", "meaning"), rows, hint)


def described(settings: Iterable[Setting]) -> list[dict[str, Any]]:
    """Settings as a report has them."""
    return [
        {"name": each.name, "default": each.default, "expected": each.expected,
         "meaning": each.meaning}
        for each in settings
    ]  # fmt: skip


def shown(value: Any) -> str:
    """A value as `--set` takes it.

    >>> shown(None), shown(True), shown((10, 10)), shown("mean")
    ('none', 'true', '[10, 10]', 'mean')
    """
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(shown, value))}]"
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)
