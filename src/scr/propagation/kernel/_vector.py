"""One row of a sparse-dense product as LLVM vector code, which plain numba loops do not become.

    out = row_scale * (sum_e weight_e * x[j_e] + own * x[row])

Two things make it fast. The columns of a block stay in vector registers for the whole sum, and
the rows of x that will be needed some edges later are prefetched: their addresses look random to
the processor, yet the index array tells them long before.

A block of columns is `vectors` vectors of `lanes` lanes each. The last one may overlap the one
before, so that any width from `lanes` to `lanes * vectors` works without a scalar remainder;
overlapping columns are computed twice, alike, and written twice.

The vectors are wider than some processors' registers; LLVM then splits them. float16 is handled
as its bits in uint16, converted by instructions where there are any and by integer arithmetic
elsewhere, so every processor that numba knows can run this.

All code that ends up compiled is in this file, because numba takes compiled code from its cache
on disk until this very file changes.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic

from scr.compute import compiled

CACHE_LINE = 64
PREFETCH_LINES = 512
"""Cache lines between a prefetch and its use: enough to hide the memory, few enough to stay.

They go to the second level of the cache, which holds 512 lines with ease and may wait for several
times as many lines at once as the first. Measured with 128 columns on 2 cores: 1.3 times as fast
as 64 lines ahead into the first level; 256 and 1024 lines are slower again."""
PREFETCH_EDGES = (12, 256)
"""Fewest and most edges between a prefetch and its use."""
FIRST_LEVEL, SECOND_LEVEL = 3, 2
"""Of the cache, as `llvm.prefetch` counts."""
ROWS_AHEAD, SUMS_AHEAD = 64, 16
"""Edges between a prefetch and its use in `add_rows`, of neighbors' rows and of sums."""
LANES = 16
SHAPES = (*((LANES, vectors) for vectors in range(1, 9)), (8, 2), (4, 2), (2, 2), (1, 1))
"""Blocks of columns as (lanes, vectors); eight vectors of 16 fill eight registers of AVX-512."""
HALF_LIMIT_BITS = 0x477FF000
"""65520, the smallest float32 that rounds to infinity in float16, as its bits."""

_I16, _I32, _I64, _F32 = ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType()


def has_half_instructions() -> bool:
    """Whether the processor that numba compiles for converts float16 itself."""
    if platform.machine().lower() in ("aarch64", "arm64"):
        return True
    if config.CPU_NAME is not None or config.CPU_FEATURES is not None:
        return "+f16c" in (config.CPU_FEATURES or "")
    return bool(binding.get_host_cpu_features().get("f16c", False))


def compiled_loop(function: Callable[..., int]) -> Callable[..., int]:
    """`compiled`, for loops over raw arrays whose arguments have no types."""
    return compiled(function)


@compiled_loop
def sum_rows(  # type: ignore[no-untyped-def]
    bounds, offset, first, last, indices, weights, x, pitch, column, shape, overlap, self_loops,
    row_scale, out, out_pitch,
):  # fmt: skip
    """Rows `first` to `last` (exclusive) of a product, for one block of columns.

    Row i has the edges bounds[i] to bounds[i + 1]; `indices` and `weights` (or none) may be a part
    of all edges, of which the first one's number is `offset`. x and `out` are dense matrices as one
    flat array, float32 or the bits of float16, with a pitch of so many elements from one row to the
    next. The block begins with `column`; `shape` is a place in `SHAPES`, and `overlap` the offset
    of its last vector from its first column. With `self_loops`, x[row] itself is added; an empty
    `row_scale` stands for factors of 1. Returns how many rows overflowed float16.
    """
    overflows = 0
    for row in range(first, last):
        own = np.float32(1.0) if self_loops else np.float32(0.0)
        scale = row_scale[row] if row_scale.size > 0 else np.float32(1.0)
        overflows += _row_product(
            shape, bounds[row] - offset, bounds[row + 1] - offset, indices, weights, x, pitch,
            column, overlap, row, own, scale, out, row * out_pitch + column,
        )  # fmt: skip
    return overflows


