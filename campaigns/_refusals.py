"""Whether a command that failed said so as it should: one sentence, and nothing unexpected."""

from __future__ import annotations

import re
import signal

from campaigns._fork import Ended

_NAMED = re.compile(r"`[^`]+`")


def complaint(ended: Ended, *, names_file: bool = True) -> tuple[str, str]:
    """An outcome and what is wrong with the way in which a command refused; empty: nothing is."""
    said = " ".join(ended.output.split())[-400:]
    if ended.code < 0:
        return "crash", f"{signal.Signals(-ended.code).name}: {said}"
    if ended.is_unexpected:
        return "unexpected error", said
    if ended.code == 0:
        return "no refusal", said
    errors = re.findall(r"^error: .+", ended.output, flags=re.MULTILINE)
    if len(errors) != 1:
        return "no sentence", said
    if names_file and not _NAMED.search(errors[0]):
        return "no file named", errors[0]
    return "", ""
