"""What all benchmarks share: run a command and measure it, keep rows as JSON, name the machine.

    results = Results(Path("results/scale.json"), {"columns": 32})
    if not results.find(step="synth"):
        measured = measure(scr_command("synth", "store"), folders=[work])
        results.add({"step": "synth"}, measured.row())

Imports nothing large: a benchmark's own memory must not be mistaken for that of what it measures.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from code_version import code_version

HERE = Path(__file__).parent
RESULTS = HERE / "results"
REAPER = HERE / "reaper.py"
SAMPLE_SECONDS = 0.5
"""Between two looks at the disk."""
READ_BYTES = 1 << 22
FREE_BYTES = 400 * 2**20
"""That `fill_page_cache` leaves; Linux keeps about as much free anyway."""
PACKAGES = ("scr-gnn", "numpy", "numba", "scipy", "torch", "torch-geometric", "pyarrow")

console = Console()


@dataclass(frozen=True)
class Measured:
    """What a command took."""

    command: list[str]
    seconds: float
    processor_seconds: float
    memory_bytes: int
    """Most memory that was resident at once, interpreter and libraries included."""
    disk_bytes: int
    """Allocated in the folders at the end."""
    disk_peak_bytes: int
    """The most that was seen there while it ran, what was there before included."""
    code: int
    """As of `subprocess`: 0, or the negative signal that ended it."""
    output: str
    folders: tuple[Path, ...] = ()

    def row(self) -> dict[str, Any]:
        """Rounded, for JSON."""
        return {
            "command": shown(self.command, self.folders),
            "seconds": round(self.seconds, 2),
            "processor_seconds": round(self.processor_seconds, 2),
            "memory_bytes": self.memory_bytes,
            "disk_bytes": self.disk_bytes,
            "disk_peak_bytes": self.disk_peak_bytes,
        }


def measure(
    command: Sequence[str | Path],
    *,
    folders: Iterable[Path] = (),
    kill_after: float = 0,
    check: bool = True,
    threads: int | None = None,
) -> Measured:
    """Run a command in a process of its own.

    Args:
        command: The program and its arguments.
        folders: Where it works; their disk is watched.
        kill_after: Seconds until it is killed by SIGKILL; 0: never.
        check: Stop with the end of its output if it fails.
        threads: Cores that it may use; none: all.
    """
    words, places = [str(word) for word in command], list(folders)
    environment = dict(os.environ)
    # Every process would compile all that it imports once more, which takes seconds.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if threads is not None:
        names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
        environment |= dict.fromkeys(names, str(threads))
    with tempfile.TemporaryDirectory() as folder, DiskPeak(places) as disk:
        report = Path(folder) / "report.json"
        output = Path(folder) / "output.txt"
        with output.open("wb") as stream:
            starter = [sys.executable, "-S", "-E", REAPER, report, str(kill_after), *words]
            subprocess.run(
                starter, check=True, stdout=stream, stderr=subprocess.STDOUT, env=environment
            )
        found = json.loads(report.read_text(encoding="utf-8"))
        text = output.read_text(encoding="utf-8", errors="replace")
    if check and found["code"] != 0:
        raise SystemExit(f"{shown(words)} ended with {found['code']}:\n{text[-4000:]}")
    return Measured(
        words, **found, disk_bytes=disk_bytes(places), disk_peak_bytes=disk.peak, output=text,
        folders=tuple(places),
    )  # fmt: skip


class DiskPeak:
    """Watches the disk under some folders from a thread; use it as a context manager."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.peak = 0
        self._folders = folders
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> DiskPeak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        over = False
        while not over:
            over = self._over.wait(SAMPLE_SECONDS)
            self.peak = max(self.peak, disk_bytes(self._folders))


def disk_bytes(folders: Iterable[Path]) -> int:
    """Bytes allocated under some folders; a file with several names counts once."""
    blocks: dict[tuple[int, int], int] = {}
    for folder in folders:
        for path, _, names in os.walk(folder):
            for name in names:
                try:
                    state = os.lstat(Path(path) / name)
                except FileNotFoundError:  # removed since it was listed
                    continue
                blocks[state.st_dev, state.st_ino] = state.st_blocks * 512
    return sum(blocks.values())


def scr_command(*words: object) -> list[str]:
    """The command `scr ...` of the interpreter that is running."""
    return [sys.executable, "-m", "scr.cli", *map(str, words)]


def shown(command: Sequence[str], folders: Iterable[Path] = ()) -> str:
    """A command as one would type it, in the folder of the repository and in these folders."""
    words = list(command)
    if words[:3] == [sys.executable, "-m", "scr.cli"]:
        words[:3] = ["scr"]
    elif words and words[0] == sys.executable:
        words[0] = "python"
    for folder in (HERE.parent, *folders):
        words = [word.removeprefix(f"{folder}{os.sep}") for word in words]
    return shlex.join(words)


