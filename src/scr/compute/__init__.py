"""Threads, compiled loops, random bits, memory: what every package that computes shares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scr._front_door import front_door

if TYPE_CHECKING:
    from scr.compute._allocator import keep_freed_memory as keep_freed_memory
    from scr.compute._allocator import share_arena as share_arena
    from scr.compute._buffers import empty as empty
    from scr.compute._buffers import empty_like as empty_like
    from scr.compute._device import usable_device as usable_device
    from scr.compute._group import ALONE as ALONE
    from scr.compute._group import STEP_SHARES as STEP_SHARES
    from scr.compute._group import Group as Group
    from scr.compute._group import TorchGroup as TorchGroup
    from scr.compute._group import current_group as current_group
    from scr.compute._group import joined as joined
    from scr.compute._loops import CACHE_LINE as CACHE_LINE
    from scr.compute._loops import aligned_empty as aligned_empty
    from scr.compute._loops import compiled as compiled
    from scr.compute._loops import compiled_parallel as compiled_parallel
    from scr.compute._loops import compiled_reordered as compiled_reordered
    from scr.compute._loops import cut_rows as cut_rows
    from scr.compute._loops import default_threads as default_threads
    from scr.compute._loops import ends_of as ends_of
    from scr.compute._loops import equal_ends as equal_ends
    from scr.compute._loops import read_only as read_only
    from scr.compute._loops import run_between as run_between
    from scr.compute._loops import run_ranges as run_ranges
    from scr.compute._memory import NAMED_SLACK as NAMED_SLACK
    from scr.compute._memory import available_bytes as available_bytes
    from scr.compute._memory import check_limits as check_limits
    from scr.compute._memory import check_memory as check_memory
    from scr.compute._memory import is_out_of_memory as is_out_of_memory
    from scr.compute._memory import memory_budget as memory_budget
    from scr.compute._memory import memory_errors as memory_errors
    from scr.compute._memory import out_of_memory as out_of_memory
    from scr.compute._memory import peak_bytes as peak_bytes
    from scr.compute._memory import process_budget as process_budget
    from scr.compute._memory import readable_bytes as readable_bytes
    from scr.compute._memory import resident_bytes as resident_bytes
    from scr.compute._ordered_threads import map_in_order as map_in_order
    from scr.compute._ordered_threads import run_on_threads as run_on_threads
    from scr.compute._ordered_threads import run_with_buffers as run_with_buffers
    from scr.compute._progress import OnProgress as OnProgress
    from scr.compute._progress import ProgressCount as ProgressCount
    from scr.compute._random_bits import below as below
    from scr.compute._random_bits import derived_key as derived_key
    from scr.compute._random_bits import mix as mix
    from scr.compute._random_bits import stream_key as stream_key
    from scr.compute._random_bits import uniform as uniform
else:
    __all__, __getattr__, __dir__ = front_door(__name__)
