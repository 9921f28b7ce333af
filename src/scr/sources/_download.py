"""Get a data set of OGB's: fetch its archive, check it, unpack it into the data folder.

    ogbn-products.zip.part           what has arrived, and beside it `.part.json`: whose bytes
    ogbn-products.download.json      address, size and SHA-256 of what was unpacked
    ogbn_products/                   appears when everything is in it

The size must be the one that the server announced, every file must fit the CRC in the archive, and
the archive have the SHA-256 that it is known by. Where none is known, the first download is
trusted: its SHA-256 is recorded, and every later one must have it, from whatever address. A
checksum from elsewhere can be given instead.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scr.errors import SourceError, StoreError
from scr.sources._fetch import Progress, fetch, read_record
from scr.sources._ogb_datasets import OGB_DATASETS, OgbDataset, data_folder
from scr.sources._unpack import unpack
from scr.sources.readers._ogb import is_ogb
from scr.storage import Claim, write_bytes

_CHUNK = 1 << 22


@dataclass(frozen=True)
class Downloaded:
    """What `download` made."""

    folder: Path
    sha256: str | None
    """Of the archive; none where the data set was there already."""
    archive: Path | None = None
    """The archive, where it was kept."""
    record: Path | None = None
    """Where the checksum was recorded, if nothing was known to compare it with."""


def dataset_of(name: str) -> OgbDataset:
    """The entry of a data set in the table."""
    if name not in OGB_DATASETS:
        raise SourceError(
            f"`{name}` cannot be downloaded; expected one of {', '.join(OGB_DATASETS)}"
        )
    return OGB_DATASETS[name]


def download(
    name: str,
    to: str | Path | None = None,
    *,
    url: str | None = None,
    sha256: str | None = None,
    keep_archive: bool = False,
    progress: Callable[[str], Progress] | None = None,
) -> Downloaded:
    """Download and unpack a data set such as `ogbn-products`; what exists already is not replaced.

    A download that was cut resumes where it stopped, and nothing appears under the final name
    before it is whole. Whoever calls this has accepted the license of the data. The data folder is
    `to`, else `$SCR_DATA`, else `~/.cache/scr/data`. `url` is another address of the same archive,
    which is kept as `NAME.zip` if asked. `progress` is called with ``fetch``, ``check`` or
    ``unpack`` when that step begins; what it returns is called with the bytes done and the bytes in
    all, as far as they are known.
    """
    dataset = dataset_of(name)
    data = data_folder() if to is None else Path(to).expanduser()
    if _is_there(data / dataset.folder):
        return Downloaded(data / dataset.folder, None)
    begin = progress or (lambda _: lambda _done, _total: None)
    try:
        data.mkdir(parents=True, exist_ok=True)
        claim = Claim(data / f".{name}.download.lock", is_needed=True)
        if not claim.acquire():
            raise StoreError(
                f"Another process is downloading `{name}` to `{data}`",
                hint="wait for it, and run the same command again if it fails",
            )
        try:
            return _download(dataset, data, url or dataset.url, sha256, begin, keep_archive)
        finally:
            claim.release()
    except OSError as error:
        raise StoreError(f"`{data}` cannot be written: {error.strerror or error}") from error


def _is_there(folder: Path) -> bool:
    if not folder.exists():
        return False
    if not is_ogb(folder):
        raise StoreError(
            f"`{folder}` exists already, but is not a data set of OGB's",
            hint="move it away, or choose another data folder",
        )
    return True


def _download(
    dataset: OgbDataset,
    data: Path,
    url: str,
    sha256: str | None,
    begin: Callable[[str], Progress],
    keep_archive: bool,
) -> Downloaded:
    """As `download`, for one process at a time."""
    name, folder = dataset.name, data / dataset.folder
    if _is_there(folder):  # another process has finished meanwhile
        return Downloaded(folder, None)
    part, record = data / f"{name}.zip.part", data / f"{name}.download.json"
    size = fetch(url, part, begin("fetch"), most=dataset.most_bytes)
    digest = _sha256(part, begin("check"))
    try:
        is_first = not _check(digest, sha256, dataset, record, url)
        unpack(part, folder, dataset.archive, begin("unpack"))
    except SourceError:
        _forget(part)  # it would be taken for the beginning of the right archive
        raise
    content = {"url": url, "bytes": size, "sha256": digest}
    write_bytes(record, (json.dumps(content, indent=1) + "\n").encode())
    archive = data / f"{name}.zip" if keep_archive else None
    if archive is not None:
        part.rename(archive)
    _forget(part)
    return Downloaded(folder, digest, archive, record if is_first else None)


def _sha256(file: Path, progress: Progress) -> str:
    digest, done, size = hashlib.sha256(), 0, file.stat().st_size
    with file.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
            done += len(chunk)
            progress(done, size)
    return digest.hexdigest()


def _check(actual: str, given: str | None, dataset: OgbDataset, record: Path, url: str) -> bool:
    """Compare the checksum with the one given, else known, else that of an earlier download.

    Returns whether there was one to compare it with.
    """
    known = read_record(record)
    if given is not None:
        expected, whose = given.strip().lower(), "was given"
    elif dataset.sha256 is not None:
        expected, whose = dataset.sha256, f"the archive of {dataset.name} has been known to have"
    elif "sha256" in known:
        expected, whose = str(known["sha256"]), f"`{record.name}` has from an earlier download"
    else:
        return False
    if actual == expected:
        return True
    hint = "download it again, or check the number"
    if given is None:
        hint = (
            f"if OGB has changed its archive, say so with `--sha256 {actual}`"
            if dataset.sha256 is not None
            else f"if OGB has changed its archive, remove `{record}` and download it again"
        )
    raise SourceError(
        f"The archive from {url} has the SHA-256 {actual}; expected {expected}, which {whose}",
        hint=hint,
    )


def _forget(part: Path) -> None:
    """Remove what was fetched, and the record of whose bytes they are."""
    part.unlink(missing_ok=True)
    part.with_name(f"{part.name}.json").unlink(missing_ok=True)
