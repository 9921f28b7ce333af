"""Copy a store to each machine of a cluster once, and compare it with its checksums meanwhile.

A copy is an artifact below a folder of the machine, under a name that follows from its content. The
first worker that needs it makes it, while others on the machine wait for a lock beside it. Disk for
all of it is taken before anything is read, and it has its name once it is whole. Later commands
find it, and read all of it again only if its files have changed since.

From a path, only the arrays of a store that workers read are copied. From a URL, all are: the
process that gives out the blocks opens its own copy, which a worker on the same machine uses too.
"""

from __future__ import annotations

import io
import json
import socket
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scr.compute import map_in_order, readable_bytes
from scr.errors import ConfigError, StoreError
from scr.graph import KIND, SCHEMA, Graph, verify_store
from scr.propagation.disk._team import Team
from scr.storage import (
    MANIFEST,
    VERIFIED,
    ArrayEntry,
    ArtifactWriter,
    FileRegion,
    Manifest,
    StreamedArray,
    array_file,
    digest,
    disk_errors,
    is_verified,
    one_at_a_time,
    open_array,
    ranges,
    read_manifest,
    read_npy_header,
    stream_rows,
    verify,
    whole_file,
)

PART = "graph-arrays"
"""Kind of a copy that has only some arrays of a store."""
PIECE_BYTES = 1 << 23
"""Read, hashed and written at a time."""
HEADER_BYTES = 1 << 17
"""First request for a file at a URL; headers are shorter."""
REQUESTS = 4
"""Pieces of a file at a URL that are asked for at once: an answer takes a while to begin."""


def copy_folder(folder: str | Path | None, graph: Graph, team: Team | None) -> Path | None:
    """The folder for copies that a user asks for, which is below the root of every machine.

    Raises:
        ConfigError: There are no workers on other machines, or no store to copy.
    """
    if folder is None:
        return None
    if team is None:
        raise ConfigError(
            "copy_to", str(folder), "none with the engine `local`", hint="choose the engine `ray`"
        )
    if graph.path is None:
        raise ConfigError(
            "copy_to", str(folder), "none for a graph that is not a store",
            hint="first `scr ingest` the graph; from memory, it is sent to each machine once",
        )  # fmt: skip
    return Path(folder).absolute()


@dataclass(frozen=True)
class StoreCopy:
    """What each machine copies, and to where."""

    source: Manifest
    """Of the store, with the arrays that are copied."""
    folder: Path
    """On the disk of each machine."""
    names: Mapping[FileRegion, str]
    """Of the arrays that workers read, by where this process has them."""
    url: str | None = None
    """Where the store is; none: at the path of its manifest."""

    @classmethod
    def of(cls, graph: Graph, arrays: Iterable[NDArray[Any]], folder: Path) -> StoreCopy | None:
        """Copy those of some arrays that are whole ones of the graph's store; none: no array is."""
        assert graph.path is not None
        stored = read_manifest(graph.path, KIND, schema=SCHEMA)
        files = {array_file(stored, name).resolve(): name for name in stored.arrays}
        regions = [region for array in arrays if (region := whole_file(array)) is not None]
        names = {region: name for region in regions if (name := files.get(region.path.resolve()))}
        if not names:
            return None
        if is_url(graph.source):
            return cls(stored, folder, names, graph.source)
        entries = {name: stored.arrays[name] for name in sorted(names.values())}
        return cls(replace(stored, kind=PART, arrays=entries, metadata={}), folder, names)

    @property
    def path(self) -> Path:
        """Of the copy."""
        return self.folder / f"scr-copy-{_content(self.source)}"

    @property
    def bytes(self) -> int:
        """Of the copied arrays."""
        return sum(entry.bytes for entry in self.source.arrays.values())

    def arrays(self) -> dict[FileRegion, NDArray[Any]]:
        """The arrays of the copy, by where they are in the store."""
        copy = self.opened()
        return {region: open_array(copy, name) for region, name in self.names.items()}

    def opened(self) -> Manifest:
        """The copy on this machine, which is made where there is none or a damaged one.

        Raises:
            StoreError: The source is not what its manifest says, or the folder cannot be written.
        """
        try:
            with disk_errors(self.folder):
                self.folder.mkdir(parents=True, exist_ok=True)
            with one_at_a_time(self.path):
                return self.intact() or self._made()
        except StoreError as error:
            raise StoreError(
                f"`{self.url or self.source.path}` cannot be copied to `{self.folder}` on "
                f"`{socket.gethostname()}`, where it takes {readable_bytes(self.bytes)}: "
                f"{error.message}",
                hint=error.hint
                or "all machines must be able to read the store and to write to the folder",
            ) from error

    def intact(self) -> Manifest | None:
        """The copy, if it is there and as it was written."""
        try:
            found = read_manifest(self.path, self.source.kind, schema=self.source.schema)
            if _content(found) == _content(self.source):
                if not is_verified(found):
                    (verify if found.kind == PART else verify_store)(self.path)
                return found
        except StoreError:
            pass
        return None

    def _made(self) -> Manifest:
        """A new copy, in place of a damaged one."""
        self._discard()
        source = self.source
        with ArtifactWriter(
            self.path, kind=source.kind, schema=source.schema, overwrite=True
        ) as writer:
            writer.metadata.update(source.metadata)
            streams = {
                name: writer.stream_array(name, entry.shape, entry.dtype, entry.checksums)
                for name, entry in source.arrays.items()
            }
            for name, stream in streams.items():
                self._fill(name, stream)
        return read_manifest(self.path)

    def _fill(self, name: str, stream: StreamedArray) -> None:
        entry, checked = self.source.arrays[name], 0
        expected, file = entry.checksums, str(array_file(self.source, name))
        if self.url is None:
            rows_of = _pieces(open_array(self.source, name))
        else:
            file = f"{self.url}/{name}.npy"
            rows_of = _fetched_pieces(self.url, name, entry)
        with closing(rows_of) as pieces:
            for rows in pieces:
                stream.write(rows)
                for now, then in zip(stream.checksums(checked), expected[checked:], strict=False):
                    if now != then:
                        raise StoreError(
                            f"`{file}` is not what its store says: chunk {checked} of "
                            f"{len(expected)} has the checksum {now}, expected {then}",
                            hint="`scr verify` reads the store; make it again from its source",
                        )
                    checked += 1

    def _discard(self) -> None:
        """Remove a damaged copy, before the new one takes disk; what is of others stays there."""
        if not self.path.exists():
            return
        files = (*(f"{name}.npy" for name in self.source.arrays), MANIFEST, VERIFIED)
        with disk_errors(self.path):
            for name in files:
                (self.path / name).unlink(missing_ok=True)
            self.path.rmdir()


