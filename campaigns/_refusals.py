"""Whether a command that failed said so as it should: one sentence, and nothing unexpected."""

from __future__ import annotations

import re
import signal

from campaigns._fork import Ended

_NAMED = re.compile(r"[`'][^`']+[`']")
_ERROR = re.compile(r"^error: .+", re.MULTILINE | re.IGNORECASE)
"""Those of scr, and those of wrong lines of a command."""


def complaint(ended: Ended, *, names_file: bool = True) -> tuple[str, str]:
    """An outcome and what is wrong with the way in which a command refused; empty: nothing is."""
    said = " ".join(ended.output.split())[-400:]
    if ended.hung:
        return "hang", f"no end after {ended.seconds:.0f} s: {said}"
    if ended.code < 0:
        return "crash", f"{signal.Signals(-ended.code).name}: {said}"
    if ended.is_unexpected:
        return "unexpected error", said
    if ended.code == 0:
        return "no refusal", said
    errors = _ERROR.findall(ended.output)
    if len(errors) != 1:
        return "no sentence", said
    if errors[0].startswith("error: [Errno"):
        return "no sentence", errors[0]
    if names_file and not _NAMED.search(errors[0]):
        return "no file named", errors[0]
    return "", ""
