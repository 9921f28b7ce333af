"""Rows of a tensor on as many threads as torch uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

from scr.compute import run_between

ROWS = 256
"""Rows per partial sum, so that sums do not depend on the number of threads."""
TINY = 1 << 12
"""Numbers below which torch's own functions are faster than the call of a compiled loop."""
_SMALL = 1 << 15
"""Numbers below which waking a second thread costs more than it saves (about 20 us)."""


_plain = ContextVar("plain", default=False)
"""Whether only torch's own functions are to be used."""


@contextmanager
def plain_functions() -> Iterator[None]:
    """Compute with torch's own functions alone, which an exporter can follow."""
    token = _plain.set(True)
    try:
        yield
    finally:
        _plain.reset(token)


def is_plain() -> bool:
    """Whether `plain_functions` is in force."""
    return _plain.get()


def fits_kernels(numbers: Tensor) -> bool:
    """Whether the compiled loops can work on a tensor: float32, in main memory."""
    return numbers.device.type == "cpu" and numbers.dtype == torch.float32 and not is_plain()


def suits_kernels(numbers: Tensor) -> bool:
    """Whether the compiled loops can work on a tensor as it lies, and are worth their call."""
    return fits_kernels(numbers) and numbers.numel() >= TINY and numbers.is_contiguous()


def blocks_of(rows: int) -> int:
    """How many partial sums there are."""
    return -(-rows // ROWS)


def run_rows(kernel: Callable[..., None], count: int, size: int, *arguments: Any) -> None:
    """Call ``kernel(*arguments, start, stop)`` for ranges that together cover ``0..count``.

    Tensors become NumPy arrays. The numbers touched in all, `size`, decide whether threads pay.
    """
    arrays = [each.detach().numpy() if isinstance(each, Tensor) else each for each in arguments]
    threads = min(torch.get_num_threads(), count)
    if threads < 2 or size < _SMALL:
        kernel(*arrays, 0, count)
    else:
        bounds = [count * part // threads for part in range(threads + 1)]
        run_between(kernel, bounds, *arrays)