def shown_script() -> str:
    """The running benchmark as it was started, without options that only say where things lie."""
    words = [sys.executable, str(Path(sys.argv[0]).resolve())]
    given = iter(sys.argv[1:])
    for word in given:
        if word in ("--work", "--out", "--data"):
            next(given, None)
        elif word == "--official":
            words += [word, "CHECKOUT_OF_THUDM_SCR"]
            next(given, None)
        else:
            words.append(word)
    return shown(words)


class Results:
    """Rows of a benchmark in a JSON file, written one by one.

    A run that was stopped leaves its rows, and the next one with the same settings resumes it. Each
    row has the version of the code that it was recorded with.

    Args:
        path: The file.
        settings: What all rows share.
        kind: The kind of the results; none: the name of the file without suffix.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any], *, kind: str | None = None) -> None:
        self.path = path
        self.code = code_version(kind or path.stem)
        self._content: dict[str, Any] = {
            "command": shown_script(), "settings": dict(settings), "processor": processor(),
            "versions": versions(), "code": self.code, "rows": [],
        }  # fmt: skip
        before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        if before.get("settings") == json.loads(json.dumps(self._content["settings"])):
            self._content["rows"] = before["rows"]
            console.print(f"Going on with {len(before['rows'])} rows of {path}")
        elif before:
            console.print(f"{path} is of other settings and is made anew")

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All rows so far."""
        rows: list[dict[str, Any]] = self._content["rows"]
        return rows

    def find(self, **key: Any) -> dict[str, Any] | None:
        """The row with these values, if there is one."""
        fitting = (row for row in self.rows if key.items() <= row.items())
        return next(fitting, None)

    def add(self, key: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        """Add a row, in the place of one with the same key, and write the file."""
        self.remove(**key)
        row = {**key, **values, "code": self.code}
        self.rows.append(row)
        self._write()
        return row

    def remove(self, **key: Any) -> None:
        """Forget the rows with these values."""
        self._content["rows"] = [row for row in self.rows if not key.items() <= row.items()]

    def _write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_name(f".{self.path.name}.partial")
        partial.write_text(json.dumps(self._content, indent=1) + "\n", encoding="utf-8")
        partial.replace(self.path)


def remove(*paths: Path) -> None:
    """Remove folders and files, and what stopped runs left of them beside them."""
    for path in paths:
        leftovers = path.parent.glob(f".{path.name}.*") if path.parent.is_dir() else ()
        for each in (path, *leftovers):
            if each.is_dir():
                shutil.rmtree(each)
            else:
                each.unlink(missing_ok=True)


def fill_page_cache(file: Path, then: Path) -> None:
    """Have the page cache take the memory that is free, last of all with the files of a folder.

    The host of a virtual machine may take back what is free, and whoever touches it waits until it
    is there again: 6 s for each GiB on one machine, for more of it the more processes there are.
    What the cache holds is given up at once. It is filled by a sparse `file`, which takes no disk
    and must stay as long as it matters. Where the system does not say what is free, nothing is
    done.
    """
    if Path("/proc/meminfo").exists():
        with file.open("wb") as stream:  # anew: pages that are read again would be kept the longest
            stream.truncate(_memory("MemTotal"))
        with file.open("rb", buffering=0) as stream:
            while _memory("MemFree") > FREE_BYTES and stream.read(READ_BYTES):
                pass
    for each in sorted(then.rglob("*")):
        if each.is_file():
            with each.open("rb", buffering=0) as stream:
                while stream.read(READ_BYTES):
                    pass


def _memory(name: str) -> int:
    """Bytes of a line of `/proc/meminfo`."""
    text = Path("/proc/meminfo").read_text("ascii")
    found = re.search(rf"^{name}: +(\d+) kB$", text, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def stored_edges(store: Path) -> int:
    """Edges of a store, both directions counted."""
    manifest = json.loads((store / "manifest.json").read_text(encoding="utf-8"))
    return sum(int(relation["edges"]) for relation in manifest["metadata"]["relations"])


def processor() -> str:
    """Name of the processor, where the system tells."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        return next(
            line.split(":")[1].strip() for line in text.splitlines() if "model name" in line
        )
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """Of Python and of what is installed of `PACKAGES`."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def size(number: float) -> str:
    """Bytes, short: `3.2 GB`."""
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} GB" if number < 100 else f"{number:.0f} GB"


def say(title: str, row: Mapping[str, Any]) -> None:
    """Print one line about a measured row."""
    console.print(
        f"[bold]{title}[/]: {row['seconds']:,.1f} s, {size(row['memory_bytes'])} of memory, "
        f"{size(row['disk_bytes'])} on disk (peak {size(row['disk_peak_bytes'])})",
        soft_wrap=True,
    )
