"""Fetch one large file over HTTPS, resuming where an earlier attempt stopped.

The server's name for a version of a file (ETag, else the date) is kept beside what has arrived. The
rest is then asked for with `Range` and `If-Range`: a server whose file is another one by now, or
which knows no ranges, answers with the whole file, and the download starts again.

Every address is checked, those that a server sends us on to as well: what comes by plain HTTP may
be anybody's. No more bytes are taken than the file may have, and no link is followed on the disk.
"""

from __future__ import annotations

import errno
import http.client
import json
import os
import stat
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scr.errors import SourceError
from scr.storage import check_room, open_descriptor, write_bytes

Progress = Callable[[int, int | None], None]
"""Called with the bytes done and the bytes in all, if they are known."""

_SCHEMES = ("https",)
"""Of addresses; tests, whose server is on this machine, add another one."""
_CHUNK = 1 << 20
_TIMEOUT_SECONDS = 60
_PARTIAL_CONTENT, _RANGE_NOT_SATISFIABLE = 206, 416  # RFC 9110


def fetch(url: str, file: Path, progress: Progress, *, most: int) -> int:
    """Fetch a file, or the rest of it; returns its size, which is what the server announced.

    What is there already is the beginning of the file; `FILE.json` says of which one. A file of
    more than `most` bytes is refused.

    Raises:
        SourceError: The server cannot be reached, or the connection was cut.
        StoreError: There is not enough room for the file and for what is in it.
    """
    _check_address(url)
    state = file.with_name(f"{file.name}.json")
    known, start, version = read_record(state), 0, None
    # What is there counts only if it is certain of which version it is.
    if known.get("url") == url and known.get("version") is not None and _is_ours(file):
        start, version = file.stat().st_size, str(known["version"])
    try:
        response = _ask(url, start, version)
        if response is None:
            return start
        with response:
            given = str(response.headers.get("Content-Range", ""))
            if response.status != _PARTIAL_CONTENT or not given.startswith(f"bytes {start}-"):
                start = 0  # it is not the rest of the file, from the byte that was asked for
            size = _size(response, start)
            if size is not None and size > most:
                raise _too_large(url, f"{size:,}", most)
            # Room for the rest, and for the content, which is at least as large as the archive.
            needed = 0 if size is None else 2 * size - start
            hint = "free some space, or choose another data folder"
            check_room(file.parent, needed, f"{url}, with its archive,", hint=hint)
            version = response.headers.get("ETag") or response.headers.get("Last-Modified")
            content = json.dumps({"url": url, "version": version, "bytes": size})
            write_bytes(state, content.encode())
            done = _copy(_blocks(response, url, most - start, most), file, start, size, progress)
    except urllib.error.HTTPError as error:
        raise SourceError(f"{url} answered {error.code} {error.reason}") from None
    except (urllib.error.URLError, http.client.HTTPException, ConnectionError) as error:
        raise _cut(url, getattr(error, "reason", None) or error) from None
    if size is not None and done != size:
        raise _cut(url, f"{done:,} of {size:,} bytes have arrived")
    return done


def _check_address(url: str) -> None:
    try:
        scheme, host = urlsplit(url).scheme, urlsplit(url).hostname
    except ValueError:
        scheme, host = "", None
    if scheme not in _SCHEMES or not host:
        raise SourceError(
            f"`{url}` is not an address to download from; expected one that begins with https://"
        )


class _CheckedRedirects(urllib.request.HTTPRedirectHandler):
    """Follows only to addresses that could have been asked for."""

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any):  # type: ignore[no-untyped-def]
        try:
            _check_address(newurl)
        except SourceError as error:
            raise SourceError(f"{req.full_url} sends us on, and {error.message}") from None
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> urllib.request.OpenerDirector:
    """What knows HTTP and nothing else: no files, no FTP."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(), urllib.request.HTTPHandler(), urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(), urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(), _CheckedRedirects(),
    ):  # fmt: skip
        opener.add_handler(handler)
    return opener


def _is_ours(file: Path) -> bool:
    """Whether there is a plain file, not a link to one of somebody else's."""
    try:
        found = file.lstat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1


def read_record(file: Path) -> dict[str, Any]:
    """What is recorded of a download; nothing if the file is missing or damaged."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _ask(url: str, start: int, version: str | None) -> Any:
    """The answer of the server, or none where nothing is left to fetch."""
    headers = {"User-Agent": "scr"}
    # A weak tag names equal meaning, not equal bytes, and may not be used to join parts.
    if start and version is not None and not version.startswith("W/"):
        headers |= {"Range": f"bytes={start}-", "If-Range": version}
    request = urllib.request.Request(url, headers=headers)
    try:
        return _opener().open(request, timeout=_TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        # Everything is there already, or more than the file has: only the whole file can tell.
        if error.code != _RANGE_NOT_SATISFIABLE or "Range" not in headers:
            raise
        total = _total(error.headers)
        error.close()
        return None if total == start else _ask(url, 0, None)


def _size(response: Any, start: int) -> int | None:
    """The size of the whole file, if the server says it."""
    if start:
        return _total(response.headers)
    length = response.headers.get("Content-Length")
    return int(length) if length is not None and length.isdecimal() else None


def _total(headers: Any) -> int | None:
    total = str(headers.get("Content-Range", "")).rpartition("/")[2]
    return int(total) if total.isdecimal() else None


def _blocks(response: Any, url: str, room: int, most: int) -> Iterator[bytes]:
    """What arrives; trouble here is the network's, while writing it is the disk's."""
    try:
        while chunk := response.read(_CHUNK):
            room -= len(chunk)
            if room < 0:
                raise _too_large(url, f"more than {most:,}", most)
            yield chunk
    except (OSError, http.client.HTTPException) as error:
        raise _cut(url, error) from None


def _copy(
    blocks: Iterator[bytes], file: Path, start: int, size: int | None, progress: Progress
) -> int:
    done = start
    with os.fdopen(_open_part(file, is_new=not start), "r+b") as target:
        target.seek(start)
        target.truncate()
        progress(done, size)
        for chunk in blocks:
            target.write(chunk)
            done += len(chunk)
            progress(done, size)
    return done


def _open_part(file: Path, *, is_new: bool) -> int:
    """A file that is made now, or the one that was begun; never what a link points to."""
    if is_new:
        file.unlink(missing_ok=True)
    made = os.O_CREAT | os.O_EXCL if is_new else 0
    descriptor = open_descriptor(file, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | made)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a plain file", str(file))
    return descriptor


def _too_large(url: str, found: str, most: int) -> SourceError:
    return SourceError(
        f"{url} has {found} bytes; expected at most {most:,}, twice what is known of the archive",
        hint="is it the address of another archive?",
    )


def _cut(url: str, reason: object) -> SourceError:
    return SourceError(
        f"The download of {url} did not end well: {reason}",
        hint="run the same command again, which resumes",
    )
