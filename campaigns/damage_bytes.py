"""Damage to any file, whatever it holds: to its bytes, and to what stands under its name.

Every function changes one file in place and says in a few words what it did.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np

Random = np.random.Generator
INTEGERS = (
    struct.pack("<i", -1), struct.pack("<q", -1), struct.pack("<I", 2**31 - 1), b"\x00\x00\x00\x80",
    struct.pack("<Q", 2**63 - 1), struct.pack("<d", float("nan")), struct.pack("<f", float("inf")),
    struct.pack(">q", 1), b"\x00" * 8, b"\xff" * 16, struct.pack("<q", 2**40),
)  # fmt: skip
"""Numbers that lie at the edge of what a field can hold."""


def integer(random: Random, low: int, high: int) -> int:
    """A whole number from `low` to below `high`; `low` if there is none."""
    return int(random.integers(low, max(high, low + 1)))


def chunk(random: Random, size: int) -> slice:
    """Some neighboring bytes: mostly few, sometimes many."""
    start = integer(random, 0, size)
    length = 1 + int(min(size, random.exponential(max(4, size / 20))))
    return slice(start, min(size, start + length))


def flip(content: bytearray, random: Random) -> str:
    """Give a few bytes other values."""
    places = [integer(random, 0, len(content)) for _ in range(integer(random, 1, 6))]
    for place in places:
        content[place] ^= integer(random, 1, 256)
    return f"flips bytes {places}"


def flip_bit(content: bytearray, random: Random) -> str:
    """Flip one bit, as failing memory does."""
    place, bit = integer(random, 0, len(content)), integer(random, 0, 8)
    content[place] ^= 1 << bit
    return f"flips bit {bit} of byte {place}"


def overwrite(content: bytearray, random: Random) -> str:
    """Put random bytes, zeros or ones over a chunk."""
    place = chunk(random, len(content))
    length = place.stop - place.start
    kind = integer(random, 0, 3)
    content[place] = (random.bytes(length), bytes(length), b"\xff" * length)[kind]
    return f"writes {('random bytes', 'zeros', 'ones')[kind]} to {place.start}:{place.stop}"


def number(content: bytearray, random: Random) -> str:
    """Put a number that nobody expects at a place."""
    value = INTEGERS[integer(random, 0, len(INTEGERS))]
    place = integer(random, 0, len(content)) // 4 * 4
    content[place : place + len(value)] = value
    return f"writes {value.hex()} at {place}"


def truncate(content: bytearray, random: Random) -> str:
    """Keep a beginning, most often most of it."""
    size = len(content)
    kept = size - 1 - int(min(size - 1, random.exponential(1 + size / 4)))
    del content[kept:]
    return f"keeps {kept} of {size} bytes"


def empty(content: bytearray, random: Random) -> str:
    """Keep nothing."""
    content.clear()
    return "empties it"


def extend(content: bytearray, random: Random) -> str:
    """Append something."""
    kind = integer(random, 0, 3)
    content += (random.bytes(integer(random, 1, 100)), bytes(4096), bytes(content))[kind]
    return f"appends {('random bytes', 'zeros', 'itself')[kind]}"


def swap(content: bytearray, random: Random) -> str:
    """Exchange two chunks."""
    size = len(content)
    length = integer(random, 1, max(2, size // 3))
    first, second = sorted(integer(random, 0, max(1, size - length)) for _ in range(2))
    second = max(second, first + length)
    parts = bytes(content[first : first + length]), bytes(content[second : second + length])
    content[second : second + length], content[first : first + length] = parts
    return f"swaps {length} bytes at {first} and {second}"


def duplicate(content: bytearray, random: Random) -> str:
    """Insert a chunk of the file at another place."""
    place, target = chunk(random, len(content)), integer(random, 0, len(content))
    content[target:target] = content[place]
    return f"inserts {place.start}:{place.stop} at {target}"


def remove(content: bytearray, random: Random) -> str:
    """Take a chunk out."""
    place = chunk(random, len(content))
    del content[place]
    return f"removes {place.start}:{place.stop}"


def replace(content: bytearray, random: Random) -> str:
    """Put something else there altogether."""
    others = (
        b"null", b"[]", b"{}", b"0", b"\xff\xfe", b"\x93NUMPY", b"PK\x05\x06" + bytes(18),
        b"\x80\x04.", b"PAR1PAR1", b"<html>", b"\x00" * 1000, random.bytes(500), b'"' * 99,
        b"\n" * 50, b"[" * 100_000,
    )  # fmt: skip
    content[:] = others[integer(random, 0, len(others))]
    return f"becomes {bytes(content[:12])!r}"


BYTES: tuple[Callable[[bytearray, Random], str], ...] = (
    flip, flip, flip_bit, flip_bit, overwrite, number, number, truncate, truncate, extend, swap,
    duplicate, remove, replace, empty,
)  # fmt: skip


def damage_bytes(path: Path, random: Random) -> str:
    """Damage the bytes of a file by one of `BYTES`, sometimes by two."""
    content, done = bytearray(path.read_bytes()), ""
    for _ in range(1 if random.random() < 0.8 else 2):
        if content:
            way = BYTES[integer(random, 0, len(BYTES))]
            done += f"{', ' if done else ''}{way(content, random)}"
    path.write_bytes(content)
    return done or "leaves it empty"


def damage_entry(path: Path, random: Random) -> str:
    """Put something that is no file in its place, or nothing."""
    kind = integer(random, 0, 8)
    path.unlink()
    if kind == 0:
        path.mkdir()
        return "becomes a folder"
    if kind == 1:
        path.symlink_to(path.name)
        return "becomes a link to itself"
    if kind == 2:
        path.symlink_to("nowhere")
        return "becomes a link to nothing"
    if kind == 3:
        path.symlink_to("/dev/zero")
        return "becomes a link to /dev/zero"
    if kind == 4:
        path.symlink_to("/dev/null")
        return "becomes a link to /dev/null"
    if kind == 5:
        os.mkfifo(path)
        return "becomes a pipe"
    if kind == 6:
        path.symlink_to(path.parent)
        return "becomes a link to its folder"
    return "is removed"
