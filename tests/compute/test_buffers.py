"""Memory for wide tensors: right precision, and none handed back when asked to keep it."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from scr.compute import empty, empty_like


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_precision_and_shape_are_those_asked_for(dtype):
    like = torch.zeros(3, 4, dtype=dtype)
    assert empty((5, 6), like).shape == (5, 6)
    assert empty((5, 6), like).dtype == dtype
    assert empty_like(like.t()).shape == (4, 3)
    assert empty_like(like.t()).is_contiguous()


_COUNT_FAULTS = """
import resource, torch
from scr.compute import keep_freed_memory
from scr.training import fit  # as in a process that trains
kept = keep_freed_memory()
for _ in range(16):  # the heap settles after some
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(8 << 20)  # 32 MiB: 8,192 pages
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(int(kept), faults)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a setting of GNU's C library")
def test_kept_memory_is_used_again_without_page_faults():
    command = [sys.executable, "-c", _COUNT_FAULTS]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    kept, faults = map(int, printed.split())
    if not kept:
        pytest.skip("another C library")
    assert faults < 100
