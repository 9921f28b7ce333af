"""What workers run in tests; processes of all engines import it from here."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np

from scr.errors import GraphError


def scaled(factor):
    return lambda item: factor * item


def total(array):
    return lambda item: float(array.sum()) + item


def process_ids(_):
    def work(_):
        time.sleep(0.05)
        return os.getpid()

    return work


def threads(_):
    import torch

    def work(_):
        import numba

        return torch.get_num_threads(), numba.get_num_threads()

    return work


def killed_once(folder):
    """The worker of item 2 is killed where no worker was before it."""

    def work(item):
        marker = Path(folder) / "killed"
        if item == 2 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return item * item

    return work


def always_killed(_):
    def work(_):
        print("before the end", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

    return work


def refused(_):
    def work(item):
        raise GraphError(f"item {item} is refused", hint="another item")

    return work


def refused_setup(_):
    raise GraphError("no worker can be set up")


def broken(_):
    def work(item):
        print(f"the worker looks at {item}", flush=True)
        raise ZeroDivisionError("by nothing")

    return work


def waiting(folder):
    """Every item says that it began, and waits until it may end."""

    def work(item):
        (Path(folder) / f"{item}-{os.getpid()}").touch()
        while not (Path(folder) / "go").exists():
            time.sleep(0.02)
        return np.square(item)

    return work
