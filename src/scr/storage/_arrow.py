"""NumPy arrays as Arrow arrays and back, without pandas.

`pyarrow.array`, `pyarrow.scalar` and `to_numpy` import pandas, where there is one, before they look
at what they are given: a third of a second for those who never see a data frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa


def arrow_array(
    values: NDArray[Any] | Sequence[str], missing: NDArray[np.bool_] | None = None
) -> pa.Array:
    """Numbers or texts as an Arrow array; numbers may be missing."""
    import pyarrow as pa

    if isinstance(values, np.ndarray) and values.dtype.kind in "iuf":
        array = np.ascontiguousarray(values)
        valid = None
        if missing is not None:
            valid = pa.py_buffer(np.packbits(~missing, bitorder="little"))
        kind = pa.from_numpy_dtype(array.dtype)
        return pa.Array.from_buffers(kind, len(array), [valid, pa.py_buffer(array)])
    texts = [str(value).encode() for value in values]
    ends = np.cumsum([0, *map(len, texts)])
    is_large = ends[-1] >= 2**31
    starts = ends.astype(np.int64 if is_large else np.int32)
    kind = pa.large_string() if is_large else pa.string()
    buffers = [None, pa.py_buffer(starts), pa.py_buffer(b"".join(texts))]
    return pa.Array.from_buffers(kind, len(texts), buffers)


def numpy_array(column: pa.Array) -> NDArray[Any]:
    """Numbers or truth values of which none is missing."""
    import pyarrow as pa

    if pa.types.is_boolean(column.type):
        return np.from_dlpack(column.cast(pa.uint8())).astype(np.bool_)
    return np.from_dlpack(column)
