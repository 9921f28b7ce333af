"""How much memory it takes to read tables, known before they are read.

An estimate from below: what is refused would not have fitted, and what is let through may still be
refused by the plan that is made of what was read.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from scr.compute import check_memory, resident_bytes
from scr.sources.readers._graph_toml import is_typed_tables
from scr.sources.readers._tables import LARGE_BYTES, is_tables

TEXT_FACTOR, DECODED_FACTOR = 4.0, 2.5
"""Memory at the peak of reading for each byte of text, and for each of decoded Parquet columns.
Measured on long and on wide tables: 4.7 to 5.2, and 2.8 to 4.2."""
_TEXT = (".csv", ".tsv", ".txt")


def check_tables_fit(files: Iterable[Path], budget: int) -> None:
    """Raise a `MemoryBudgetError` if tables take more memory than the process may have."""
    files = list(files)
    needed = sum(map(reading_bytes, files))
    if needed:
        named = " and ".join(f"`{file}`" for file in files[:2]) + ", ..." * (len(files) > 2)
        check_memory(
            f"Reading {named} takes at least", needed + resident_bytes(), budget,
            hint="give more memory (`memory`); features in a `features.npy` beside the tables, and "
            "edges in shards (`edges-*.npy` or `edges-*.parquet`), are read piece by piece",
        )  # fmt: skip


def tables_of_source(path: Path) -> list[Path]:
    """Tables of a source that are read whole; none where it is no folder of tables."""
    if not path.is_dir() or not (is_typed_tables(path) or is_tables(path)):
        return []
    files = [file for file in sorted(path.iterdir()) if file.is_file()]
    if is_typed_tables(path):
        return [file for file in files if reading_bytes(file)]
    # Edges of a large file come piece by piece.
    return [
        file
        for file in files
        if file.stem == "nodes" or (file.stem == "edges" and file.stat().st_size < LARGE_BYTES)
    ]


def reading_bytes(file: Path) -> int:
    """Memory that reading one table takes at least; 0 where there is no telling."""
    try:
        size = file.stat().st_size
        if file.suffix.lower() == ".parquet":
            return int(DECODED_FACTOR * _decoded_bytes(file))
    except (OSError, pa.ArrowException):
        return 0  # reading it says what is wrong
    return int(TEXT_FACTOR * size) if file.suffix.lower() in _TEXT else 0


def _decoded_bytes(file: Path) -> int:
    """Bytes of the columns in memory; of texts, as they are encoded at least."""
    with pyarrow.parquet.ParquetFile(file) as opened:
        metadata, schema = opened.metadata, opened.schema_arrow
        encoded = sum(
            metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups)
        )
        widths = [field.type.bit_width for field in schema if pa.types.is_primitive(field.type)]
        return max(encoded, metadata.num_rows * sum(widths) // 8)
