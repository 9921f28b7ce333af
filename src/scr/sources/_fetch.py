"""Fetch one large file over HTTP, resuming where an earlier attempt stopped.

The server's name for a version of a file (ETag, else the date) is kept beside what has arrived. The
rest is then asked for with `Range` and `If-Range`: a server whose file is another one by now, or
which knows no ranges, answers with the whole file, and the download starts again.
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scr.errors import SourceError
from scr.storage import check_room

Progress = Callable[[int, int | None], None]
"""Called with the bytes done and the bytes in all, if they are known."""

_CHUNK = 1 << 20
_TIMEOUT_SECONDS = 60
_PARTIAL_CONTENT, _RANGE_NOT_SATISFIABLE = 206, 416  # RFC 9110


def fetch(url: str, file: Path, progress: Progress) -> int:
    """Fetch a file, or the rest of it; returns its size, which is what the server announced.

    What is there already is the beginning of the file; `FILE.json` says of which one.

    Raises:
        SourceError: The server cannot be reached, or the connection was cut.
        StoreError: There is not enough room for the file and for what is in it.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise SourceError(f"`{url}` is not an address to download from; expected http or https")
    state = file.with_name(f"{file.name}.json")
    known, start, version = read_record(state), 0, None
    # What is there counts only if it is certain of which version it is.
    if known.get("url") == url and known.get("version") is not None and file.exists():
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
            # Room for the rest, and for the content, which is at least as large as the archive.
            needed = 0 if size is None else 2 * size - start
            hint = "free some space, or choose another data folder"
            check_room(file.parent, needed, f"{url}, with its archive,", hint=hint)
            version = response.headers.get("ETag") or response.headers.get("Last-Modified")
            state.write_text(json.dumps({"url": url, "version": version, "bytes": size}))
            done = _copy(_blocks(response, url), file, start, size, progress)
    except urllib.error.HTTPError as error:
        raise SourceError(f"{url} answered {error.code} {error.reason}") from None
    except (urllib.error.URLError, http.client.HTTPException, ConnectionError) as error:
        raise _cut(url, getattr(error, "reason", None) or error) from None
    if size is not None and done != size:
        raise _cut(url, f"{done:,} of {size:,} bytes have arrived")
    return done


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
        return urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS)
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


def _blocks(response: Any, url: str) -> Iterator[bytes]:
    """What arrives; trouble here is the network's, while writing it is the disk's."""
    try:
        while chunk := response.read(_CHUNK):
            yield chunk
    except (OSError, http.client.HTTPException) as error:
        raise _cut(url, error) from None


def _copy(
    blocks: Iterator[bytes], file: Path, start: int, size: int | None, progress: Progress
) -> int:
    done = start
    with file.open("r+b" if start else "wb") as target:
        target.seek(start)
        target.truncate()
        progress(done, size)
        for chunk in blocks:
            target.write(chunk)
            done += len(chunk)
            progress(done, size)
    return done


def _cut(url: str, reason: object) -> SourceError:
    return SourceError(
        f"The download of {url} did not end well: {reason}",
        hint="run the same command again, which resumes",
    )
