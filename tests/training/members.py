"""Processes of a group for tests: started once, asked many times."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
from torch import distributed

HOST = "127.0.0.1"
SECONDS = 300
"""After which a process that waits for another one gives up; compiling loops takes a while where
much else runs."""


class Members:
    """Processes with torch.distributed, which form groups of any size up to their number."""

    def __init__(self, count: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.calls = 0
        # Where members find each other. A store in a file has them look at it again and again.
        self.store = distributed.TCPStore(HOST, 0, is_master=True, wait_for_workers=False)
        self.pipes, self.processes = [], []
        for _ in range(count):
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(there, self.store.port), daemon=True)
            process.start()
            self.pipes.append(here)
            self.processes.append(process)

    def call(self, size: int, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """What a function of a module returns in each process of a group."""
        self.calls += 1
        for rank, pipe in enumerate(self.pipes[:size]):
            pipe.send((self.calls, rank, size, function, arguments))
        answers = [self._answer(pipe) for pipe in self.pipes[:size]]
        failed = [text for is_well, text in answers if not is_well]
        assert not failed, "\n".join(failed)
        return [value for _, value in answers]

    def _answer(self, pipe: Any) -> tuple[bool, Any]:
        """Of this call; one that came too late for the call before is left out."""
        while pipe.poll(SECONDS):
            call, is_well, value = pipe.recv()
            if call == self.calls:
                return is_well, value
        raise AssertionError("a member does not answer")

    def close(self) -> None:
        for pipe, process in zip(self.pipes, self.processes, strict=True):
            pipe.close()
            process.join(10)
            if process.is_alive():
                process.kill()


def _serve(pipe: Any, port: int) -> None:
    from scr.compute import TorchGroup, joined

    torch.set_num_threads(1)
    found = distributed.TCPStore(HOST, port, is_master=False)
    while True:
        try:
            call, rank, size, function, arguments = pipe.recv()
        except EOFError:
            return
        try:
            distributed.init_process_group(
                "gloo", store=distributed.PrefixStore(f"call {call}", found), rank=rank,
                world_size=size, timeout=timedelta(seconds=SECONDS),
            )  # fmt: skip
            with joined(TorchGroup()):
                answer = call, True, function(*arguments)
        except Exception:  # noqa: BLE001 - shown by the test
            answer = call, False, f"rank {rank}: {traceback.format_exc()}"
        if distributed.is_initialized():
            distributed.destroy_process_group()
        pipe.send(answer)
