"""Limits that this process runs under: control groups of containers and job systems, `ulimit`.

A process belongs to a control group, which belongs to another, and every one of them may have a
limit: the group of a Slurm step may have none while that of its job has. So all are asked, from the
process's own upward, in both versions of the interface. All is read from `/proc` and `/sys`, whose
parent is an argument, so that tests have machines of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

ROOT = Path("/")


class Limit(NamedTuple):
    """One limit, and how much of it is left."""

    name: str
    """As a sentence has it."""
    bytes: int
    free: int
    """Never below 0."""


class _Version(NamedTuple):
    """Names of what is read, in one version of control groups."""

    filesystem: str
    mounted: str
    """Where it is mounted if the system does not say."""
    limits: tuple[str, ...]
    used: str
    cached: str
    """In `memory.stat`: files that make room when memory is needed, but count as used."""


_VERSIONS = (
    _Version(
        "cgroup2", "/sys/fs/cgroup", ("memory.max", "memory.high"), "memory.current",
        "inactive_file",
    ),
    _Version(
        "cgroup", "/sys/fs/cgroup/memory", ("memory.limit_in_bytes",), "memory.usage_in_bytes",
        "total_inactive_file",
    ),
)  # fmt: skip
ADDRESS_SPACE = "`ulimit -v`"
"""Name of the limit that memory maps and stacks of threads count against, used or not."""
_RESOURCES = {
    "Max address space": ("VmSize", ADDRESS_SPACE),
    "Max data size": ("VmData", "`ulimit -d`"),
}
"""Limits of `/proc/self/limits`, what `/proc/self/status` counts against them, and their names."""


def memory_limits(root: Path = ROOT) -> list[Limit]:
    """All limits of this process's memory that the system knows; none: only the machine's."""
    return [*_group_limits(root), *_resource_limits(root)]


def number_after(file: Path, name: str) -> int | None:
    """The number after a name in a file of names and numbers, such as /proc/meminfo."""
    try:
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            words = line.split()
            if words and words[0].rstrip(":") == name:
                return int(words[1])
    except (OSError, ValueError, IndexError):
        pass
    return None


def _group_limits(root: Path) -> Iterator[Limit]:
    for line in _lines(root / "proc/self/cgroup"):
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if number == "0" and not controllers:
            version = _VERSIONS[0]
        elif "memory" in controllers.split(","):
            version = _VERSIONS[1]
        else:
            continue
        mount, inside = _mount(root, version)
        folder = root / mount.lstrip("/")
        below = PurePosixPath(path)
        # In a container, the mount may show the process's own group and not those above it.
        parts = below.relative_to(inside).parts if below.is_relative_to(inside) else ()
        for depth in range(len(parts), -1, -1):
            group = folder.joinpath(*parts[:depth])
            limit = _group_limit(group, version, root)
            if limit is not None:
                yield limit
            if _number(group / "memory.use_hierarchy") == 0:
                break  # groups above do not count what this one uses


def _group_limit(group: Path, version: _Version, root: Path) -> Limit | None:
    given = [_number(group / name) for name in version.limits]
    limits = [limit for limit in given if limit is not None]
    used = _number(group / version.used)
    if not limits or used is None:
        return None
    cached = number_after(group / "memory.stat", version.cached) or 0
    name = f"the control group `/{group.relative_to(root).as_posix()}`"
    return Limit(name, min(limits), max(min(limits) - max(used - cached, 0), 0))


def _resource_limits(root: Path) -> Iterator[Limit]:
    for line in _lines(root / "proc/self/limits"):
        for title, (counted, name) in _RESOURCES.items():
            words = line[len(title) :].split()
            if not line.startswith(title) or not words or not words[0].isdigit():
                continue
            held = number_after(root / "proc/self/status", counted)
            if held is not None:
                yield Limit(name, int(words[0]), max(int(words[0]) - 1024 * held, 0))


def _mount(root: Path, version: _Version) -> tuple[str, str]:
    """Where groups are mounted, and which of them is the topmost that can be seen there."""
    for line in _lines(root / "proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        words, kinds = before.split(), after.split()
        if len(words) < 5 or len(kinds) < 3 or kinds[0] != version.filesystem:
            continue
        if version.filesystem == "cgroup2" or "memory" in kinds[2].split(","):
            return _unescaped(words[4]), _unescaped(words[3])
    return version.mounted, "/"


def _unescaped(text: str) -> str:
    r"""Spaces and backslashes are written as ``\040`` in `/proc/self/mountinfo`."""
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), text)


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text(encoding="ascii"))
    except (OSError, ValueError):  # not there, or `max`
        return None


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []
