"""What a command has made, byte by byte, with what may differ between equal runs taken out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from pathlib import Path

VOLATILE_KEYS = ("seconds", "train_seconds", "propagate_seconds", "peak_memory_bytes")
"""Fields of JSON files that say how long, and with how much memory."""
VOLATILE_TEXT = rb"(>)[0-9][0-9.,]* (?:ms|s|min|h|MB|GB|MiB|GiB)(?=<)"
"""The same in cells of pages."""
EXCLUDED = frozenset({"verified.json"})
"""A file about the files beside it: their inodes and times."""
CHECKSUMS = "checksums.json"
"""Checksums of files whose times are volatile: compared is which are right, not what they are."""
UNORDERED = frozenset({"runs.jsonl"})
"""Files with a line per run, in the order in which the runs ended, each with its checksum."""
TEXTS = (".json", ".jsonl", ".html", ".csv", ".txt", ".toml")
SHOWN = 6
"""Names in a message."""


def tree(folder: Path) -> dict[str, str]:
    """Each entry of a folder by its name, with a digest of what it holds."""
    return {
        path.relative_to(folder).as_posix(): _digest(path, folder)
        for path in sorted(folder.rglob("*"))
        if path.name not in EXCLUDED
    }


def part(entries: Mapping[str, str], name: str) -> dict[str, str]:
    """What a tree has of one entry, and of what is in it."""
    return {
        path: digest
        for path, digest in entries.items()
        if path == name or path.startswith(f"{name}/")
    }


def leftovers(expected: Mapping[str, str], found: Mapping[str, str]) -> str:
    """Entries that should not be there, as one line; empty: there are none."""
    return _names(set(found) - set(expected))


def differences(expected: Mapping[str, str], found: Mapping[str, str]) -> str:
    """Entries that are missing or hold something else, as one line; empty: there are none."""
    missing = _names(set(expected) - set(found))
    changed = _names(name for name in expected if name in found and expected[name] != found[name])
    return "; ".join(
        f"{what}: {names}" for what, names in (("missing", missing), ("changed", changed)) if names
    )


def _names(names: Iterable[str]) -> str:
    listed = sorted(names)
    return ", ".join(listed[:SHOWN]) + (
        f" and {len(listed) - SHOWN} more" if listed[SHOWN:] else ""
    )


def _digest(path: Path, root: Path) -> str:
    if path.is_symlink():
        return f"link to {path.readlink()}"
    if path.is_dir():
        return "folder"
    content = path.read_bytes()
    if path.name == CHECKSUMS:
        content = _judged(path, content)
    if path.name in UNORDERED:
        content = b"\n".join(map(_judged_line, content.splitlines()))
    if path.suffix in TEXTS:
        content = normalized(content, root)
    if path.name in UNORDERED:
        content = b"\n".join(sorted(content.splitlines()))
    return blake2b(content, digest_size=12).hexdigest()


def _judged(path: Path, content: bytes) -> bytes:
    """Checksums of a folder as a list of files, each with whether its checksum is right."""
    try:
        sums = json.loads(content)
    except ValueError:  # a kill came while it was written to its hidden name
        return content
    files = {name: path.parent / name for name in sorted(sums)}
    right = {
        name: file.is_file() and _checksum(file.read_bytes()) == sums[name]
        for name, file in files.items()
    }
    return json.dumps(right).encode()


def _judged_line(line: bytes) -> bytes:
    """A line of a record with whether its checksum is right in the place of it."""
    start, separator, end = line.rpartition(b', "checksum": "')
    if not separator:
        return line
    is_right = end == _checksum(start + b"}").encode() + b'"}'
    return start + separator + str(is_right).encode() + b'"}'


def _checksum(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


def normalized(content: bytes, root: Path) -> bytes:
    """A text without times, and without the folder in which it was made."""
    content = content.replace(str(root.resolve()).encode(), b"ROOT")
    content = _VOLATILE.sub(rb"\1 0", content)
    return re.sub(VOLATILE_TEXT, rb"\1", content)


_VOLATILE = re.compile(
    rb'("(?:' + "|".join(VOLATILE_KEYS).encode() + rb')":)\s*(?:-?[0-9.e+-]+|null)'
)
