"""Damage that knows the format of a file: it stays readable for longer, so it gets further.

Every function changes one file in place and says what it did; `damage_format` picks one by the
suffix, and falls back to bytes where the file cannot be taken apart.
"""

from __future__ import annotations

import gzip
import io
import json
import pickle
import pickletools
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from campaigns.damage_bytes import Random, damage_bytes, integer
from campaigns.damage_requests import HOSTILE_TEXTS

Damage = Callable[[Path, Random], str]


def pick(random: Random, values: Any) -> Any:
    """One of some values."""
    return values[integer(random, 0, len(values))]


ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, -(2**63), 10**30, 0.5, -0.0, 1e308, 1e-320,
    "", "x", "\x00", "../../x", "/dev/zero", "<script>", "NaN", [], {}, [[]], [None], {"": None},
    [1, 2, 3], ["a", "b"], {"name": "x"}, "9" * 1000, "a" * 100_000, "\u202e", "e\u0301", "=1+1",
)  # fmt: skip


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    if isinstance(value, dict):
        pairs: Any = value.items()
    elif isinstance(value, list):
        pairs = enumerate(value[:20])
    else:
        return found
    for key, each in pairs:
        found += _paths(each, (*path, key))
    return found


def damage_value(value: Any, random: Random) -> tuple[Any, str]:
    """Change one place of a JSON value: another value, gone, twice, wrapped, renamed."""
    places = _paths(value)
    if not places:
        return pick(random, ODD_VALUES), "replaces all"
    path = pick(random, places)
    holder = value
    for key in path[:-1]:
        holder = holder[key]
    key, kind = path[-1], integer(random, 0, 8)
    shown = ".".join(map(str, path))
    if kind <= 3:
        holder[key] = pick(random, ODD_VALUES)
        return value, f"{shown} = {str(holder[key])[:40]!r}"
    if kind == 4:
        del holder[key]
        return value, f"without {shown}"
    if kind == 5:
        holder[key] = pick(random, ([holder[key]], {"x": holder[key]}, str(holder[key])))
        return value, f"wraps {shown}"
    if kind == 6 and isinstance(holder[key], (int, float)):
        holder[key] = holder[key] + pick(random, (1, -1, 0.5, 1000, -(10**9)))
        return value, f"{shown} = {holder[key]}"
    if isinstance(holder, list):
        holder.insert(integer(random, 0, len(holder)), holder[key])
        return value, f"{shown} twice"
    name = pick(random, [*HOSTILE_TEXTS, "name", key + " ", key.upper()])
    holder[name] = holder.pop(key)
    return value, f"{shown} is called {name[:20]!r}"


def _dump(value: Any) -> bytes:
    return json.dumps(value, indent=1).encode("utf-8", "surrogatepass")


def json_value(path: Path, random: Random) -> str:
    """Change one or two places of a JSON file."""
    value, done = json.loads(path.read_text()), []
    for _ in range(1 if random.random() < 0.8 else 2):
        value, what = damage_value(value, random)
        done.append(what)
    path.write_bytes(_dump(value))
    return ", ".join(done)


def json_text(path: Path, random: Random) -> str:
    """What the library that reads JSON allows, or nearly."""
    text = path.read_text()
    kind = integer(random, 0, 6)
    if kind == 0:
        at = integer(random, 0, len(text))
        text = (
            text[:at]
            + pick(random, ("NaN", "Infinity", "1e400", "[" * 2000, '"\\ud800"'))
            + text[at:]
        )
    elif kind == 1:
        text = pick(random, ("[" * 100_000, '{"a":' * 50_000, "[" * 900 + "]" * 900))
    elif kind == 2:
        text = "\ufeff" + text
    elif kind == 3:
        text = text.replace(":", ": 1, ", 1)
    elif kind == 4:
        text = text.rstrip().rstrip("}") + ', "format": 3, "arrays": [], "name": {}}'
    else:
        path.write_bytes(text.encode("utf-16"))
        return "is UTF-16"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    return f"text of JSON, kind {kind}"