@intrinsic
def _row_product(  # type: ignore[no-untyped-def]
    typingctx, shape, start, stop, indices, weights, x, pitch, column, overlap, row, own, scale,
    out, target,
):  # fmt: skip
    """One row of one block, by the code for the block's shape; 1 if it overflowed, else 0."""
    i64, f32 = types.int64, types.float32
    signature = i64(
        i64, i64, i64, indices, weights, x, i64, i64, i64, i64, f32, f32, out, i64
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        result = cgutils.alloca_once_value(builder, _I64(0))
        # How many registers hold the sums must be known when compiling, so each shape has its code.
        for number, (lanes, vectors) in enumerate(SHAPES):
            with builder.if_then(builder.icmp_signed("==", arguments[0], _I64(number))):
                code = _RowProduct(context, builder, signature.args, arguments, lanes, vectors)
                builder.store(code.emit(), result)
        return builder.load(result)

    return signature, generate


@compiled_loop
def add_rows(  # type: ignore[no-untyped-def]
    neighbors, rows, count, x, pitch, column, vectors, sums, sums_pitch
):  # fmt: skip
    """Add rows of x to sums in memory, edge after edge: sums[rows[e]] += x[neighbors[e]].

    Of x, which is as for `sum_rows`, 1 or 2 vectors of `LANES` columns are added, from `column` on.
    The sums are float32, one flat array with `sums_pitch` elements from one row to the next.
    """
    for edge in range(count):
        far, near = min(edge + ROWS_AHEAD, count - 1), min(edge + SUMS_AHEAD, count - 1)
        _add_row(
            vectors, x, neighbors[far] * pitch + column, neighbors[edge] * pitch + column, sums,
            rows[near] * sums_pitch, rows[edge] * sums_pitch,
        )  # fmt: skip
    return 0


@intrinsic
def _add_row(typingctx, vectors, x, ahead, source, sums, near, target):  # type: ignore[no-untyped-def]
    """Add one row, by the code for its number of vectors, and prefetch for later ones."""
    i64 = types.int64
    signature = types.void(i64, x, i64, i64, sums, i64, i64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        for count in (1, 2):
            with builder.if_then(builder.icmp_signed("==", arguments[0], _I64(count))):
                _RowAddition(context, builder, signature.args, arguments).emit(count)
        return context.get_dummy_value()

    return signature, generate


class _Vectors:
    """Emits loads, stores and prefetches of vectors, with float16 as its bits."""

    x: Any
    """What is loaded, as numba's array."""
    x_half: bool
    out: Any
    """Where results are stored."""
    out_half: bool

    def __init__(self, builder: Any, lanes: int) -> None:
        self.builder, self.lanes = builder, lanes
        self.vector = ir.VectorType(_F32, lanes)
        self.hardware_half = has_half_instructions()

    def _prefetch_line(self, array: Any, element: Any, level: int) -> None:
        """Ask for the cache line of an array's element."""
        function = cgutils.get_or_insert_function(
            self.builder.module,
            ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer(), _I32, _I32, _I32]),
            "llvm.prefetch.p0",
        )
        pointer = self._pointer(array, element, ir.IntType(8))
        self.builder.call(function, [pointer, _I32(0), _I32(level), _I32(1)])

    def _pointer(self, array: Any, element: Any, kind: Any | None = None) -> Any:
        """Address of an array's element, as that of a value of type `kind`."""
        pointer = self.builder.gep(array.data, [element])
        return pointer if kind is None else self.builder.bitcast(pointer, kind.as_pointer())

    def _spread(self, value: Any) -> Any:
        """The same number in every lane."""
        undefined = ir.Constant(self.vector, ir.Undefined)
        single = self.builder.insert_element(undefined, value, _I32(0))
        zeros = ir.Constant(ir.VectorType(_I32, self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(single, undefined, zeros)

    def _load(self, element: Any) -> Any:
        if not self.x_half:
            return self.builder.load(self._pointer(self.x, element, self.vector), align=4)
        pointer = self._pointer(self.x, element, ir.VectorType(_I16, self.lanes))
        bits = self.builder.load(pointer, align=2)
        if self.hardware_half:
            halves = self.builder.bitcast(bits, ir.VectorType(ir.HalfType(), self.lanes))
            return self.builder.fpext(halves, self.vector)
        return self._widen(bits)

    def _store(self, element: Any, value: Any) -> None:
        if not self.out_half:
            self.builder.store(value, self._pointer(self.out, element, self.vector), align=4)
            return
        if self.hardware_half:
            halves = self.builder.fptrunc(value, ir.VectorType(ir.HalfType(), self.lanes))
            bits = self.builder.bitcast(halves, ir.VectorType(_I16, self.lanes))
        else:
            bits = self._narrow(value)
        self.builder.store(bits, self._pointer(self.out, element, bits.type), align=2)

    def _overflows(self, value: Any) -> Any:
        """1 if a lane does not fit float16 (or is not a number), else 0."""
        bits = self.builder.bitcast(value, ir.VectorType(_I32, self.lanes))
        sizes = self.builder.and_(bits, self._integers(0x7FFFFFFF))
        beyond = self.builder.icmp_unsigned(">=", sizes, self._integers(HALF_LIMIT_BITS))
        mask = self.builder.bitcast(beyond, ir.IntType(self.lanes))
        return self.builder.zext(
            self.builder.icmp_unsigned("!=", mask, ir.IntType(self.lanes)(0)), _I64
        )

    def _integers(self, number: int) -> Any:
        return ir.Constant(ir.VectorType(_I32, self.lanes), [number] * self.lanes)

    def _widen(self, bits: Any) -> Any:
        """float16 bits to float32 without instructions for it; subnormals included.

        The exponent is moved into place by a shift and corrected by 127 - 15 = 112 with a product.
        """
        builder, integers = self.builder, ir.VectorType(_I32, self.lanes)
        wide = builder.zext(bits, integers)
        sign = builder.shl(builder.and_(wide, self._integers(0x8000)), self._integers(16))
        rest = builder.shl(builder.and_(wide, self._integers(0x7FFF)), self._integers(13))
        correction = ir.Constant(self.vector, [2.0**112] * self.lanes)
        size = builder.fmul(builder.bitcast(rest, self.vector), correction)
        return builder.bitcast(builder.or_(builder.bitcast(size, integers), sign), self.vector)

    def _narrow(self, value: Any) -> Any:
        """float32 to float16 bits, rounded to nearest even, without instructions for it."""
        builder, integers = self.builder, ir.VectorType(_I32, self.lanes)
        bits = builder.bitcast(value, integers)
        sign = builder.and_(bits, self._integers(0x80000000))
        size = builder.xor(bits, sign)
        odd = builder.and_(builder.lshr(size, self._integers(13)), self._integers(1))
        # Exponent from bias 127 to 15, plus just under half of the last place kept.
        moved = builder.add(size, self._integers(((15 - 127) << 23) + 0xFFF & 0xFFFFFFFF))
        normal = builder.lshr(builder.add(moved, odd), self._integers(13))
        # Adding 0.5 makes the processor round a subnormal result at the right place.
        half = ir.Constant(self.vector, [0.5] * self.lanes)
        shifted = builder.bitcast(builder.fadd(builder.bitcast(size, self.vector), half), integers)
        small = builder.sub(shifted, self._integers(126 << 23))
        is_small = builder.icmp_unsigned("<", size, self._integers(113 << 23))
        is_large = builder.icmp_unsigned(">=", size, self._integers(143 << 23))
        result = builder.select(is_small, small, normal)
        result = builder.select(is_large, self._integers(0x7C00), result)
        result = builder.or_(result, builder.lshr(sign, self._integers(16)))
        return builder.trunc(result, ir.VectorType(_I16, self.lanes))


class _RowProduct(_Vectors):
    """Emits the code of one row's product for given types and block shape."""

    def __init__(
        self, context: Any, builder: Any, kinds: Any, values: Any, lanes: int, vectors: int
    ) -> None:
        super().__init__(builder, lanes)
        self.vectors = vectors
        (_, self.start, self.stop, indices, weights, x, self.pitch, self.column, self.overlap,
         self.row, self.own, self.row_scale, out, self.target) = values  # fmt: skip
        _, _, _, indices_kind, weights_kind, x_kind, *_, out_kind, _ = kinds

        def array(kind: Any, value: Any) -> Any:
            return None if kind == types.none else context.make_array(kind)(context, builder, value)

        self.indices, self.x = array(indices_kind, indices), array(x_kind, x)
        self.weights, self.out = array(weights_kind, weights), array(out_kind, out)
        self.index_type = context.get_data_type(indices_kind.dtype)
        self.x_half, self.out_half = x_kind.dtype == types.uint16, out_kind.dtype == types.uint16
        self.block_lines = -(-lanes * vectors * (2 if self.x_half else 4) // CACHE_LINE)

    def emit(self) -> Any:
        builder = self.builder
        sums = [cgutils.alloca_once(builder, self.vector) for _ in range(self.vectors)]
        for total in sums:
            builder.store(ir.Constant(self.vector, [0.0] * self.lanes), total)
        fewest, most = PREFETCH_EDGES
        distance = min(max(PREFETCH_LINES // self.block_lines, fewest), most)
        last = builder.sub(self.indices.nitems, _I64(1))
        with cgutils.for_range_slice(builder, self.start, self.stop, _I64(1)) as (edge, _):
            ahead = builder.add(edge, _I64(distance))
            inside = builder.icmp_signed("<", ahead, last)
            self._prefetch(self._neighbor(builder.select(inside, ahead, last)))
            neighbor, factor = self._neighbor(edge), None
            if self.weights is not None:
                factor = builder.load(self._pointer(self.weights, edge))
            self._add(sums, neighbor, factor)
        with builder.if_then(builder.fcmp_unordered("!=", self.own, _F32(0.0))):
            self._add(sums, self.row, self.own)
        overflow: Any = _I64(0)
        for offset, total in zip(self._offsets(), sums, strict=True):
            value = builder.fmul(builder.load(total), self._spread(self.row_scale))
            self._store(builder.add(self.target, offset), value)
            if self.out_half:
                overflow = builder.or_(overflow, self._overflows(value))
        return overflow

    def _offsets(self) -> list[Any]:
        """Where each vector starts within the block."""
        return [_I64(k * self.lanes) for k in range(self.vectors - 1)] + [self.overlap]

    def _neighbor(self, edge: Any) -> Any:
        value = self.builder.load(self._pointer(self.indices, edge))
        return self.builder.sext(value, _I64) if self.index_type.width < 64 else value

    def _block(self, row: Any) -> Any:
        """Element of x where a row's block starts."""
        return self.builder.add(self.builder.mul(row, self.pitch), self.column)

    def _prefetch(self, row: Any) -> None:
        start = self._block(row)
        per_line = max(CACHE_LINE // (self.lanes * (2 if self.x_half else 4)), 1)
        offsets = self._offsets()
        for offset in {id(o): o for o in [*offsets[::per_line], offsets[-1]]}.values():
            self._prefetch_line(self.x, self.builder.add(start, offset), SECOND_LEVEL)

    def _add(self, sums: list[Any], row: Any, factor: Any) -> None:
        start, builder = self._block(row), self.builder
        spread = None if factor is None else self._spread(factor)
        for offset, total in zip(self._offsets(), sums, strict=True):
            value = self._load(builder.add(start, offset))
            if spread is not None:
                value = builder.fmul(value, spread, flags=("contract",))
            before = builder.load(total)
            builder.store(builder.fadd(before, value, flags=("contract",)), total)


class _RowAddition(_Vectors):
    """Emits the code that adds one row to sums in memory."""

    def __init__(self, context: Any, builder: Any, kinds: Any, values: Any) -> None:
        super().__init__(builder, LANES)
        _, x, self.ahead, self.source, sums, self.near, self.target = values
        self.x = context.make_array(kinds[1])(context, builder, x)
        self.out = context.make_array(kinds[4])(context, builder, sums)
        self.x_half, self.out_half = kinds[1].dtype == types.uint16, False

    def emit(self, vectors: int) -> None:
        builder, per_line = self.builder, CACHE_LINE // (2 if self.x_half else 4)
        for element in range(0, vectors * self.lanes, per_line):
            self._prefetch_line(self.x, builder.add(self.ahead, _I64(element)), SECOND_LEVEL)
        for offset in (_I64(number * self.lanes) for number in range(vectors)):
            self._prefetch_line(self.out, builder.add(self.near, offset), FIRST_LEVEL)
            place = builder.add(self.target, offset)
            before = builder.load(self._pointer(self.out, place, self.vector), align=4)
            value = self._load(builder.add(self.source, offset))
            self._store(place, builder.fadd(before, value))
