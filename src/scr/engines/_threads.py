"""How many threads a worker computes with."""

from __future__ import annotations

import os
import signal
import sys

VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS",
             "VECLIB_MAXIMUM_THREADS")  # fmt: skip
"""Read by libraries when they are loaded."""


def use_threads(count: int) -> None:
    """Compute with so many threads from now on, by libraries that are loaded or will be."""
    for name in VARIABLES:
        if name != "NUMBA_NUM_THREADS" or "numba" not in sys.modules:  # numba refuses a change
            os.environ[name] = str(count)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(count)
    if "numba" in sys.modules:
        numba = sys.modules["numba"]
        numba.set_num_threads(min(count, numba.config.NUMBA_NUM_THREADS))
    from threadpoolctl import threadpool_limits

    threadpool_limits(count)


def use_one_thread() -> None:
    """Compute with one thread from now on, as one of several processes; leave Ctrl-C to another."""
    # A Ctrl-C reaches all processes of a terminal; the one that shows it ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    import numba  # noqa: F401
    import torch  # noqa: F401

    use_threads(1)