def json_line(path: Path, random: Random) -> str:
    """Change, repeat, cut or exchange lines of a file of JSON lines."""
    lines = path.read_text().splitlines()
    if not lines:
        return damage_bytes(path, random)
    place, kind = integer(random, 0, len(lines)), integer(random, 0, 5)
    what = f"line {place}, kind {kind}"
    if kind <= 1:
        value, what = damage_value(json.loads(lines[place]), random)
        lines[place] = _dump(value).decode("utf-8", "surrogatepass").replace("\n", "")
    elif kind == 2:
        lines.insert(integer(random, 0, len(lines)), lines[place])
    elif kind == 3:
        lines[place] = lines[place][: integer(random, 0, len(lines[place]))]
    else:
        lines[place] = str(_dump(pick(random, ODD_VALUES)), "utf-8", "replace")
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))
    return what


SHAPES = (
    (), (0,), (-1,), (2**62,), (2**40, 2**40), (10**9,), (1,) * 40, (3, 0), (2**31, 2), (6,),
    (2, 6), (1.5,), ("6",), None, (True,),
)  # fmt: skip
DTYPES = (
    "<f4", "<f8", "<i4", "<i8", "<u8", ">i8", ">f4", "|O", "<U1", "<U100000", "|S3", "|b1", "|i1",
    "<c16", "<f2", "<M8[ns]", "|V8", "nonsense", "<U0", "<i16", "O",
)  # fmt: skip


def npy_header(content: bytes, random: Random) -> tuple[bytes, str]:
    """Another header over the same data."""
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    read = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    shape, is_fortran, dtype = read(stream)
    header: dict[str, Any] = {"descr": dtype.str, "fortran_order": is_fortran, "shape": shape}
    kind = integer(random, 0, 7)
    if kind <= 1:
        header["shape"] = pick(random, (*SHAPES, shape[::-1], shape[:-1], (*shape, 1)))
    elif kind == 2:
        header["descr"] = pick(random, (*DTYPES, [("a", "<f4")], [], None, ("<f4", (2,)), "|O"))
    elif kind == 3:
        header["fortran_order"] = pick(random, (not is_fortran, None, 3))
    elif kind == 4:
        header[pick(random, ("more", ""))] = pick(random, ODD_VALUES)
    elif kind == 5:
        del header[pick(random, list(header))]
    else:
        header = pick(random, ({}, [], 0, "(" * 300, "__import__('os').abort()", "{" * 90))
    text = header if isinstance(header, str) else repr(header)
    encoded = text.encode("latin-1", "replace") + b"\n"
    length = pick(random, (len(encoded),) * 6 + (0, 65535, len(encoded) + 40))
    made = b"\x93NUMPY\x01\x00" + struct.pack("<H", length) + encoded + content[stream.tell() :]
    return made, f"header {text[:90]}"


def npy_values(content: bytes, random: Random) -> tuple[bytes, str]:
    """Other values, of which the header is right."""
    array = np.load(io.BytesIO(content), allow_pickle=False)
    kind = integer(random, 0, 7)
    what = f"values, kind {kind}"
    if kind <= 2 and array.size:
        flat, place = array.reshape(-1).copy(), integer(random, 0, array.size)
        odd: tuple[Any, ...] = (-1, 0, 2**31 - 1, -(2**31), 2**62, len(flat), len(flat) - 1)
        if array.dtype.kind == "f":
            odd = (np.nan, np.inf, -np.inf, 1e38, -1.0)
        elif array.dtype.kind in "US":
            odd = ("", "x" * 300, "<script>", "a\x00b", str(flat[0]))
        value = pick(random, odd)
        with np.errstate(all="ignore"):
            flat[place] = np.array(value).astype(array.dtype)
        array, what = flat.reshape(array.shape), f"value {place} = {value!r}"
    elif kind == 3 and array.ndim:
        array = array[::-1]
    elif kind == 4 and array.ndim and len(array):
        array = array[: integer(random, 0, len(array))]
    elif kind == 5:
        array = array.astype(pick(random, ("f4", "f8", "i4", "i8", "u1", "U5", "c8", "?", ">i4")))
    else:
        array = pick(
            random, (array[None], array.reshape(-1), array.reshape(-1)[:1], array.reshape(-1)[0:0])
        )
    stream = io.BytesIO()
    np.save(stream, np.ascontiguousarray(array), allow_pickle=False)
    return stream.getvalue(), what


