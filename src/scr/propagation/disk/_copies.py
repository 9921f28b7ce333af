"""Copy a store to each machine of a cluster once, and compare it with its checksums meanwhile.

A copy is an artifact below a folder of the machine, under a name that follows from its content. The
first worker that needs it makes it, while others on the machine wait for a lock beside it. Disk for
all of it is taken before anything is read, and it has its name once it is whole. Later commands
find it, and read all of it again only if its files have changed since.

Only the arrays that workers read are copied, as far as they are those of a store.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from scr.compute import readable_bytes
from scr.errors import ConfigError, StoreError
from scr.graph import KIND, SCHEMA, Graph
from scr.propagation.disk._team import Team
from scr.storage import (
    MANIFEST,
    VERIFIED,
    ArtifactWriter,
    FileRegion,
    Manifest,
    StreamedArray,
    array_file,
    digest,
    disk_errors,
    one_at_a_time,
    open_array,
    ranges,
    read_manifest,
    stream_rows,
    verify_once,
    whole_file,
)

PART = "graph-arrays"
"""Kind of a copy, which has only some arrays of a store."""
PIECE_BYTES = 1 << 23
"""Read, hashed and written at a time."""


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
    """Of the copied arrays, by where they are."""

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
            StoreError: The source is not what its manifest says, or the disk says no.
        """
        try:
            with disk_errors(self.folder):
                self.folder.mkdir(parents=True, exist_ok=True)
            with one_at_a_time(self.path):
                return self._intact() or self._made()
        except StoreError as error:
            raise StoreError(
                f"`{self.source.path}` cannot be copied to `{self.folder}` on "
                f"`{socket.gethostname()}`, where it takes {readable_bytes(self.bytes)}: "
                f"{error.message}",
                hint=error.hint
                or "all machines of the cluster must see the store under the same "
                "path, and may write to the folder",
            ) from error

    def _intact(self) -> Manifest | None:
        """The copy, if it is there and as it was written."""
        try:
            found = read_manifest(self.path, self.source.kind, schema=self.source.schema)
            if _content(found) == _content(self.source):
                verify_once(found)
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
                name: writer.stream_array(name, entry.shape, entry.dtype)
                for name, entry in source.arrays.items()
            }
            for name, stream in streams.items():
                self._fill(name, stream)
        return read_manifest(self.path)

    def _fill(self, name: str, stream: StreamedArray) -> None:
        file, expected = array_file(self.source, name), self.source.arrays[name].checksums
        checked = 0
        with closing(_pieces(open_array(self.source, name))) as pieces:
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
