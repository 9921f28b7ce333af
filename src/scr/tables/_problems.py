"""All problems of two tables at once: what stops the work, and what is said and worked around."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.errors import SourceError

SHOWN_ROWS = 3
"""Rows that a sentence names, of all that it counts."""


@dataclass
class Findings:
    """What was found in the tables: errors that cannot be worked around, and notes."""

    errors: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)

    def refuse(self, sentence: str, hint: str | None = None) -> None:
        """Something that only the user can decide."""
        self.errors.append(sentence)
        if hint is not None and hint not in self.hints:
            self.hints.append(hint)

    def note(self, *sentences: str) -> None:
        """Something that was noticed, and what was done about it."""
        self.notes.extend(sentences)

    def raise_errors(self) -> None:
        """Raise one `SourceError` that lists all errors, if there are any."""
        if not self.errors:
            return
        text = capital(self.errors[0])
        if len(self.errors) > 1:
            listed = "\n".join(f"- {error}" for error in self.errors)
            text = f"The tables have {len(self.errors)} problems:\n{listed}"
        raise SourceError(text, hint="; ".join(self.hints) or None)


def capital(sentence: str) -> str:
    """A sentence with its first letter in upper case."""
    return sentence[:1].upper() + sentence[1:]


def rows_text(rows: NDArray[Any] | Iterable[int]) -> str:
    """Numbers of the first rows, counted from 1: `row 4` or `rows 4, 7, 9, ...`."""
    numbers = [int(row) + 1 for row in np.asarray(rows).tolist()]
    if len(numbers) == 1:
        return f"row {numbers[0]}"
    shown = ", ".join(str(number) for number in numbers[:SHOWN_ROWS])
    return f"rows {shown}" + (", ..." if len(numbers) > SHOWN_ROWS else "")


def count(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun: `1 edge`, `3,000 edges`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
