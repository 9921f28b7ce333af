"""Files that are written whole or not at all, and arrays on disk read by ranges of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scr._front_door import front_door

if TYPE_CHECKING:
    from scr.storage._arrow import arrow_array as arrow_array
    from scr.storage._arrow import numpy_array as numpy_array
    from scr.storage._artifact import ArtifactWriter as ArtifactWriter
    from scr.storage._artifact import linked_entry as linked_entry
    from scr.storage._atomic import atomic_file as atomic_file
    from scr.storage._atomic import atomic_folder as atomic_folder
    from scr.storage._atomic import check_new_file as check_new_file
    from scr.storage._atomic import check_new_folder as check_new_folder
    from scr.storage._atomic import check_plain_file as check_plain_file
    from scr.storage._atomic import check_room as check_room
    from scr.storage._atomic import disk_errors as disk_errors
    from scr.storage._atomic import publish_file as publish_file
    from scr.storage._atomic import publish_folder as publish_folder
    from scr.storage._atomic import sync as sync
    from scr.storage._atomic import write_bytes as write_bytes
    from scr.storage._contents import ARTIFACT as ARTIFACT
    from scr.storage._contents import FILE as FILE
    from scr.storage._contents import Contents as Contents
    from scr.storage._contents import check_replaceable as check_replaceable
    from scr.storage._contents import check_replaced as check_replaced
    from scr.storage._contents import is_own_file as is_own_file
    from scr.storage._descriptors import open_descriptor as open_descriptor
    from scr.storage._file_region import FileRegion as FileRegion
    from scr.storage._file_region import as_bytes as as_bytes
    from scr.storage._file_region import fill as fill
    from scr.storage._file_region import open_for_reading as open_for_reading
    from scr.storage._file_region import region_of as region_of
    from scr.storage._file_region import whole_file as whole_file
    from scr.storage._file_rows import COPY_BYTES as COPY_BYTES
    from scr.storage._file_rows import READ_SPEED as READ_SPEED
    from scr.storage._file_rows import WRITE_SPEED as WRITE_SPEED
    from scr.storage._file_rows import FileRows as FileRows
    from scr.storage._file_rows import ReadBuffers as ReadBuffers
    from scr.storage._file_rows import from_cache as from_cache
    from scr.storage._file_rows import in_memory as in_memory
    from scr.storage._file_rows import ranges as ranges
    from scr.storage._file_rows import release as release
    from scr.storage._file_rows import row_chunks as row_chunks
    from scr.storage._file_rows import sample_rows as sample_rows
    from scr.storage._file_rows import stream_rows as stream_rows
    from scr.storage._file_rows import take_rows as take_rows
    from scr.storage._json import check_fields as check_fields
    from scr.storage._json import read_json as read_json
    from scr.storage._json import read_object as read_object
    from scr.storage._load import DAMAGE as DAMAGE
    from scr.storage._load import DEFLATE_RATIO as DEFLATE_RATIO
    from scr.storage._load import array_members as array_members
    from scr.storage._load import array_names as array_names
    from scr.storage._load import check_budget as check_budget
    from scr.storage._load import check_data_bytes as check_data_bytes
    from scr.storage._load import check_values as check_values
    from scr.storage._load import load_array as load_array
    from scr.storage._load import load_arrays as load_arrays
    from scr.storage._load import load_errors as load_errors
    from scr.storage._load import map_array as map_array
    from scr.storage._load import open_archive as open_archive
    from scr.storage._load import plain_header as plain_header
    from scr.storage._load import read_values as read_values
    from scr.storage._load import reading_within as reading_within
    from scr.storage._lock import POLL_SECONDS as POLL_SECONDS
    from scr.storage._lock import Claim as Claim
    from scr.storage._lock import one_at_a_time as one_at_a_time
    from scr.storage._manifest import CHUNK_BYTES as CHUNK_BYTES
    from scr.storage._manifest import FAST as FAST
    from scr.storage._manifest import MANIFEST as MANIFEST
    from scr.storage._manifest import ArrayEntry as ArrayEntry
    from scr.storage._manifest import Manifest as Manifest
    from scr.storage._manifest import RunningChecksums as RunningChecksums
    from scr.storage._manifest import array_file as array_file
    from scr.storage._manifest import checksums as checksums
    from scr.storage._manifest import open_array as open_array
    from scr.storage._manifest import read_manifest as read_manifest
    from scr.storage._npy_header import array_bytes as array_bytes
    from scr.storage._npy_header import read_npy_header as read_npy_header
    from scr.storage._plain_file import check_plain as check_plain
    from scr.storage._plain_file import open_plain as open_plain
    from scr.storage._probe import check_writable as check_writable
    from scr.storage._sealed_folder import CHECKSUMS as CHECKSUMS
    from scr.storage._sealed_folder import check_sealed as check_sealed
    from scr.storage._sealed_folder import digest as digest
    from scr.storage._sealed_folder import is_sealed as is_sealed
    from scr.storage._sealed_folder import replace_sealed as replace_sealed
    from scr.storage._sealed_folder import seal_folder as seal_folder
    from scr.storage._sequential_writer import PAGE as PAGE
    from scr.storage._sequential_writer import SequentialWriter as SequentialWriter
    from scr.storage._sequential_writer import page_buffer as page_buffer
    from scr.storage._sequential_writer import write_all as write_all
    from scr.storage._staging import LockedFolder as LockedFolder
    from scr.storage._staging import discard_partial as discard_partial
    from scr.storage._staging import discard_partial_of as discard_partial_of
    from scr.storage._staging import is_staged as is_staged
    from scr.storage._streamed_array import ChangedFileError as ChangedFileError
    from scr.storage._streamed_array import StreamedArray as StreamedArray
    from scr.storage._streamed_array import npy_header as npy_header
    from scr.storage._streamed_array import write_npy as write_npy
    from scr.storage._verified import VERIFIED as VERIFIED
    from scr.storage._verified import ContentCheck as ContentCheck
    from scr.storage._verified import is_verified as is_verified
    from scr.storage._verified import verify as verify
    from scr.storage._verified import verify_once as verify_once
    from scr.storage._verified import vouch as vouch
    from scr.storage._work_folder import WorkFolder as WorkFolder
    from scr.storage._work_folder import discard_old_work as discard_old_work
    from scr.storage._work_folder import discard_work as discard_work
    from scr.storage._work_folder import work_bytes as work_bytes
else:
    __all__, __getattr__, __dir__ = front_door(__name__)
