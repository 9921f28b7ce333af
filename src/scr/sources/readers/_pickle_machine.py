"""The few instructions of pickles that plain data need, in a machine of our own.

A pickle is a program for a machine with a stack. Python's own machine trusts it: a few bytes make
it allocate gigabytes, hash structures that refer to themselves, or run anything. This one has no
instruction that does such things. What is declared must be in the file, keys are numbers or text,
and names are looked up by whoever starts the machine (`_pickles.py`).
"""

from __future__ import annotations

import codecs
import struct
from collections.abc import Callable
from pickle import UnpicklingError
from typing import Any, Protocol

import numpy as np


class Buildable(Protocol):
    """What a pickle may give a state to."""

    def build(self, state: Any) -> None:
        """Keep the state, checked."""


class Machine:
    """Runs a pickle of plain data; see `Machine.run`."""

    def __init__(self, data: bytes, find: Callable[[str, str], Any]) -> None:
        """Prepare to run `data`; `find` gives what stands for a module and a name."""
        self.data, self.find, self.place = data, find, 0
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.spent = 0

    def run(self) -> Any:
        """The value that the pickle describes.

        Raises:
            UnpicklingError: It has an instruction that plain data have no use for.
            ValueError: It is damaged; also the other errors that wrong types raise.
        """
        while True:
            code = self.take(1)
            if code == b".":
                return self.stack.pop()
            step = _STEPS.get(code)
            if step is None:
                raise UnpicklingError(f"it has the instruction {code!r}, which data do not need")
            step(self)

    def take(self, count: int) -> bytes:
        """The next bytes."""
        end = self.place + count
        if count < 0 or end > len(self.data):
            raise ValueError(f"{count:,} bytes are declared at byte {self.place:,}, and it ends")
        found = self.data[self.place : end]
        self.place = end
        return found

    def line(self) -> bytes:
        """The bytes up to the end of the line."""
        end = self.data.find(b"\n", self.place)
        if end < 0:
            raise ValueError("it ends inside a line")
        found = self.data[self.place : end]
        self.place = end + 1
        return found

    def spend(self, size: int) -> None:
        """Count bytes that are copied, of which an honest file has no more than it is long."""
        self.spent += size
        if self.spent > len(self.data):
            raise UnpicklingError("it copies the same content again and again")

    def number(self, form: str) -> Any:
        """A number of fixed width."""
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def push(self, value: Any) -> None:
        """Put a value on the stack."""
        self.stack.append(value)

    def items(self) -> list[Any]:
        """What is on the stack above the last mark."""
        found, self.stack = self.stack, self.marks.pop()
        return found

    def top(self, kind: type) -> Any:
        """The value on top, which must be of a kind."""
        if not isinstance(self.stack[-1], kind):
            raise UnpicklingError(f"it fills a {type(self.stack[-1]).__name__}")
        return self.stack[-1]

    def fill(self, values: list[Any]) -> None:
        """Add keys and values to the dictionary on top."""
        target = self.top(dict)
        if len(values) % 2:
            raise ValueError("a key has no value")
        for key, value in zip(values[::2], values[1::2], strict=True):
            # Hashing anything nested could take for ever.
            if not isinstance(key, (str, bytes, int, float, np.generic)) and key is not None:
                raise UnpicklingError(f"it has a {type(key).__name__} for a key")
            target[key] = value


def _integer(machine: Machine) -> None:
    text = machine.line()
    machine.push({b"00": False, b"01": True}[text] if text in (b"00", b"01") else int(text))


def _text(line: bytes) -> str:
    text = line.decode("raw-unicode-escape")
    text.encode()  # half a character is an error
    return text


def _quoted(line: bytes) -> str:
    if len(line) < 2 or line[:1] != line[-1:] or line[:1] not in b"'\"":
        raise ValueError("text is not in quotes")
    raw: bytes = codecs.escape_decode(line[1:-1])[0]
    return raw.decode("latin1")


def _call(machine: Machine) -> None:
    arguments, function = machine.stack.pop(), machine.stack.pop()
    if not isinstance(arguments, tuple) or not isinstance(function, Named):
        raise UnpicklingError("it calls what is not a name")
    machine.push(function.call(machine, *arguments))


def _make(machine: Machine) -> None:
    arguments, kind = machine.stack.pop(), machine.stack.pop()
    if not isinstance(arguments, tuple) or not isinstance(kind, Named):
        raise UnpicklingError("it makes an object of what is not a name")
    machine.push(kind.make())


def _build(machine: Machine) -> None:
    state, target = machine.stack.pop(), machine.stack[-1]
    if not hasattr(target, "build"):
        raise UnpicklingError(f"it gives a state to a {type(target).__name__}")
    target.build(state)


def _append(machine: Machine) -> None:
    value = machine.stack.pop()
    machine.top(list).append(value)


def _set_item(machine: Machine) -> None:
    value, key = machine.stack.pop(), machine.stack.pop()
    machine.fill([key, value])


def _set_items(machine: Machine) -> None:
    values = machine.items()
    machine.fill(values)


def _append_items(machine: Machine) -> None:
    values = machine.items()
    machine.top(list).extend(values)


