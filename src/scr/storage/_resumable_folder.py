"""A folder of many files that is made over several attempts, and appears whole.

Work goes on in `.NAME.partial` beside the target: a file of its identity, which says what is being
made, and the folder itself with the files that are finished. Whoever was killed goes on with the
same identity where the finished files end; another identity starts anew. At the end the folder is
renamed to its name, so nobody ever sees half of it.

    with resumable_folder(Path("shards"), {"seed": 0}) as folder:
        for number in range(1000):
            if not (folder / f"{number}.npy").exists():
                with finished_file(folder / f"{number}.npy") as stream:
                    np.save(stream, make(number))
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from scr.errors import StoreError

_IDENTITY = "identity.json"
_FILES = "files"
_UNFINISHED = ".unfinished"


@contextmanager
def resumable_folder(target: Path, identity: Mapping[str, Any]) -> Iterator[Path]:
    """The folder to put files into, with those of an earlier attempt; renamed at the end.

    A kill, an interruption or a full disk keeps what is finished; any other error leaves nothing.

    Args:
        target: The folder to make; it must not exist, or be empty.
        identity: All that decides the content, in plain values.

    Raises:
        StoreError: Something is at `target` already, or another process is making it.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise StoreError(
            f"`{target}` exists already; expected a new folder", hint="choose another name"
        )
    partial = target.parent / f".{target.name}.partial"
    partial.mkdir(parents=True, exist_ok=True)
    with (partial / _IDENTITY).open("a+", encoding="utf-8") as stream:
        _lock(stream, target)
        files = partial / _FILES
        wanted = json.dumps(identity, sort_keys=True)
        stream.seek(0)
        if stream.read() != wanted:
            shutil.rmtree(files, ignore_errors=True)
            stream.truncate(0)
            stream.write(wanted)
            stream.flush()
        files.mkdir(exist_ok=True)
        try:
            yield files
            for unfinished in files.glob(f"*{_UNFINISHED}"):
                unfinished.unlink()
            files.rename(target)
        except OSError:
            if not any(files.iterdir()):
                shutil.rmtree(partial, ignore_errors=True)
            raise
        except Exception:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        shutil.rmtree(partial)


@contextmanager
def finished_file(path: Path, *, go_on: bool = False) -> Iterator[IO[bytes]]:
    """A file that has its name once it is whole and on disk.

    Args:
        path: Its name.
        go_on: Keep what an earlier attempt wrote of it; the stream is at its end.
    """
    unfinished = path.with_name(path.name + _UNFINISHED)
    with unfinished.open("ab" if go_on else "wb") as stream:
        yield stream
        stream.flush()
        os.fsync(stream.fileno())
    unfinished.rename(path)


def _lock(stream: IO[str], target: Path) -> None:
    """Hold the folder as long as this process lives; the system lets go of it after a kill."""
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise StoreError(
            f"`{target}` is being made by another process", hint="wait for it, or stop it"
        ) from None
