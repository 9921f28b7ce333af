"""The header of a `.npy` file, read without evaluating what it says.

NumPy's own reader evaluates the header as Python and fails on damaged ones in a dozen ways. Here it
must be three plain entries, and what it declares is checked before anybody allocates by it.
"""

from __future__ import annotations

import math
import re
import sys
from typing import IO, Any

import numpy as np

MAGIC = b"\x93NUMPY"
_LENGTH_BYTES = {1: 2, 2: 4, 3: 4}
"""Of the length of the header, by version of the format."""
_LONGEST = 1 << 16
"""Of a header; those of plain arrays have 118 bytes or little more."""
_MOST_DIMENSIONS = 32
_ENTRY = (
    r"""(?:['"]descr['"]\s*:\s*['"](?P<descr{n}>[^'"]*)['"]"""
    r"""|['"]fortran_order['"]\s*:\s*(?P<order{n}>True|False)"""
    r"""|['"]shape['"]\s*:\s*\((?P<shape{n}>[\dL,\s]*)\))\s*"""
)
_HEADER = re.compile(
    r"\{\s*" + r",\s*".join(_ENTRY.format(n=number) for number in range(3)) + r",?\s*\}\s*"
)
_SIZES = re.compile(r"(?:(?:\d+L?\s*,\s*)+(?:\d+L?\s*)?)?")
"""Python 2 wrote an L behind long numbers."""
_PLAIN_DTYPE = re.compile(r"[<>|=]?(?:[?biufcSUO]\d{0,9}|[mM]8(?:\[\d{0,9}[a-zA-Z]{1,2}\])?)")
"""Numbers, truth values, text, times and objects; no fields and no arrays inside arrays."""


def read_npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether columns come first, and type; leaves the file at the start of its data.

    A `ValueError` says what is wrong with a header.
    """
    begin = _exactly(file, len(MAGIC) + 2)
    if begin[: len(MAGIC)] != MAGIC:
        raise ValueError("it does not begin as a .npy file does")
    version = begin[-2]
    if version not in _LENGTH_BYTES:
        raise ValueError(f"version {version} of the .npy format is not known")
    length = int.from_bytes(_exactly(file, _LENGTH_BYTES[version]), "little")
    if length > _LONGEST:
        raise ValueError(f"its header says that it has {length:,} bytes")
    header = _exactly(file, length).decode("latin1")
    found = _HEADER.fullmatch(header)
    entries = {} if found is None else {k: v for k, v in found.groupdict().items() if v is not None}
    named = {key[:-1]: value for key, value in entries.items()}
    if set(named) != {"descr", "order", "shape"}:
        raise ValueError("its header is not that of a plain array")
    return _shape(named["shape"], named["descr"]), named["order"] == "True", _dtype(named["descr"])


def array_bytes(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    """Bytes of the data of an array, however large the numbers are."""
    return math.prod(shape) * dtype.itemsize


def _exactly(file: IO[bytes], count: int) -> bytes:
    data = file.read(count)
    if len(data) < count:
        raise ValueError("it ends inside its header")
    return data


def _shape(text: str, descr: str) -> tuple[int, ...]:
    if not _SIZES.fullmatch(text.strip()):
        raise ValueError(f"its header has the shape ({text.strip()[:40]})")
    sizes = [size.strip(" \t\r\n\f\vL") for size in text.split(",")]
    if any(len(size) > 19 for size in sizes):
        raise ValueError("its header has a shape beyond any memory")
    shape = tuple(int(size) for size in sizes if size)
    # NumPy refuses to make an empty array, too, if its other dimensions are beyond the memory.
    extent = math.prod(size for size in shape if size) * max(_dtype(descr).itemsize, 1)
    if len(shape) > _MOST_DIMENSIONS or extent > sys.maxsize:
        raise ValueError("its header has a shape beyond any memory")
    return shape


def _dtype(descr: str) -> np.dtype[Any]:
    if not _PLAIN_DTYPE.fullmatch(descr):
        raise ValueError(f"it holds {descr[:40]!r}; expected numbers or text")
    try:
        dtype = np.dtype(descr)
    except (TypeError, ValueError):
        raise ValueError(f"it holds {descr[:40]!r}; expected numbers or text") from None
    if dtype.itemsize == 0:
        raise ValueError(f"it holds {descr[:40]!r}, values without any bytes")
    return dtype