def _dictionary(machine: Machine) -> None:
    values = machine.items()
    machine.push({})
    machine.fill(values)


def _tuple(count: int) -> Callable[[Machine], None]:
    def step(machine: Machine) -> None:
        if len(machine.stack) < count:
            raise ValueError("the stack is empty")
        machine.stack[-count:] = [tuple(machine.stack[-count:])]

    return step


def _mark(machine: Machine) -> None:
    machine.marks.append(machine.stack)
    machine.stack = []


def _pop(machine: Machine) -> None:
    if machine.stack:
        machine.stack.pop()
    else:
        machine.items()


def _drop(machine: Machine) -> None:
    machine.items()


def _stack_name(machine: Machine) -> None:
    name, module = machine.stack.pop(), machine.stack.pop()
    if not isinstance(name, str) or not isinstance(module, str):
        raise ValueError("a name is not text")
    machine.push(machine.find(module, name))


def _keep(machine: Machine, number: int) -> None:
    machine.memo[number] = machine.stack[-1]


def _long(raw: bytes) -> int:
    return int.from_bytes(raw, "little", signed=True)


class Named:
    """What stands for a function or class that a pickle names."""

    def __init__(
        self, call: Callable[..., Any] | None = None, make: Callable[[], Any] | None = None
    ) -> None:
        self._call, self._make = call, make

    def call(self, machine: Machine, *arguments: Any) -> Any:
        """What calling it gives."""
        if self._call is None:
            raise UnpicklingError("it calls what is only ever named")
        return self._call(machine, *arguments)

    def make(self) -> Any:
        """An empty object of the class."""
        if self._make is None:
            raise UnpicklingError("an object of an unexpected class")
        return self._make()


_STEPS: dict[bytes, Callable[[Machine], None]] = {
    b"(": _mark,
    b"0": _pop,
    b"1": _drop,
    b"2": lambda machine: machine.push(machine.stack[-1]),
    b"F": lambda machine: machine.push(float(machine.line())),
    b"I": _integer,
    b"J": lambda machine: machine.push(machine.number("<i")),
    b"K": lambda machine: machine.push(machine.number("<B")),
    b"L": lambda machine: machine.push(int(machine.line().rstrip(b"L"))),
    b"M": lambda machine: machine.push(machine.number("<H")),
    b"N": lambda machine: machine.push(None),
    b"R": _call,
    b"S": lambda machine: machine.push(_quoted(machine.line())),
    b"T": lambda machine: machine.push(machine.take(machine.number("<i")).decode("latin1")),
    b"U": lambda machine: machine.push(machine.take(machine.number("<B")).decode("latin1")),
    b"V": lambda machine: machine.push(_text(machine.line())),
    b"X": lambda machine: machine.push(machine.take(machine.number("<I")).decode()),
    b"a": _append,
    b"b": _build,
    b"c": lambda machine: machine.push(
        machine.find(machine.line().decode(), machine.line().decode())
    ),
    b"d": _dictionary,
    b"}": lambda machine: machine.push({}),
    b"e": _append_items,
    b"g": lambda machine: machine.push(machine.memo[int(machine.line())]),
    b"h": lambda machine: machine.push(machine.memo[machine.number("<B")]),
    b"j": lambda machine: machine.push(machine.memo[machine.number("<I")]),
    b"l": lambda machine: machine.push(machine.items()),
    b"]": lambda machine: machine.push([]),
    b"p": lambda machine: _keep(machine, int(machine.line())),
    b"q": lambda machine: _keep(machine, machine.number("<B")),
    b"r": lambda machine: _keep(machine, machine.number("<I")),
    b"s": _set_item,
    b"t": lambda machine: machine.push(tuple(machine.items())),
    b")": lambda machine: machine.push(()),
    b"u": _set_items,
    b"G": lambda machine: machine.push(machine.number(">d")),
    b"\x80": lambda machine: machine.number("<B"),
    b"\x81": _make,
    b"\x85": _tuple(1),
    b"\x86": _tuple(2),
    b"\x87": _tuple(3),
    b"\x88": lambda machine: machine.push(True),
    b"\x89": lambda machine: machine.push(False),
    b"\x8a": lambda machine: machine.push(_long(machine.take(machine.number("<B")))),
    b"\x8b": lambda machine: machine.push(_long(machine.take(machine.number("<i")))),
    b"B": lambda machine: machine.push(machine.take(machine.number("<I"))),
    b"C": lambda machine: machine.push(machine.take(machine.number("<B"))),
    b"\x8c": lambda machine: machine.push(machine.take(machine.number("<B")).decode()),
    b"\x8d": lambda machine: machine.push(machine.take(machine.number("<Q")).decode()),
    b"\x8e": lambda machine: machine.push(machine.take(machine.number("<Q"))),
    b"\x93": _stack_name,
    b"\x94": lambda machine: _keep(machine, len(machine.memo)),
    b"\x95": lambda machine: machine.number("<Q"),
    b"\x96": lambda machine: machine.push(machine.take(machine.number("<Q"))),
}
"""By the codes of protocols 0 to 5 (Lib/pickle.py). A byte array comes as bytes."""
