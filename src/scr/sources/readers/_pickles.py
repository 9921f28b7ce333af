"""Read the pickles inside public graph files without executing anything they name.

A pickle is a program: it may name any function and call it. Here each of the few names that
Planetoid and gnn-benchmark files use is replaced by an inert stand-in of ours (`_STAND_INS`), and
every other name is refused. Not even NumPy's arrays and types or SciPy's matrices are rebuilt by
the pickle: their state is kept and checked first, since a crafted flag or index would make compiled
code read elsewhere.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from scr.errors import SourceError
from scr.sources.readers._raw import csr_from_parts

# Truth values, integers, floats, bytes, text and objects, of any width.
_PLAIN_DTYPE = re.compile(r"[<>|=]?[?biufSUO]\d*")


class _Marker:
    """Stands for a class that is only ever named, never made."""


class _SparseState:
    """Stands for a SciPy matrix: keeps its state as plain values."""

    def __init__(self, *_: object) -> None:
        self.state: dict[str, Any] = {}

    def __setstate__(self, state: object) -> None:
        self.state = dict(state) if isinstance(state, dict) else {}


class _DtypeState:
    """Stands for a NumPy type: keeps its name and byte order, and none of its flags."""

    def __init__(self, code: object = "", *_: object) -> None:
        self.name = code.decode("latin1") if isinstance(code, bytes) else str(code)
        if not _PLAIN_DTYPE.fullmatch(self.name):
            raise pickle.UnpicklingError(f"an array of the unexpected type {self.name!r}")
        self.order = "="

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order = state[1]
        self.order = order.decode("latin1") if isinstance(order, bytes) else str(order)

    def dtype(self) -> np.dtype[Any]:
        """The type itself, made by its name."""
        plain = np.dtype(self.name)
        return plain.newbyteorder(">") if self.order == ">" else plain


class _ArrayState:
    """Stands for a NumPy array: keeps its shape, type and content until the pickle is read."""

    def __init__(self, *_: object) -> None:
        self.state: tuple[Any, ...] = ()
        self.native = True  # whether NumPy would turn foreign byte orders round

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state[-4:]  # old pickles have no version in front

    def array(self, what: str) -> NDArray[Any]:
        """The array, if its parts fit together."""
        shape, kept, fortran, data = self.state
        dtype = kept.dtype()
        order: Literal["F", "C"] = "F" if fortran else "C"
        if dtype.hasobject:
            items = np.empty(len(data), dtype=object)
            for place, item in enumerate(data):
                items[place] = _plain(item, what)
            return items.reshape(shape, order=order)
        raw = data.encode("latin1") if isinstance(data, str) else bytes(data)
        flat = np.frombuffer(raw, dtype) if raw else np.zeros(0, dtype)
        wanted = dtype.newbyteorder("=") if self.native else dtype
        return flat.reshape(shape, order=order).astype(wanted)


def _array_of_bytes(data: object, dtype: _DtypeState, shape: object, order: str) -> _ArrayState:
    # How protocol 5 writes arrays.
    array = _ArrayState()
    array.native = False
    array.__setstate__((shape, dtype, order == "F", data))
    return array


def _new_scalar(dtype: _DtypeState, data: object = b"") -> Any:
    raw = data.encode("latin1") if isinstance(data, str) else data
    if dtype.dtype().hasobject or not isinstance(raw, bytes):
        raise pickle.UnpicklingError("a scalar that is not a number or text")
    return np.frombuffer(raw, dtype=dtype.dtype(), count=1)[0]


def _new_dict(*_: object) -> dict[Any, Any]:
    return {}


def _encode(text: str, encoding: str = "latin1") -> bytes:
    # How Python 3 writes bytes in old protocols; other codecs could decompress bombs.
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"bytes in the encoding {encoding!r}")
    return text.encode("latin1")


def _new_object(cls: object, *_: object) -> object:
    if cls is not _SparseState:
        raise pickle.UnpicklingError("an object of an unexpected class")
    return _SparseState()


_STAND_INS: dict[str, Callable[..., Any]] = {
    "numpy.ndarray": _Marker,
    "numpy.dtype": _DtypeState,
    "numpy.core.multiarray._reconstruct": _ArrayState,
    "numpy._core.multiarray._reconstruct": _ArrayState,
    "numpy.core.multiarray.scalar": _new_scalar,
    "numpy._core.multiarray.scalar": _new_scalar,
    "numpy.core.numeric._frombuffer": _array_of_bytes,
    "numpy._core.numeric._frombuffer": _array_of_bytes,
    "collections.defaultdict": _new_dict,
    "collections.OrderedDict": _new_dict,
    "builtins.bytearray": bytearray,
    "builtins.list": list,
    "builtins.dict": _new_dict,
    "builtins.object": _Marker,
    "copyreg._reconstructor": _new_object,
    "_codecs.encode": _encode,
    "scipy.sparse.csr.csr_matrix": _SparseState,
    "scipy.sparse._csr.csr_matrix": _SparseState,
    "scipy.sparse._csr.csr_array": _SparseState,
}
_OLD_MODULES = {"__builtin__": "builtins", "copy_reg": "copyreg"}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        full_name = f"{_OLD_MODULES.get(module, module)}.{name}"
        if full_name not in _STAND_INS:
            raise pickle.UnpicklingError(
                f"it names `{module}.{name}`, which graph files have no use for"
            )
        return _STAND_INS[full_name]


def read_pickle(file: IO[bytes], *, what: str) -> Any:
    """Load plain data, NumPy arrays and SciPy matrices from a pickle of Python 2 or 3.

    Raises:
        SourceError: The pickle names anything else, or is damaged. Nothing was executed.
    """
    try:
        return _plain(_Unpickler(file, encoding="latin1").load(), what)
    except SourceError:
        raise
    except pickle.UnpicklingError as error:
        raise SourceError(f"{what} is a pickle that is not read: {error}") from None
    except (EOFError, MemoryError, OverflowError, RecursionError, *_DAMAGE) as error:
        raise SourceError(f"{what} is a damaged pickle: {type(error).__name__}: {error}") from None


# What broken bytes make the unpickler, or one of the stand-ins, raise; a SystemError comes from
# Python's own unpickler, which returns without saying why on some of them.
_DAMAGE = (
    ValueError, TypeError, KeyError, IndexError, AttributeError, ImportError, SystemError,
)  # fmt: skip


def _plain(value: Any, what: str) -> Any:
    """Replace all stand-ins by what they stand for, in containers too."""
    if isinstance(value, _SparseState):
        state = {key: _plain(part, what) for key, part in value.state.items()}
        shape = state.get("_shape", state.get("shape"))
        return csr_from_parts({**state, "shape": shape}, what=f"A matrix in {what}")
    if isinstance(value, _ArrayState):
        array = value.array(what)
        return array.item() if array.dtype.hasobject and array.ndim == 0 else array
    if isinstance(value, dict):
        return {_plain(key, what): _plain(item, what) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_plain(item, what) for item in value)
    return value
