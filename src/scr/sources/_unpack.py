"""Unpack a zip archive that somebody else made: inside one folder, whole or not at all.

Names that leave the folder, links and more bytes than there is room for are refused before a file
is written. Everything goes into a hidden folder first, with the archive's checksums compared, and
only the finished data set gets its name.
"""

from __future__ import annotations

import shutil
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from scr.errors import SourceError
from scr.sources._fetch import Progress
from scr.sources.readers._ogb import is_ogb
from scr.storage import DAMAGE, check_room, open_archive, open_plain, publish_folder

_CHUNK = 1 << 22


def unpack(archive: Path, folder: Path, inside: str, progress: Progress) -> None:
    """Unpack a data set from a zip file to a folder that does not exist yet.

    `inside` is the folder in the archive that holds the data set; any other with its layout will do
    if there is none of this name. Progress is called with the bytes done and the bytes in all.
    """
    # One name, so that what a killed process has left goes away.
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        with open_plain(archive) as file, open_archive(file) as packed:
            members = [member for member in packed.infolist() if not member.is_dir()]
            for member in members:
                _refuse_unsafe(member, archive)
            total = sum(member.file_size for member in members)
            hint = "free some space and run the same command again"
            check_room(folder.parent, total, f"`{archive}`", hint=hint)
            partial.mkdir()
            done = 0
            for member in members:
                for size in _extract(packed, member, partial):
                    done += size
                    progress(done, total)
        publish_folder(_data_set_in(partial, inside, archive), folder)
    except DAMAGE as error:
        raise SourceError(
            f"`{archive}` is damaged or not a zip archive: {error}", hint="download it again"
        ) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _refuse_unsafe(member: zipfile.ZipInfo, archive: Path) -> None:
    name = PurePosixPath(member.filename)
    leaves = name.is_absolute() or ".." in name.parts or "\\" in member.filename
    has_drive = ":" in (name.parts[0] if name.parts else "")
    is_link = stat.S_ISLNK(member.external_attr >> 16)
    if leaves or has_drive or is_link or not name.parts:
        raise SourceError(
            f"`{archive}` holds {member.filename!r}, which would be written outside its folder; "
            "expected plain names",
            hint="do not use this archive",
        )


def _extract(packed: zipfile.ZipFile, member: zipfile.ZipInfo, folder: Path) -> Iterator[int]:
    """Write a member to its file; yields the size of each piece that is written."""
    target = folder.joinpath(*PurePosixPath(member.filename).parts)
    target.parent.mkdir(parents=True, exist_ok=True)
    # Reading to the end compares the CRC; "x" refuses two members of one name.
    if target.exists():
        raise ValueError(f"it holds {member.filename!r} twice")
    with packed.open(member) as source, target.open("xb") as file:
        while chunk := source.read(_CHUNK):
            file.write(chunk)
            yield len(chunk)


def _data_set_in(folder: Path, inside: str, archive: Path) -> Path:
    folders = sorted(path for path in folder.iterdir() if path.is_dir())
    for candidate in (folder / inside, folder, *folders):
        if is_ogb(candidate):
            return candidate
    names = ", ".join(sorted(path.name for path in folder.iterdir())[:5]) or "nothing"
    raise SourceError(
        f"`{archive}` holds no folder with `raw` and `split` in it; it has: {names}",
        hint="is it the archive of another data set?",
    )