def npy(content: bytes, random: Random) -> tuple[bytes, str]:
    """Another header, or other values."""
    try:
        return (npy_header if random.random() < 0.5 else npy_values)(content, random)
    except (ValueError, TypeError, OverflowError):
        return content[: len(content) // 2], "half of it"


def npy_file(path: Path, random: Random) -> str:
    """As `npy`, of a file."""
    content, what = npy(path.read_bytes(), random)
    path.write_bytes(content)
    return what


def npz_file(path: Path, random: Random) -> str:
    """Change, drop, rename, repeat or inflate a member of an archive."""
    with zipfile.ZipFile(path) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    place, kind = integer(random, 0, len(members)), integer(random, 0, 9)
    name, content = members[place]
    packing = pick(
        random, (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    )
    what = f"{name}, kind {kind}"
    if kind <= 3:
        content, what = npy(content, random)
        members[place], what = (name, content), f"{name}: {what}"
    elif kind == 4:
        del members[place]
    elif kind == 5:
        members.append((name, members[integer(random, 0, len(members))][1]))
    elif kind == 6:
        odd = pick(random, ("../x.npy", "x", "", "a/b.npy", name.upper(), "x.npy", "/etc/x.npy"))
        members[place] = (odd, content)
    elif kind == 7:
        size = 300_000_000
        header = np.lib.format.header_data_from_array_1_0(np.zeros(0))
        header["shape"] = (size // 8,)
        stream = io.BytesIO()
        np.lib.format.write_array_header_1_0(stream, header)
        members[place] = (
            name,
            stream.getvalue() + bytes(size if random.random() < 0.02 else 5_000_000),
        )
        packing = zipfile.ZIP_DEFLATED
    else:
        members[place] = (name, random.bytes(60))
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with zipfile.ZipFile(path, "w", packing) as archive:
            for each, data in members:
                archive.writestr(zipfile.ZipInfo(each), data, packing)
    if random.random() < 0.2:
        patched = bytearray(path.read_bytes())
        at = patched.rfind(b"PK\x01\x02")
        field = at + pick(random, (8, 10, 16, 20, 24, 28, 42))
        patched[field : field + 4] = pick(random, (b"\xff" * 4, bytes(4), b"\x00\x00\x00\x7f"))
        path.write_bytes(patched)
        what += f", directory at {field}"
    return what


def safetensors_file(path: Path, random: Random) -> str:
    """Another header, or other numbers below it."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header, data = json.loads(content[8 : 8 + length]), bytearray(content[8 + length :])
    kind = integer(random, 0, 6)
    what = "numbers"
    if kind <= 2:
        header, what = damage_value(header, random)
    elif kind == 3:
        name = pick(random, [each for each in header if each != "__metadata__"] or ["x"])
        field = pick(random, ("shape", "dtype", "data_offsets"))
        odd = pick(
            random, ([2**60], [-1], [], [0, 0], [0, 2**50], "F16", "I64", "BOOL", "X", None, [1.5])
        )
        header.setdefault(name, {})[field] = odd
        what = f"{name}.{field} = {odd}"
    elif kind == 4 and len(data) >= 4:
        place = integer(random, 0, len(data) // 4) * 4
        value = pick(random, (float("nan"), float("inf"), -1e30, 0.0))
        data[place : place + 4] = struct.pack("<f", value)
        what = f"{value} at {place}"
    else:
        made = pick(random, (0, 2**63, 2**32, len(content), 1))
        path.write_bytes(struct.pack("<Q", made) + content[8:])
        return f"header of {made} bytes"
    text = json.dumps(header).encode("utf-8", "replace")
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(data))
    return what


CELLS = (
    *HOSTILE_TEXTS, "NA", "null", "1,5", "1;2", '"', '""', '"a', "1e999", "-inf", "0x10",
    "1_000", "true", "2020-01-01", "9" * 400, "x" * 70_000, "a\x00", "\ufffd",
)  # fmt: skip


def text_table(path: Path, random: Random) -> str:
    """Change a cell, a row, a column or the manner of a table in text."""
    content = path.read_bytes()
    is_packed = path.suffix == ".gz"
    if is_packed:
        content = gzip.decompress(content)
    codec = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    lines = content.decode(codec).splitlines()
    separator = max(",;\t", key=lines[0].count)
    rows = [line.split(separator) for line in lines]
    place, kind = integer(random, 0, len(rows)), integer(random, 0, 12)
    column = integer(random, 0, len(rows[place]))
    what = f"row {place}, column {column}, kind {kind}"
    if kind <= 3:
        rows[place][column] = pick(random, CELLS)
        what += f": {rows[place][column][:30]!r}"
    elif kind == 4:
        rows.insert(place, rows[integer(random, 0, len(rows))])
    elif kind == 5:
        del rows[place]
    elif kind == 6:
        rows[0][column % len(rows[0])] = rows[0][integer(random, 0, len(rows[0]))]
    elif kind == 7:
        rows = [[*row, row[column % len(row)]] for row in rows]
    elif kind == 8:
        rows = [row[: column % len(row)] + row[column % len(row) + 1 :] for row in rows]
    elif kind == 9:
        rows[place] = rows[place][:column] if random.random() < 0.5 else [*rows[place], "x", "y"]
    elif kind == 10:
        separator = pick(random, ("|", "\t", ";", " ", ",,", "\x00"))
    else:
        codec = pick(random, ("utf-16", "utf-32", "latin-1", "utf-8-sig", "cp037"))
    ending = pick(random, ("\n",) * 6 + ("\r\n", "\r", "\n\n", "\x00\n"))
    made = ending.join(separator.join(row) for row in rows).encode(codec, "backslashreplace")
    path.write_bytes(gzip.compress(made, mtime=0) if is_packed else made)
    return what


def arrow_table(path: Path, random: Random) -> str:
    """Other types, columns, values or rows of a Parquet, Feather or Arrow file."""
    import pyarrow as pa
    import pyarrow.feather
    import pyarrow.parquet

    if path.suffix == ".parquet":
        table = pyarrow.parquet.read_table(path)
    elif path.suffix == ".feather":
        table = pyarrow.feather.read_table(path)
    else:
        table = pa.ipc.open_stream(path).read_all()
    count, names = len(table), list(table.column_names)
    columns: list[Any] = [column.combine_chunks() for column in table.columns]
    place, kind = integer(random, 0, len(columns)), integer(random, 0, 8)
    odd = (
        pa.array([[1, None]] * count), pa.array([{"a": 1}] * count), pa.nulls(count),
        pa.array([b"\xff\x00"] * count), pa.array([True] * count), pa.array([2**62] * count),
        pa.array([float("nan")] * count), pa.array(["<script>"] * count), pa.array([-1] * count),
        pa.array([1] * count, pa.timestamp("ns")), pa.array([1] * count, pa.decimal128(5, 1)),
        pa.array([[b"x"]] * count), pa.array(["a"] * count).dictionary_encode(),
        pa.array([1.5] * count, pa.float16()) if count else pa.nulls(0), pa.array([""] * count),
        pa.array([1] * count, pa.duration("s")), pa.array([[[]]] * count),
        pa.array([0] * count, pa.uint8()), pa.array([1] * count, pa.date32()),
        pa.array([float("inf")] * count), pa.array([10**4] * count, pa.time32("s")),
        pa.array(["x" * 10_000] * count, pa.large_string()),
        pa.array([[("a", 1)]] * count, pa.map_(pa.string(), pa.int64())),
    )  # fmt: skip
    what = f"{names[place]}, kind {kind}"
    if kind <= 3:
        columns[place] = pick(random, odd)
        what = f"{names[place]} is {columns[place].type}"
    elif kind == 4:
        del columns[place], names[place]
    elif kind == 5:
        names[place] = pick(random, [*names, "", "\x00", "<script>", "id"])
        what = f"a column is called {names[place]!r}"
    elif kind == 6:
        values = columns[place].to_pylist()
        values[integer(random, 0, count)] = pick(random, (None, values[0], values[-1]))
        columns[place] = pa.array(values, columns[place].type)
    else:
        rows = pa.array(random.integers(0, max(count, 1), integer(random, 0, 2 * count)))
        columns = [column.take(rows) for column in columns] if count else columns
    made = pa.Table.from_arrays(columns, names=names)
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(made, path)
    elif path.suffix == ".feather":
        pyarrow.feather.write_feather(made, path)
    else:
        with pa.ipc.new_stream(str(path), made.schema) as writer:
            writer.write_table(made)
    return what


class _Run:
    """Its pickle calls a function of the system."""

    def __init__(self, line: str) -> None:
        self.line = line

    def __reduce__(self) -> Any:
        import os

        return os.system, (self.line,)


def pickle_file(path: Path, random: Random) -> str:
    """Other opcodes, or a pickle that would run a command."""
    content = path.read_bytes()
    kind = integer(random, 0, 5)
    if kind == 0:
        path.write_bytes(hostile_pickle(path.parent / "canary", random))
        return "a pickle that runs a command"
    try:
        starts = [place for _, _, place in pickletools.genops(content)]
    except ValueError:
        return damage_bytes(path, random)
    place = integer(random, 0, len(starts) - 1)
    start, stop = starts[place], starts[place + 1]
    if kind == 1:
        made = content[:start] + content[stop:]
    elif kind == 2:
        made = (
            content[:stop] + content[start:stop] * pick(random, (1, 1, 50, 5000)) + content[stop:]
        )
    elif kind == 3:
        codes = [code.code.encode("latin-1") for code in pickletools.opcodes]
        made = content[:start] + pick(random, codes) + content[start + pick(random, (0, 1)) :]
    else:
        other = integer(random, 0, len(starts) - 1)
        made = content[:start] + content[starts[other] : starts[other + 1]] + content[stop:]
    path.write_bytes(made)
    return f"opcodes at {start}, kind {kind}"


def hostile_pickle(canary: Path, random: Random) -> bytes:
    """A pickle that would leave a file behind if it were trusted, or take all there is."""
    made = pickle.dumps(_Run(f"touch '{canary}'"), protocol=integer(random, 0, 6))
    doubled = (
        b"(lp0\n"
        + b"".join(b"(lp%d\ng%d\nag%d\na" % (n, n - 1, n - 1) for n in range(1, 60))
        + b"."
    )
    return pick(random, (
        made, made, b"cos\nsystem\n(S'touch %s'\ntR." % str(canary).encode(),
        b"\x80\x04" + b"(" * 5000 + b"t" * 5000 + b".", doubled,
        b"c__builtin__\nbytearray\n(J\xff\xff\xff\x7ftR.", b"\x80\x04]" * 20_000 + b".",
        b"cnumpy\nzeros\n((J\xff\xff\xff\x7fJ\xff\xff\xff\x7ftR.",
        b"c__builtin__\neval\n(S'open(\"%s\",\"w\")'\ntR." % str(canary).encode(),
    ))  # fmt: skip


def pickled_npy(path: Path, random: Random) -> str:
    """An array of objects, that would run a command."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        stream, {"descr": "|O", "fortran_order": False, "shape": ()}
    )
    content = stream.getvalue() + hostile_pickle(path.parent / "canary", random)
    if path.suffix == ".npz":
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        members[pick(random, list(members))] = content
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in members.items():
                archive.writestr(name, data)
    else:
        path.write_bytes(content)
    return "pickled objects"


def toml_line(path: Path, random: Random) -> str:
    """Change, repeat or drop a line."""
    lines = path.read_text().splitlines()
    place, kind = integer(random, 0, len(lines)), integer(random, 0, 4)
    if kind == 0:
        del lines[place]
    elif kind == 1:
        lines.insert(place, lines[integer(random, 0, len(lines))])
    elif kind == 2:
        lines[place] = lines[place].partition("=")[0] + "= " + pick(random, (
            "1", '"x"', "[]", "{}", "nan", "2020-01-01", '"../../x"', '"/dev/zero"', "[[]]", '""',
        ))  # fmt: skip
    else:
        lines[place] = "a." * 3000 + "b = 1"
    path.write_text("\n".join(lines))
    return f"line {place}, kind {kind}"


BY_SUFFIX: dict[str, tuple[Damage, ...]] = {
    ".json": (json_value, json_value, json_value, json_text),
    ".jsonl": (json_line,),
    ".npy": (npy_file, npy_file, npy_file, pickled_npy),
    ".npz": (npz_file, npz_file, npz_file, pickled_npy),
    ".safetensors": (safetensors_file,),
    ".csv": (text_table,),
    ".tsv": (text_table,),
    ".txt": (text_table,),
    ".gz": (text_table,),
    ".parquet": (arrow_table,),
    ".feather": (arrow_table,),
    ".arrow": (arrow_table,),
    ".toml": (toml_line,),
}


def damage_format(path: Path, random: Random) -> str:
    """Damage a file as its format allows."""
    ways = BY_SUFFIX.get(path.suffix) or ((pickle_file,) if path.name.startswith("ind.") else ())
    if not ways:
        return damage_bytes(path, random)
    before = path.read_bytes()
    try:
        return str(pick(random, ways)(path, random))
    except Exception:  # noqa: BLE001 - damage that cannot be done is no case
        path.write_bytes(before)
        return damage_bytes(path, random)
