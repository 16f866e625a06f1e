"""Products of matrices by the tensor cores: four warps multiply matrices in shared memory into an accumulator in their registers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import dtypes
from pellucid._machine.ir import shaped_array
from pellucid._machine.xla.mosaic_gpu import VectorType, arith, ir, llvm, nvvm, vector
from pellucid.kernels.gpu.fences import product_wait_p
from pellucid.kernels.gpu.products import accumulator_load_p, wgmma_p

from .layouts import Accumulator, Fragment
from .lowering import Lowering, SwizzleNeeded, int64, rule
from .memory import Memory, check_part_of_matrix
from .swizzles import Swizzle, fitting_swizzle
from .tma import part_base
from .views import parts_of

_ROWS = 64
"""Rows of one instruction."""
_MAX_COLUMNS = 256
_MODES = {128: 1, 64: 2, 32: 3}
"""By bytes of a row of a panel the number of its swizzle."""


class Operands(NamedTuple):
    """What an instruction takes: the name of the dtype of both matrices, those of accumulators, products of each element, whether columns may be rows."""

    name: str
    accumulators: tuple[str, ...]
    depth: int
    may_transpose: bool


TF32 = Operands("tf32", ("float32",), 8, False)
"""Products of float32 of which 10 bits of the mantissa count, for those who ask for it."""
OPERANDS = {
    "bfloat16": Operands("bf16", ("float32",), 16, True),
    "float16": Operands("f16", ("float32", "float16"), 16, True),
    "float8_e4m3fn": Operands("e4m3", ("float32", "float16"), 32, False),
    "float8_e5m2": Operands("e5m2", ("float32", "float16"), 32, False),
    "int8": Operands("s8", ("int32",), 32, False),
    "uint8": Operands("u8", ("int32",), 32, False),
}
"""By dtype of the matrices."""
_BUILT = ("float32", "int32")
"""Accumulators whose registers hold one element each."""


class Registers(NamedTuple):
    """A reference to an accumulator: `pointer` is to a vector of a thread's own, which the compiler keeps in registers."""

    pointer: ir.Value
    layout: Accumulator
    dtype: np.dtype

    def kind(self, ctx: Lowering) -> ir.Type:
        """The type of what a thread holds."""
        return VectorType.get([self.layout.registers], ctx.element(self.dtype))

    def read(self, ctx: Lowering) -> Fragment:
        """What it holds."""
        return Fragment(llvm.load(self.kind(ctx), self.pointer), self.layout)

    def get(self, ctx: Lowering, equation: Any) -> Any:
        """All of it, when no product is in flight."""
        if not equation.params.index.is_full:
            raise ctx.unsupported(
                "an accumulator is read as a whole.",
                do="Read `acc[...]`, and take the part of that.",
            )
        return read_accumulator(ctx, self)

    def write(self, ctx: Lowering, x: ir.Value) -> None:
        """Let it hold what a thread has."""
        llvm.store(x, self.pointer)


def new_accumulator(ctx: Lowering, kind: Any, value: Any = None) -> Registers:
    """An accumulator of the type `kind`, which begins as a block, or at 0."""
    dtype, layout = np.dtype(kind.dtype), Accumulator(tuple(kind.shape))
    if dtype.name not in _BUILT:
        raise ctx.unsupported(
            f"accumulators are of {' and '.join(_BUILT)}.", f"ACC({kind.shape}, {dtype})"
        )
    ctx.check_size(layout.shape)
    size = math.prod(layout.shape) * dtype.itemsize
    ctx.note_memory("registers", shaped_array(layout.shape, dtype).text(), size, size)
    found = Registers(
        ctx.own(VectorType.get([layout.registers], ctx.element(dtype))), layout, dtype
    )
    x = ctx.zeros_like(layout, dtype) if value is None else ctx.changed(value, layout)
    found.write(ctx, settled(ctx, x.value))
    return found


def settled(ctx: Lowering, x: ir.Value) -> ir.Value:
    """A vector whose elements are computed before what follows: the compiler moves no arithmetic over fences of products."""
    return _through_assembly(ctx, x, "", [], "")


