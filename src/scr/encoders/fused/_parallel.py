"""Rows of a tensor on as many threads as torch uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from scr.compute import run_between

_SMALL = 1 << 15
"""Numbers below which waking a second thread costs more than it saves (about 20 us)."""


def run_rows(kernel: Callable[..., None], count: int, size: int, *arguments: Any) -> None:
    """Call ``kernel(*arguments, start, stop)`` for ranges that together cover ``0..count``.

    Args:
        kernel: A compiled loop over a range of rows.
        count: Rows, or blocks of rows.
        size: Numbers touched in all, which decides whether threads pay.
        *arguments: Passed on.
    """
    threads = min(torch.get_num_threads(), count)
    if threads < 2 or size < _SMALL:
        kernel(*arguments, 0, count)
    else:
        bounds = [count * part // threads for part in range(threads + 1)]
        run_between(kernel, bounds, *arguments)
