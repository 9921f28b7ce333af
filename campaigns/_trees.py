"""What a command has made, byte by byte, with what may differ between equal runs taken out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from pathlib import Path

VOLATILE_KEYS = ("seconds", "train_seconds", "propagate_seconds", "peak_memory_bytes")
"""Fields of JSON files that say how long, and with how much memory."""
VOLATILE_TEXT = rb"(>)[0-9][0-9.,]* (?:ms|s|min|h|MB|GB|MiB|GiB)(?=<)"
"""The same in cells of pages."""
EXCLUDED = frozenset({"verified.json", "checksums.json"})
"""Files about the files beside them: inodes and times, and checksums that follow from bytes which
are compared anyway, times in them included."""
UNORDERED = frozenset({"runs.jsonl"})
"""Files with a line per run, in the order in which the runs ended."""
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
    if path.suffix in TEXTS:
        content = normalized(content, root)
    if path.name in UNORDERED:
        content = b"\n".join(sorted(content.splitlines()))
    return blake2b(content, digest_size=12).hexdigest()


def normalized(content: bytes, root: Path) -> bytes:
    """A text without times, and without the folder in which it was made."""
    content = content.replace(str(root.resolve()).encode(), b"ROOT")
    content = _VOLATILE.sub(rb"\1 0", content)
    return re.sub(VOLATILE_TEXT, rb"\1", content)


_VOLATILE = re.compile(
    rb'("(?:' + "|".join(VOLATILE_KEYS).encode() + rb')":)\s*(?:-?[0-9.e+-]+|null)'
)
