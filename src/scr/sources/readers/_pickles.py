"""Read the pickles inside public graph files without executing anything they name.

A pickle is a program: it may name any function and call it. Here a machine of our own runs it
(`_pickle_machine.py`), each of the few names that Planetoid and gnn-benchmark files use is replaced
by an inert stand-in (`_STAND_INS`), and every other name is refused. Not even NumPy's arrays and
types or SciPy's matrices are rebuilt by the pickle: their state is kept and checked first, since a
crafted flag or index would make compiled code read elsewhere.

A part that is referred to twice is made once. What all references together would be, were each a
copy, may not be much more than the file itself has bytes: a few hundred bytes can describe lists of
lists with more entries than any memory.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pickle import UnpicklingError
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from scr.errors import SourceError
from scr.sources.readers._pickle_machine import Machine, Named
from scr.sources.readers._raw import csr_from_parts
from scr.storage import check_values

# Truth values, integers, floats, bytes, text and objects, of any width.
_PLAIN_DTYPE = re.compile(r"[<>|=]?[?biufSUO]\d{0,9}")
MOST_LEVELS = 40
"""Of containers in containers; graph files have four."""
_WIDEST_BITS = 64
MOST_COPIES = 10
"""Times its own size that a pickle may describe; honest files share a part or two."""


class _SparseState:
    """Stands for a SciPy matrix: keeps its state as plain values."""

    def __init__(self) -> None:
        self.state: dict[Any, Any] = {}

    def build(self, state: Any) -> None:
        if isinstance(state, dict):
            self.state = state


class _DtypeState:
    """Stands for a NumPy type: keeps its name and byte order, and none of its flags."""

    def __init__(self, code: object = "", *_: object) -> None:
        self.name = code.decode("latin1") if isinstance(code, bytes) else str(code)[:40]
        if not _PLAIN_DTYPE.fullmatch(self.name):
            raise UnpicklingError(f"an array of the unexpected type {self.name!r}")
        self.order = "="

    def build(self, state: Any) -> None:
        order = state[1]
        self.order = order.decode("latin1") if isinstance(order, bytes) else str(order)

    def dtype(self) -> np.dtype[Any]:
        """The type itself, made by its name."""
        plain = np.dtype(self.name)
        return plain.newbyteorder(">") if self.order == ">" else plain


class _ArrayState:
    """Stands for a NumPy array: keeps its shape, type and content until the pickle is read."""

    def __init__(self) -> None:
        self.state: tuple[Any, ...] = ()
        self.native = True  # whether NumPy would turn foreign byte orders round

    def build(self, state: Any) -> None:
        if not isinstance(state, tuple):
            raise UnpicklingError("an array without a content")
        self.state = state[-4:]  # old pickles have no version in front

    @property
    def content(self) -> Any:
        """Bytes, or the list of objects."""
        return self.state[3] if len(self.state) == 4 else b""

    def array(self, plain: Callable[[Any], Any]) -> NDArray[Any]:
        """The array, if its parts fit together; `plain` makes values of what it holds."""
        shape, kept, fortran, data = self.state
        if not isinstance(kept, _DtypeState) or not isinstance(shape, tuple):
            raise ValueError("an array without a type and a shape")
        if not all(isinstance(size, int) and size >= 0 for size in shape):
            raise ValueError("an array of a negative size")
        dtype = kept.dtype()
        order: Literal["F", "C"] = "F" if fortran else "C"
        if dtype.hasobject:
            if not isinstance(data, (list, tuple)):
                raise ValueError("an array of objects without any")
            items = np.empty(len(data), dtype=object)
            for place, item in enumerate(data):
                items[place] = plain(item)
            return items.reshape(shape, order=order)
        raw = data.encode("latin1") if isinstance(data, str) else bytes(memoryview(data))
        flat = np.frombuffer(raw, dtype) if raw else np.zeros(0, dtype)
        wanted = dtype.newbyteorder("=") if self.native else dtype
        array = flat.reshape(shape, order=order).astype(wanted)
        check_values(np.ascontiguousarray(array).reshape(-1))
        return array


def _new_array(_: Machine, *_arguments: object) -> _ArrayState:
    return _ArrayState()


def _array_of_bytes(
    _: Machine, data: object, dtype: _DtypeState, shape: object, order: str
) -> _ArrayState:
    # How protocol 5 writes arrays.
    array = _ArrayState()
    array.native = False
    array.build((shape, dtype, order == "F", data))
    return array


def _new_scalar(machine: Machine, dtype: _DtypeState, data: object = b"") -> Any:
    raw = data.encode("latin1") if isinstance(data, str) else data
    if not isinstance(dtype, _DtypeState) or dtype.dtype().hasobject or not isinstance(raw, bytes):
        raise UnpicklingError("a scalar that is not a number or text")
    machine.spend(len(raw))
    values = np.frombuffer(raw, dtype=dtype.dtype(), count=1)
    check_values(values)
    return values[0]


def _new_dtype(_: Machine, *arguments: object) -> _DtypeState:
    return _DtypeState(*arguments)


def _new_dict(_: Machine, *_arguments: object) -> dict[Any, Any]:
    return {}


def _new_bytes(machine: Machine, content: object = b"", encoding: object = "latin-1") -> bytes:
    # A number would be how many zeros to allocate.
    if isinstance(content, str) and encoding in ("latin-1", "latin1"):
        content = content.encode("latin1")
    if not isinstance(content, bytes):
        raise UnpicklingError("a byte array without any bytes")
    machine.spend(len(content))
    return content


def _encode(machine: Machine, text: str, encoding: str = "latin1") -> bytes:
    # How Python 3 writes bytes in old protocols; other codecs could decompress bombs.
    if encoding != "latin1" or not isinstance(text, str):
        raise UnpicklingError(f"bytes in the encoding {encoding!r}")
    machine.spend(len(text))
    return text.encode("latin1")


def _new_object(_: Machine, kind: object, *_arguments: object) -> object:
    if kind is not _SPARSE:
        raise UnpicklingError("an object of an unexpected class")
    return _SparseState()


_MARKER, _LIST = Named(), Named()
_SPARSE = Named(lambda *_: _SparseState(), _SparseState)
_ARRAY, _SCALAR, _DICT = Named(_new_array), Named(_new_scalar), Named(_new_dict)
_FROM_BYTES = Named(_array_of_bytes)
_STAND_INS: dict[str, Named] = {
    "numpy.ndarray": _MARKER,
    "numpy.dtype": Named(_new_dtype),
    "numpy.core.multiarray._reconstruct": _ARRAY,
    "numpy._core.multiarray._reconstruct": _ARRAY,
    "numpy.core.multiarray.scalar": _SCALAR,
    "numpy._core.multiarray.scalar": _SCALAR,
    "numpy.core.numeric._frombuffer": _FROM_BYTES,
    "numpy._core.numeric._frombuffer": _FROM_BYTES,
    "collections.defaultdict": _DICT,
    "collections.OrderedDict": _DICT,
    "builtins.bytearray": Named(_new_bytes),
    "builtins.list": _LIST,
    "builtins.dict": _DICT,
    "builtins.object": _MARKER,
    "copyreg._reconstructor": Named(_new_object),
    "_codecs.encode": Named(_encode),
    "scipy.sparse.csr.csr_matrix": _SPARSE,
    "scipy.sparse._csr.csr_matrix": _SPARSE,
    "scipy.sparse._csr.csr_array": _SPARSE,
}
_OLD_MODULES = {"__builtin__": "builtins", "copy_reg": "copyreg"}


def _find(module: str, name: str) -> Named:
    full_name = f"{_OLD_MODULES.get(module, module)}.{name}"
    if full_name not in _STAND_INS:
        raise UnpicklingError(
            f"it names `{module[:80]}.{name[:80]}`, which graph files have no use for"
        )
    return _STAND_INS[full_name]


def read_pickle(file: IO[bytes], *, what: str) -> Any:
    """Load plain data, NumPy arrays and SciPy matrices from a pickle of Python 2 or 3.

    Raises:
        SourceError: The pickle names anything else, or is damaged. Nothing was executed.
    """
    data = file.read()
    try:
        value = Machine(data, _find).run()
        _check_references(value, MOST_COPIES * len(data))
        return _plain(value, what, {})
    except SourceError:
        raise
    except UnpicklingError as error:
        raise SourceError(f"{what} is a pickle that is not read: {error}") from None
    except _DAMAGE as error:
        raise SourceError(f"{what} is a damaged pickle: {type(error).__name__}: {error}") from None


# What broken bytes make the machine, or one of the stand-ins, raise.
_DAMAGE = (
    ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, struct.error,
)  # fmt: skip


def _parts(value: Any) -> list[Any] | tuple[Any, ...]:
    """What a container holds."""
    if isinstance(value, _SparseState):
        return list(value.state.values())
    if isinstance(value, _ArrayState):
        return value.content if isinstance(value.content, (list, tuple)) else ()
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, (list, tuple)) else ()


def _weight(value: Any) -> int:
    """What a value takes beside its parts."""
    has_bytes = isinstance(value, _ArrayState) and isinstance(value.content, (bytes, str))
    return 1 + len(value.content) if has_bytes else 1


def _check_references(value: Any, most: int) -> None:
    """Refuse references in circles, too many levels, and more parts than the file can hold.

    Each part is visited once, so that this takes as long as reading the pickle.
    """
    weights: dict[int, int] = {}
    levels: dict[int, int] = {}
    open_parts: set[int] = set()
    stack = [(value, False)]
    while stack:
        each, is_seen = stack.pop()
        key = id(each)
        if is_seen:
            parts = _parts(each)
            weights[key] = _weight(each) + sum(weights[id(part)] for part in parts)
            levels[key] = 1 + max((levels[id(part)] for part in parts), default=0)
            open_parts.discard(key)
            if weights[key] > most:
                raise UnpicklingError("it refers to the same parts again and again")
            if levels[key] > MOST_LEVELS:
                raise UnpicklingError(f"it has more than {MOST_LEVELS} containers in each other")
        elif key in open_parts:
            raise UnpicklingError("a part of it refers to itself")
        elif key not in weights:
            open_parts.add(key)
            stack.append((each, True))
            stack.extend((part, False) for part in _parts(each) if id(part) not in weights)


def _plain(value: Any, what: str, made: dict[int, Any]) -> Any:
    """Replace all stand-ins by what they stand for, in containers too; each part once."""
    if id(value) in made:
        return made[id(value)]
    result = value
    if isinstance(value, _SparseState):
        state = {key: _plain(part, what, made) for key, part in value.state.items()}
        shape = state.get("_shape", state.get("shape"))
        result = csr_from_parts({**state, "shape": shape}, what=f"A matrix in {what}")
    elif isinstance(value, _ArrayState):
        array = value.array(lambda item: _plain(item, what, made))
        result = array.item() if array.dtype.hasobject and array.ndim == 0 else array
    elif isinstance(value, dict):
        result = {key: _plain(item, what, made) for key, item in value.items()}
    elif isinstance(value, (list, tuple)):
        result = type(value)(_plain(item, what, made) for item in value)
    elif isinstance(value, (Named, _DtypeState)):
        raise UnpicklingError("it holds a name instead of a value")
    elif isinstance(value, int) and value.bit_length() > _WIDEST_BITS:
        raise UnpicklingError(f"it has a number of {value.bit_length():,} bits")
    made[id(value)] = result
    return result