def _through_assembly(
    ctx: Lowering, x: ir.Value, text: str, inputs: Sequence[ir.Value], constraints: str
) -> ir.Value:
    """A vector after instructions that read and write its elements, as registers $0 on, and read `inputs`."""
    kind = VectorType(x.type)
    n, element = kind.shape[0], kind.element_type
    parts = [vector.extract(x, dynamic_position=[], static_position=[i]) for i in range(n)]
    letter = "f" if element == ir.F32Type.get() else "r"
    names = [*[f"={letter}"] * n, *map(str, range(n)), *([constraints] if constraints else [])]
    result = element
    if n > 1:
        result = ir.Type.parse(f"!llvm.struct<({', '.join([str(element)] * n)})>")
    found = llvm.inline_asm(result, [*parts, *inputs], text, ",".join(names), has_side_effects=True)
    if n > 1:
        found = [llvm.extractvalue(element, found, ir.DenseI64ArrayAttr.get([i])) for i in range(n)]
    else:
        found = [found]
    return vector.from_elements(kind, found)


# Matrices in shared memory --------------------------------------------------------------------------------------


class Matrix(NamedTuple):
    """A matrix in shared memory as instructions take it: its address in units of 16 bytes with steps and swizzle, which begins as `descriptor`."""

    descriptor: ir.Value
    swizzle: Swizzle
    is_transposed: bool
    """Whether elements of one column of the left matrix, or of one row of the right one, are neighbours in memory."""

    def at(self, ctx: Lowering, first: int, product: int) -> ir.Value:
        """The descriptor of the part from row (of the right one: column) `first` on, and from product number `product` on."""
        s = self.swizzle
        row, column = (product, first) if self.is_transposed else (first, product)
        panel, within = divmod(column * s.itemsize, s.span)
        offset = panel * s.panel_bytes + row * s.span + within
        return _plus(self.descriptor, offset // 16)


def _plus(x: ir.Value, n: int) -> ir.Value:
    return x if n == 0 else arith.addi(x, int64(n))


def matrix_of(ctx: Lowering, ref: Any, is_left: bool) -> Matrix:
    """A matrix for instructions. Raises: UnsupportedError for one that doesn't lie as they take it, with transforms that fit."""
    side = "left" if is_left else "right"
    if isinstance(ref, Memory) and ref.swizzle is None and ref.origin is not None:
        shape = ref.shape if ref.is_in_shared_memory else tuple([ref.sizes[i] for i in ref.kept])
        if ref.origin not in ctx.chosen and fitting_swizzle(shape, ref.dtype) is not None:
            raise SwizzleNeeded(ref.origin)
    if not isinstance(ref, Memory) or not ref.is_in_shared_memory or len(ref.kept) != 2:
        raise ctx.unsupported(f"the {side} matrix of a product is one in shared memory.")
    n = len(ref.shape)
    matrix = ref.swizzle
    if matrix is None or matrix.span not in _MODES:
        raise ctx.unsupported(
            f"the {side} matrix of a product lies in shared memory in panels that are swizzled.",
            f"{dtypes.short_name(ref.dtype)}{list(ref.shape)} without a swizzle",
            "Give it a multiple of 8 rows and of 32 bytes of columns, in all of 1024 bytes.",
        )
    if sorted(ref.kept) != [n - 2, n - 1]:
        raise ctx.unsupported(
            f"the {side} matrix of a product has the last two dimensions of scratch.",
            f"sizes {list(ref.sizes)} of scratch of shape {list(ref.shape)}",
            "Give it a scratch of its own, or a leading dimension of one.",
        )
    check_part_of_matrix(ctx, ref)
    is_reversed = ref.kept == (n - 1, n - 2)
    # Products run along rows in memory for the left matrix as it is, and for the right one transposed.
    is_transposed = is_reversed if is_left else not is_reversed
    known = OPERANDS[np.dtype(ref.dtype).name]
    if is_transposed and not known.may_transpose:
        raise ctx.unsupported(
            f"products of {dtypes.short_name(ref.dtype)} are along rows in memory.",
            f"the {side} matrix, scratch of shape {list(ref.shape)}",
            "Store the right matrix transposed, (columns, products), and pass `mosaic_gpu.transpose_ref(b_ref, (1, 0))`."
            if not is_left
            else "Store it as (rows, products).",
        )
    return matrix_at(part_base(ctx, ref), matrix, is_transposed)


def matrix_at(base: ir.Value, matrix: Swizzle, is_transposed: bool) -> Matrix:
    """A matrix whose first element `base` points to."""
    address = llvm.ptrtoint(ir.IntegerType.get_signless(64), base)
    units = arith.shrui(arith.andi(address, int64((1 << 18) - 1)), int64(4))
    leading = matrix.panel_bytes if is_transposed else 0
    fields = (leading >> 4) << 16 | (8 * matrix.span >> 4) << 32 | _MODES[matrix.span] << 62
    return Matrix(arith.ori(units, int64(fields)), matrix, is_transposed)


# Primitives ---------------------------------------------------------------------------------------------------


@rule(wgmma_p)
def _wgmma(ctx: Lowering, equation, operands):
    (acc, left, right), others = parts_of(ctx, equation, operands)
    if not isinstance(acc, Registers):
        raise ctx.unsupported("products go to an accumulator, `ACC`.")
    dtype = np.dtype(right.dtype)
    known = OPERANDS.get(dtype.name)
    if known is None or acc.dtype.name not in known.accumulators:
        raise ctx.unsupported(
            f"there are no products of {dtypes.short_name(dtype)} in accumulators of {acc.dtype.name}.",
            do="Multiply bfloat16 or float16: float32 would be rounded to 10 bits of its mantissa, which `jnp.dot(a, b, precision=lax.DotAlgorithmPreset.TF32_TF32_F32)` asks for."
            if dtype == np.float32
            else None,
        )
    rows, columns = acc.layout.shape
    second = matrix_of(ctx, right, False)
    depth = right.sizes[right.kept[0]]
    _check_sizes(ctx, rows, columns, depth, known, dtype)
    first = None if left is None else matrix_of(ctx, left, True)
    pieces = None if left is not None else words_of(ctx, others[0], (rows, depth), dtype)
    if ctx.writes_shared_memory:
        ctx.meet_once()  # threads have written what all warps multiply
    multiply(ctx, acc, first, pieces, second, depth, known)
    return []


def multiply(
    ctx: Lowering, acc: Registers, first: Matrix | None, pieces: list[ir.Value] | None, second: Matrix, depth: int,
    known: Operands,
) -> None:  # fmt: skip
    """Start adding a product to an accumulator: of a matrix in shared memory, or of `pieces` in registers, with one in shared memory."""
    rows, columns = acc.layout.shape
    value = acc.read(ctx).value
    nvvm.wgmma_fence_aligned()
    n_rows, own = rows // _ROWS, columns // 2
    found = []
    for tile in range(n_rows):
        part = value
        if n_rows > 1:
            part = _slice(value, tile * own, own)
        for k in range(0, depth, known.depth):
            b = second.at(ctx, 0, k)
            transposes = [second.is_transposed] if known.may_transpose else []
            if first is not None:
                a = [first.at(ctx, tile * _ROWS, k)]
                transposes = [first.is_transposed, *transposes] if known.may_transpose else []
            else:
                number = (tile * (depth // known.depth) + k // known.depth) * 4
                a = pieces[number : number + 4]  # pyright: ignore[reportOptionalSubscript]
            part = _instruction(ctx, part, known, acc, columns, a, b, transposes)
        found.append(part)
    nvvm.wgmma_commit_group_sync_aligned()
    acc.write(ctx, found[0] if n_rows == 1 else _concatenated(found))


def fits(rows: int, columns: int, depth: int, known: Operands, dtype: np.dtype) -> bool:
    """Whether instructions multiply matrices of (rows, depth) and (depth, columns)."""
    is_possible = columns % _step(columns, dtype) == 0 and 0 < columns <= _MAX_COLUMNS
    return is_possible and rows % _ROWS == 0 and depth % known.depth == 0


def _step(columns: int, dtype: np.dtype) -> int:
    """Of which number of columns an instruction has a multiple."""
    return 8 if dtype.kind not in "iu" or columns <= 24 else 16


def _check_sizes(
    ctx: Lowering, rows: int, columns: int, depth: int, known: Operands, dtype: np.dtype
) -> None:
    """Raise UnsupportedError for sizes that no instruction has."""
    step = _step(columns, dtype)
    if fits(rows, columns, depth, known, dtype):
        return
    raise ctx.unsupported(
        f"products have a multiple of {_ROWS} rows, of {step} columns up to {_MAX_COLUMNS}, and sums over a multiple of {known.depth}.",
        f"{rows} rows, {columns} columns, sums over {depth}, of {dtypes.short_name(dtype)}",
        f"{-(-rows // _ROWS) * _ROWS} rows, {min(-(-columns // step) * step, _MAX_COLUMNS)} columns and sums over {-(-depth // known.depth) * known.depth} fit.",
    )


def _slice(x: ir.Value, start: int, size: int) -> ir.Value:
    kind = VectorType.get([size], VectorType(x.type).element_type)
    return vector.extract_strided_slice(kind, x, [start], [size], [1])


def _concatenated(parts: Sequence[ir.Value]) -> ir.Value:
    """Vectors one behind the other."""
    kind = VectorType(parts[0].type)
    size = kind.shape[0]
    elements = [
        vector.extract(x, dynamic_position=[], static_position=[i])
        for x in parts
        for i in range(size)
    ]
    return vector.from_elements(VectorType.get([len(elements)], kind.element_type), elements)


def words_of(ctx: Lowering, x: Any, shape: tuple[int, int], dtype: np.dtype) -> list[ir.Value]:
    """The left matrix in registers, two elements in each, four registers for each instruction."""
    if np.dtype(dtype).itemsize != 2:
        raise ctx.unsupported(
            "a left matrix of 8 bits lies in shared memory.", f"{dtypes.short_name(dtype)}"
        )
    parts = ctx.parts(ctx.changed(x, Accumulator(shape)))
    int32 = ctx.element(np.int32)
    kind = VectorType.get([2], parts[0].type)
    pairs = [vector.from_elements(kind, parts[i : i + 2]) for i in range(0, len(parts), 2)]
    return [llvm.bitcast(int32, pair) for pair in pairs]


def _instruction(
    ctx: Lowering, value: ir.Value, known: Operands, acc: Registers, columns: int, a: Sequence[ir.Value], b: ir.Value,
    transposes: Sequence[bool],
) -> ir.Value:  # fmt: skip
    """An accumulator's vector after one instruction has been issued."""
    n = columns // 2
    sums = ", ".join([f"${i}" for i in range(n)])
    # Numbers of operands: results, the same as inputs, then the matrices and whether there was something before.
    places = [f"${2 * n + i}" for i in range(len(a) + 2)]
    left = places[0] if len(a) == 1 else "{" + ", ".join(places[:4]) + "}"
    right, adds = places[len(a)], places[len(a) + 1]
    is_float = acc.dtype.kind == "f"
    result = "f32" if is_float else "s32"
    flags = ["p", *(["1", "1"] if is_float else []), *[str(int(t)) for t in transposes]]
    text = (
        f"{{ .reg .pred p; setp.ne.b32 p, {adds}, 0; wgmma.mma_async.sync.aligned.m64n{columns}k{known.depth}.{result}.{known.name}.{known.name} "
        f"{{{sums}}}, {left}, {right}, {', '.join(flags)}; }}"
    )
    letters = ["l"] if len(a) == 1 else ["r"] * 4
    constraints = ",".join([*letters, "l", "r"])
    return _through_assembly(ctx, value, text, [*a, b, ctx.int32(1)], constraints)


@rule(product_wait_p)
def _wait(ctx: Lowering, equation, operands):
    nvvm.wgmma_wait_group_sync_aligned(equation.params.n)
    return []


@rule(accumulator_load_p)
def _load(ctx: Lowering, equation, operands):
    [acc], _ = parts_of(ctx, equation, operands)
    return [read_accumulator(ctx, acc, equation.params.wait_n)]


def read_accumulator(ctx: Lowering, acc: Registers, n: int | None = 0) -> Fragment:
    """What an accumulator holds, when at most `n` products are in flight; None if all may be."""
    if n is not None:
        nvvm.wgmma_wait_group_sync_aligned(n)
    # Its elements are used only behind the wait.
    return Fragment(settled(ctx, acc.read(ctx).value), acc.layout)