def _pieces(array: NDArray[Any]) -> Generator[NDArray[Any]]:
    """The rows of an array in a file; each piece is good until the next one is asked for."""
    step = max(PIECE_BYTES // max(array[:1].nbytes, 1), 1)
    with closing(stream_rows([array], ranges(len(array), step))) as pieces:
        for (rows,) in pieces:
            yield rows


def _content(manifest: Manifest) -> str:
    """Hash what decides the bytes of a copy."""
    arrays = {
        name: [entry.shape, entry.dtype, entry.checksums] for name, entry in manifest.arrays.items()
    }
    parts = [manifest.kind, manifest.schema, manifest.metadata, arrays]
    return digest(json.dumps(parts, sort_keys=True).encode())


def is_url(source: str | None) -> bool:
    """Whether a source is at a URL, such as `s3://bucket/big.store`."""
    return source is not None and "://" in source


def fetched_store(url: str, folder: Path) -> Path:
    """Copy the store at a URL to a folder of this machine, unless it is there; returns its path.

    Raises:
        StoreError: The URL cannot be read, there is no whole store, or the disk is full.
    """
    with _url_errors(f"{url}/{MANIFEST}"):
        files, root = _file_system(url)
        content = files.cat_file(f"{root}/{MANIFEST}")
    source = read_manifest(url, KIND, schema=SCHEMA, content=content)
    for name, entry in source.arrays.items():
        if len(entry.checksums) != entry.chunks:
            raise StoreError(
                f"`{url}/{MANIFEST}` has {len(entry.checksums):,} checksums of {entry.chunks:,} "
                f"chunks of `{name}`; expected one of each"
            )
    linked = [name for name, entry in source.arrays.items() if entry.file is not None]
    if linked:
        raise StoreError(
            f"`{url}` does not hold its `{linked[0]}`, but is linked to "
            f"`{source.arrays[linked[0]].file}`; expected all arrays of the store",
            hint="make the store again without links",
        )
    copy = StoreCopy(source, folder, {}, url)
    is_there = copy.intact() is not None
    path = copy.opened().path
    if not is_there:
        # Its bytes are those of the manifest. Whoever opens it looks at the numbers, too.
        (path / VERIFIED).unlink(missing_ok=True)
    return path


def _fetched_pieces(url: str, name: str, entry: ArrayEntry) -> Generator[NDArray[Any]]:
    """The rows of an array at a URL."""
    with _url_errors(f"{url}/{name}.npy"):
        files, root = _file_system(url)
        path = f"{root}/{name}.npy"
        header = io.BytesIO(files.cat_file(path, start=0, end=HEADER_BYTES))
        shape, is_fortran, dtype = read_npy_header(header)
        begin, row_bytes = header.tell(), entry.bytes // max(entry.shape[0], 1)
        if (shape, dtype) != (entry.shape, np.dtype(entry.dtype)) or (is_fortran and shape[1:]):
            raise ValueError(
                f"it holds {dtype} of shape {shape}{', column after column' * is_fortran}; "
                f"expected {np.dtype(entry.dtype)} of shape {entry.shape}, row after row"
            )

        def read(part: tuple[int, int]) -> NDArray[Any]:
            first, last = (begin + row * row_bytes for row in part)
            data = files.cat_file(path, start=first, end=last)
            if len(data) != last - first:
                raise ValueError(
                    f"an answer has {len(data):,} bytes; expected {last - first:,}, from byte "
                    f"{first:,} on"
                )
            return np.frombuffer(data, dtype).reshape(part[1] - part[0], *shape[1:])

        parts = ranges(shape[0], max(PIECE_BYTES // max(row_bytes, 1), 1))
        with closing(map_in_order(read, parts, threads=REQUESTS, ahead=REQUESTS + 1)) as pieces:
            yield from pieces


def _file_system(url: str) -> tuple[Any, str]:
    """What reads the files of a protocol, and the path of the URL there."""
    from fsspec.core import url_to_fs  # only here: it takes a while to import

    try:
        files, root = url_to_fs(url)
    except ImportError as error:
        package = getattr(error.__cause__, "name", None) or f"fsspec[{url.partition(':')[0]}]"
        raise StoreError(
            f"`{url}` cannot be read without the package `{package}`",
            hint=f"`pip install '{package}'` on all machines of the cluster",
        ) from None
    return files, str(root).rstrip("/")


@contextmanager
def _url_errors(url: str) -> Iterator[None]:
    """Say in one sentence what keeps a URL from being read."""
    try:
        yield
    except (StoreError, MemoryError):
        raise
    except FileNotFoundError:
        raise StoreError(f"`{url}` does not exist; expected a store") from None
    except Exception as error:  # noqa: BLE001 - every protocol has errors of its own
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise StoreError(f"`{url}` cannot be read: {reason}") from None
