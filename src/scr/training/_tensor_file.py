"""Tensors in a safetensors file: written with the same bytes for the same content, read with care.

safetensors writes the entries of its metadata in an order that differs from call to call. Here they
are sorted, and the header is padded with spaces as the format asks for, so files of equal runs are
equal.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from scr.errors import StoreError
from scr.storage import check_fields, check_plain, write_bytes

_LENGTH = 8
"""Bytes of the length that precedes the header; also what its size is a multiple of."""


def tensor_bytes(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """The content of a safetensors file, of which every byte is decided by the arguments."""
    data = save(dict(tensors), metadata=dict(metadata) or None)
    size = int.from_bytes(data[:_LENGTH], "little")
    header = json.loads(data[_LENGTH : _LENGTH + size])
    ordered = {name: header[name] for name in sorted(header)}
    if "__metadata__" in ordered:
        ordered["__metadata__"] = dict(sorted(ordered["__metadata__"].items()))
    text = json.dumps(ordered, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _LENGTH)
    return len(text).to_bytes(_LENGTH, "little") + text + data[_LENGTH + size :]


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write a safetensors file whole or not at all."""
    write_bytes(path, tensor_bytes(tensors, metadata))


def read_tensors(
    path: Path, *, what: str, hint: str | None = None, only_header: bool = False
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and metadata of a safetensors file; with `only_header`, the metadata alone.

    Raises:
        StoreError: It cannot be read; `what` says what it is in the message.
    """
    try:
        check_plain(path)
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            names = [] if only_header else list(file.keys())
            return {name: file.get_tensor(name) for name in names}, metadata
    # torch and safetensors raise all kinds of errors for shapes and types that make no sense.
    except (SafetensorError, OSError, ValueError, RuntimeError, TypeError, LookupError,
            AttributeError, OverflowError) as error:  # fmt: skip
        reason = str(error).partition("\n")[0]
        raise StoreError(f"The {what} `{path}` cannot be read: {reason}", hint=hint) from None


def read_header(
    path: Path, metadata: Mapping[str, str], name: str, fields: Mapping[str, Any]
) -> dict[str, Any]:
    """A JSON object from the metadata of a safetensors file; `fields` as of `check_fields`."""
    if name not in metadata:
        raise StoreError(f"`{path}` has no `{name}` in its header; expected an object there")
    try:
        content = json.loads(metadata[name])
    except (ValueError, RecursionError):
        raise StoreError(f"`{path}` has a damaged `{name}` in its header") from None
    if not isinstance(content, dict):
        raise StoreError(f"`{path}` has no object as `{name}` in its header; it is damaged")
    check_fields(path, content, fields)
    return content
