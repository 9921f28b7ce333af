"""Damaged files: refused in one sentence that names them, or of no consequence.

A damaged store, hop cache, model, run or checkpoint must never be used in silence. Sources of users
have no checksums, so other content gives another graph; records of experiments are the same.
"""

from __future__ import annotations

import json
import re
import resource
import shutil
import signal
import traceback
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from campaigns._campaign import NOTE, Campaign, Result
from campaigns._fork import import_everything
from campaigns.damage_bytes import damage_bytes, damage_entry
from campaigns.damage_formats import damage_format
from campaigns.damage_subjects import (
    Refused,
    Subject,
    Unexpected,
    by_name,
    constants,
    in_child,
    seal_again,
    subjects,
)

EQUAL, REFUSED, CHANGED, FORGED = "equal", "refused", "another source", "forged"
SECONDS = 90
"""After which a case hangs: also where many processes share a core."""
CORE_SECONDS = 15
"""Of a core, after which a case hangs: it takes a hundredth of it."""
MORE_BYTES = 3 << 30
"""Of addresses, beyond those that a worker has when a case begins."""
MOST_GROWTH = 600 << 20
"""By which the memory of a worker may grow in one case: files are of a few thousand bytes."""
LONGEST = 1_500
"""Characters of a line of a refusal; several problems are as many lines."""


_UNEXPECTED = re.compile(r"unexpected \w*(Error|Exception|Exit|Interrupt|Warning)\b")
"""As the command line says it; parsers say that an end is unexpected, which is a good reason."""


class _Hang(BaseException):
    """Nothing catches it on the way."""


class Damage(Campaign):
    """Files of every kind, damaged in every way."""

    name = "damage"
    title = "files damaged and then used: sources, stores, hops, runs, checkpoints, records"
    cases = 100_000
    minutes = 40.0
    seconds = 180.0
    good = frozenset({EQUAL, REFUSED, CHANGED, FORGED})

    def prepare(self, shared: Path) -> None:
        """Make every subject, and use it as it is."""
        import_everything()
        made: dict[Any, Path] = {}
        for subject in subjects():
            folder = shared / subject.name
            if subject.make in made:
                shutil.copytree(made[subject.make], folder, symlinks=True)
            else:
                folder.mkdir(parents=True)
                in_child(partial(subject.make, folder))
            made[subject.make] = folder
        expected = {}
        for subject in subjects():
            copy = shared / "copy"
            folder = shared / subject.name
            shutil.copytree(folder, copy, symlinks=True)
            with warnings.catch_warnings(), constants(subject.constants):
                warnings.simplefilter("ignore")
                expected[subject.name] = subject.use(copy)
            shutil.rmtree(copy)
        (shared / "expected.json").write_text(json.dumps(expected))

    def start(self, shared: Path) -> None:
        """Import what is used."""
        import scr.cli

        assert scr.cli
        warnings.simplefilter("ignore")
        np.seterr(all="ignore")
        self.shared, self.subjects = shared, by_name()
        self.expected = json.loads((shared / "expected.json").read_text())
        self.names = list(self.subjects)
        weights = np.array([self.subjects[name].weight for name in self.names])
        self.chances = weights / weights.sum()
        signal.signal(signal.SIGALRM, _hang)
        signal.signal(signal.SIGPROF, _hang)

    def run(self, number: int, random: np.random.Generator, folder: Path) -> Result:
        """Damage one file, and use what it belongs to."""
        subject = self.subjects[self.names[int(random.choice(len(self.names), p=self.chances))]]
        place = folder / "it"
        shutil.copytree(self.shared / subject.name, place, symlinks=True)
        file, what, is_forged = _damage(subject, place, random)
        what = what.encode("utf-8", "backslashreplace").decode()
        (folder / NOTE).write_text(f"{subject.name}\n{what}")
        _limit_memory()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        outcome, detail = self._use(subject, place, file, is_forged)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        if any(folder.rglob("canary")):
            outcome, detail = "execution", "a file that only a pickle would make is there"
        elif grown * 1024 > MOST_GROWTH:
            outcome, detail = "memory", f"{grown / 1024:.0f} MiB more"
        return Result(outcome=outcome, kind=subject.name, what=what, detail=detail)

    def _use(self, subject: Subject, place: Path, file: Path, is_forged: bool) -> tuple[str, str]:
        from scr.errors import ConfigError, GraphError, SCRError

        signal.alarm(SECONDS)
        signal.setitimer(signal.ITIMER_PROF, CORE_SECONDS)
        try:
            with constants(subject.constants):
                found = subject.use(place)
        except (SCRError, Refused) as error:
            if is_forged and isinstance(error, ConfigError | GraphError):
                return FORGED, ""  # a sound graph, such as one without validation nodes
            hint = getattr(error, "hint", None) or ""
            return _judged(str(getattr(error, "message", error)), hint, place, file)
        except OSError as error:
            if error.filename is not None:
                return _judged(str(error), "", place, file)
            return "unexpected", _place(error)
        except _Hang as error:
            return "hang", _place(error)
        except Unexpected as error:
            return "unexpected", str(error)
        except Exception as error:  # noqa: BLE001 - the very outcome that is looked for
            return "unexpected", _place(error)
        finally:
            signal.alarm(0)
            signal.setitimer(signal.ITIMER_PROF, 0)
        if found == self.expected[subject.name]:
            return EQUAL, ""
        if not subject.is_ours:
            return CHANGED, ""
        return (FORGED, "") if is_forged else ("used in silence", "the result is another one")


def _damage(subject: Subject, place: Path, random: np.random.Generator) -> tuple[Path, str, bool]:
    files = subject.files(place)
    file = files[int(random.integers(len(files)))]
    kind, name = random.random(), file.relative_to(place).as_posix()
    if kind < 0.1:
        return file, f"{name}: {damage_entry(file, random)}", False
    way: Any = damage_bytes if kind < 0.45 else damage_format
    what = f"{name}: {way(file, random)}"
    forged = ""
    if subject.is_ours and random.random() < 0.3:
        try:
            forged = seal_again(place, file)
        except Exception:  # noqa: BLE001 - too damaged to have a checksum
            forged = ""
    return file, f"{what}{'; ' if forged else ''}{forged}", bool(forged)


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MORE_BYTES, hard))


def _judged(message: str, hint: str, place: Path, file: Path) -> tuple[str, str]:
    """Whether a refusal says what is damaged, briefly."""
    said = f"{message} {hint}"
    names = {file.name, file.parent.name, str(place), place.name}
    shown = said.replace(str(place), "IT")
    if not any(name in said for name in names):
        return "unnamed", shown[:300]
    if max(map(len, message.splitlines()), default=0) > LONGEST:
        return "long message", shown[:300]
    if "Traceback" in said or _UNEXPECTED.search(message):
        return "unexpected", shown[:300]
    return REFUSED, shown[:200]


def _place(error: BaseException) -> str:
    """What was raised, and where in scr."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/scr/" in frame.filename]
    last = ours[-1] if ours else frames[-1]
    where = f"{last.filename.rpartition('/src/')[2]}:{last.lineno}"
    return f"{type(error).__name__}: {str(error)[:200]} in {where}"


def _hang(*_: object) -> None:
    raise _Hang
