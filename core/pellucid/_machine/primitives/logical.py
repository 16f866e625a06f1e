"""Comparison, choice, and operations on bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArrayLike,
    DtypeError,
    Function,
    Shape,
    ShapeError,
)
from pellucid._machine.ir import (
    ARITHMETIC,
    CHEAP_ARITHMETIC,
    BatchAxis,
    BatchDim,
    Operands,
    element_shape,
    is_linear,
    physical,
    pointwise,
    shaped_array,
)
from pellucid._machine.lowering.faults import CLAMP_OF_BOOLEANS, SIGNED_LEADING_ZEROS
from pellucid._machine.tracing import bind, bind1, type_of
from pellucid._machine.xla import Array

from .conversion import imag, real
from .creation import zeros
from .families import (
    ANY,
    ANY_OR_KEY,
    BOOL,
    FLOATING,
    INTEGER,
    REAL,
    Elementwise,
    boolean,
    constant_like,
    kind_of,
    texts,
)
from .linear import JointlyLinear
from .movement import aligned_at, broadcast_in_dim, broadcast_to, brought_to

# Comparison ---------------------------------------------------------------------------------------


def eq(x: ArrayLike, y: ArrayLike) -> Array:
    """Whether `x == y`, element by element; NaN equals nothing.

    Takes elements of any dtype, the same for both; the result has dtype bool. Shapes are equal, up to scalars and
    dimensions of size 1, and broadcast to the shape of the result.
    Raises: DtypeError for different dtypes, ShapeError for shapes that do not fit, ArgumentTypeError for lists and
    strings.
    Source: StableHLO specification, `compare`.

    >>> eq(np.int32(1), np.int32(1))
    Array(True, dtype=bool)
    """
    return bind1(eq_p, x, y)


def ne(x: ArrayLike, y: ArrayLike) -> Array:
    """Whether `x != y`, element by element; NaN differs from everything.

    Takes elements of any dtype, the same for both; the result has dtype bool. Shapes are equal, up to scalars and
    dimensions of size 1, and broadcast to the shape of the result.
    Raises: DtypeError for different dtypes, ShapeError for shapes that do not fit, ArgumentTypeError for lists and
    strings.

    >>> ne(np.int32(1), np.int32(1))
    Array(False, dtype=bool)
    """
    return bind1(ne_p, x, y)


def ge(x: ArrayLike, y: ArrayLike) -> Array:
    """Whether `x >= y`, element by element; False where either is NaN.

    Takes real or bool elements, of one dtype; the result has dtype bool. Shapes are equal, up to scalars and dimensions
    of size 1, and broadcast to the shape of the result.
    Raises: DtypeError for different dtypes and for complex numbers, ShapeError for shapes that do not fit,
    ArgumentTypeError for lists and strings.

    >>> ge(np.int32(1), np.int32(1))
    Array(True, dtype=bool)
    """
    return bind1(ge_p, x, y)


def gt(x: ArrayLike, y: ArrayLike) -> Array:
    """Whether `x > y`, element by element; False where either is NaN.

    Takes real or bool elements, of one dtype; the result has dtype bool. Shapes are equal, up to scalars and dimensions
    of size 1, and broadcast to the shape of the result.
    Raises: DtypeError for different dtypes and for complex numbers, ShapeError for shapes that do not fit,
    ArgumentTypeError for lists and strings.

    >>> gt(np.int32(1), np.int32(1))
    Array(False, dtype=bool)
    """
    return bind1(gt_p, x, y)


def le(x: ArrayLike, y: ArrayLike) -> Array:
    """Whether `x <= y`, element by element; False where either is NaN.

    Takes real or bool elements, of one dtype; the result has dtype bool. Shapes are equal, up to scalars and dimensions
    of size 1, and broadcast to the shape of the result.
    Raises: DtypeError for different dtypes and for complex numbers, ShapeError for shapes that do not fit,
    ArgumentTypeError for lists and strings.

    >>> le(np.int32(1), np.int32(1))
    Array(True, dtype=bool)
    """
    return bind1(le_p, x, y)


def lt(x: ArrayLike, y: ArrayLike) -> Array:
    """Whether `x < y`, element by element; False where either is NaN.

    Takes real or bool elements, of one dtype; the result has dtype bool. Shapes are equal, up to scalars and dimensions
    of size 1, and broadcast to the shape of the result.
    Raises: DtypeError for different dtypes and for complex numbers, ShapeError for shapes that do not fit,
    ArgumentTypeError for lists and strings.

    >>> lt(np.int32(1), np.int32(1))
    Array(False, dtype=bool)
    """
    return bind1(lt_p, x, y)


def _comparison(
    name: str, direction: str, accepts: frozenset[str], *, total_order: bool = False
) -> Elementwise:
    def lower(ctx: Any, operands: Any, params: Any) -> Any:
        result, logical = ctx.avals_out[0], ctx.avals_in[0].update(shape=ctx.avals_out[0].shape)
        aval = physical(logical)
        same = ctx.compare(*operands, direction, aval, total_order=total_order)
        if aval.shape == result.shape:
            return same
        # Keys are equal if all their words are.
        words = range(result.ndim, aval.ndim)
        op, initial = ("stablehlo.and", True) if direction == "EQ" else ("stablehlo.or", False)
        return ctx.reduce(same, ctx.constant(np.bool_(initial)), words, op, result)

    traits = ARITHMETIC if total_order else CHEAP_ARITHMETIC
    return Elementwise(name, traits, accepts, lower, result=boolean, tangents=(None, None))


eq_p = _comparison("eq", "EQ", ANY_OR_KEY)
ne_p = _comparison("ne", "NE", ANY_OR_KEY)
ge_p = _comparison("ge", "GE", REAL | BOOL)
gt_p = _comparison("gt", "GT", REAL | BOOL)
le_p = _comparison("le", "LE", REAL | BOOL)
lt_p = _comparison("lt", "LT", REAL | BOOL)

# In the total order of IEEE 754-2019, section 5.10, -NaN < -inf < -0 < +0 < inf < NaN.
eq_to_p = _comparison("eq_to", "EQ", ANY, total_order=True)
le_to_p = _comparison("le_to", "LE", REAL | BOOL, total_order=True)
lt_to_p = _comparison("lt_to", "LT", REAL | BOOL, total_order=True)


def is_finite(x: ArrayLike) -> Array:
    """Whether `x` is neither infinite nor NaN, element by element.

    Takes floating-point elements; the result has the shape of `x` and dtype bool.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings.
    Source: StableHLO specification, `is_finite`.

    >>> is_finite(np.float32(np.inf))
    Array(False, dtype=bool)
    """
    return bind1(is_finite_p, x)


is_finite_p = Elementwise("is_finite", ARITHMETIC, FLOATING, result=boolean, tangents=(None,))


# Operations on bits -------------------------------------------------------------------------------


def bitwise_and(x: ArrayLike, y: ArrayLike) -> Array:
    """Bits set in both `x` and `y`, element by element; of bools, whether both are True.

    Operands and result have one dtype, integer or bool. Shapes are equal, up to scalars and dimensions of size 1, and
    broadcast to the shape of the result.
    Raises: DtypeError for other or different dtypes, ShapeError for shapes that do not fit, ArgumentTypeError for lists
    and strings.

    >>> bitwise_and(np.int32(6), np.int32(3))
    Array(2, dtype=int32)
    """
    return bind1(and_p, x, y)


def bitwise_or(x: ArrayLike, y: ArrayLike) -> Array:
    """Bits set in `x` or `y`, element by element; of bools, whether either is True.

    Operands and result have one dtype, integer or bool. Shapes are equal, up to scalars and dimensions of size 1, and
    broadcast to the shape of the result.
    Raises: DtypeError for other or different dtypes, ShapeError for shapes that do not fit, ArgumentTypeError for lists
    and strings.

    >>> bitwise_or(np.int32(6), np.int32(3))
    Array(7, dtype=int32)
    """
    return bind1(or_p, x, y)


def bitwise_xor(x: ArrayLike, y: ArrayLike) -> Array:
    """Bits set in just one of `x` and `y`, element by element; of bools, whether they differ.

    Operands and result have one dtype, integer or bool. Shapes are equal, up to scalars and dimensions of size 1, and
    broadcast to the shape of the result.
    Raises: DtypeError for other or different dtypes, ShapeError for shapes that do not fit, ArgumentTypeError for lists
    and strings.

    >>> bitwise_xor(np.int32(6), np.int32(3))
    Array(5, dtype=int32)
    """
    return bind1(xor_p, x, y)


def bitwise_not(x: ArrayLike) -> Array:
    """All bits of `x` inverted, element by element; of bools, the opposite.

    Takes integer or bool elements; the result has the shape and dtype of `x`.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings.

    >>> bitwise_not(np.int32(6))
    Array(-7, dtype=int32)
    """
    return bind1(not_p, x)


and_, or_, xor, not_ = bitwise_and, bitwise_or, bitwise_xor, bitwise_not


def _bitwise(name: str, hlo: str | None = None, *, cheap: bool = True) -> Elementwise:
    traits, accepts = (CHEAP_ARITHMETIC, BOOL | INTEGER) if cheap else (ARITHMETIC, INTEGER)
    return Elementwise(name, traits, accepts, hlo or name)


and_p, or_p, xor_p, not_p = map(_bitwise, ("and", "or", "xor", "not"))


def shift_left(x: ArrayLike, y: ArrayLike) -> Array:
    """`x` with its bits moved left by `y`, element by element; 0 if `y` is negative or too large.

    Operands and result have one dtype, integer. Shapes are equal, up to scalars and dimensions of size 1, and broadcast
    to the shape of the result.
    Raises: DtypeError for other or different dtypes, ShapeError for shapes that do not fit, ArgumentTypeError for lists
    and strings.
    Source: StableHLO specification, `shift_left`.

    >>> shift_left(np.int32(3), np.int32(2))
    Array(12, dtype=int32)
    """
    return bind1(shift_left_p, x, y)


def shift_right_arithmetic(x: ArrayLike, y: ArrayLike) -> Array:
    """`x` with its bits moved right by `y`, copies of the sign bit moving in.

    All bits are copies of the sign bit if `y` is negative or too large.

    Operands and result have one dtype, integer. Shapes are equal, up to scalars and dimensions of size 1, and broadcast
    to the shape of the result.
    Raises: DtypeError for other or different dtypes, ShapeError for shapes that do not fit, ArgumentTypeError for lists
    and strings.
    Source: StableHLO specification, `shift_right_arithmetic`.

    >>> shift_right_arithmetic(np.int32(-8), np.int32(2))
    Array(-2, dtype=int32)
    """
    return bind1(shift_right_arithmetic_p, x, y)


def shift_right_logical(x: ArrayLike, y: ArrayLike) -> Array:
    """`x` with its bits moved right by `y`, zeros moving in; 0 if `y` is negative or too large.

    Operands and result have one dtype, integer. Shapes are equal, up to scalars and dimensions of size 1, and broadcast
    to the shape of the result.
    Raises: DtypeError for other or different dtypes, ShapeError for shapes that do not fit, ArgumentTypeError for lists
    and strings.
    Source: StableHLO specification, `shift_right_logical`.

    >>> shift_right_logical(np.uint8(255), np.uint8(6))
    Array(3, dtype=uint8)
    """
    return bind1(shift_right_logical_p, x, y)


def population_count(x: ArrayLike) -> Array:
    """Number of bits set in `x`, element by element.

    Takes integer elements; the result has the shape and dtype of `x`.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings.
    Source: StableHLO specification, `popcnt`.

    >>> population_count(np.int32(7))
    Array(3, dtype=int32)
    """
    return bind1(population_count_p, x)


def clz(x: ArrayLike) -> Array:
    """Number of zero bits above the highest bit set in `x`, element by element.

    Takes integer elements; the result has the shape and dtype of `x`.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings.
    Source: StableHLO specification, `count_leading_zeros`.

    >>> clz(np.int32(7))
    Array(29, dtype=int32)
    """
    return bind1(clz_p, x)


shift_left_p = _bitwise("shift_left", cheap=False)
shift_right_arithmetic_p = _bitwise("shift_right_arithmetic", cheap=False)
shift_right_logical_p = _bitwise("shift_right_logical", cheap=False)
population_count_p = _bitwise("population_count", "popcnt", cheap=False)


def _lower_clz(ctx, operands: Operands, params):
    [aval] = ctx.avals_in
    if kind_of(aval.dtype) != "signed" or not ctx.has_fault(SIGNED_LEADING_ZEROS):
        return ctx.op1("stablehlo.count_leading_zeros", aval, operands)
    unsigned = aval.update(dtype=np.dtype(f"u{aval.dtype.name}"))
    bits = ctx.op1("stablehlo.bitcast_convert", unsigned, operands)
    count = ctx.op1("stablehlo.count_leading_zeros", unsigned, [bits])
    return ctx.op1("stablehlo.bitcast_convert", aval, [count])


clz_p = Elementwise("clz", ARITHMETIC, INTEGER, _lower_clz)


def compare_lexically(compare: Function, x: Any, y: Any) -> Any:
    """`compare(x, y)`; complex numbers compare by real parts, then by imaginary parts."""
    if type_of(x).dtype.kind != "c":
        return compare(x, y)
    by_real, by_imag = (compare(part(x), part(y)) for part in (real, imag))
    return select_n(eq(real(x), real(y)), by_real, by_imag)


# select_n -----------------------------------------------------------------------------------------


class SelectN(JointlyLinear):
    name = "select_n"
    traits = ARITHMETIC.replace(linear="all", passive=(0,), cheap=True, keys="moved")

    def abstract_eval(self, avals, params):
        which, *cases = avals
        first = cases[0]
        got = [f"which: {which.text()}", *texts("case", cases)]
        if any(a.shape != first.shape for a in cases) or which.shape not in ((), first.shape):
            raise ShapeError(
                "select_n needs cases of one shape, and `which` of that shape or a scalar.",
                got=got,
                do="Broadcast them first, or use `jnp.where` or `jnp.select`.",
            )
        if any(a.dtype != first.dtype for a in cases):
            raise DtypeError(
                "select_n needs cases of one dtype.", got=got,
                do="Convert one with `lax.convert_element_type`, or use `jnp.where`, which promotes.",
            )  # fmt: skip
        if kind_of(which.dtype) not in BOOL | INTEGER:
            raise DtypeError(
                "select_n needs a bool or integer `which`.",
                got=got,
                do="Compare it with something, or use `.astype(bool)`.",
            )
        if which.dtype == np.bool_ and len(cases) > 2:
            raise ArgumentTypeError(
                "select_n can't choose among more than two cases by a bool.",
                got=got,
                do="Pass an int32 `which`.",
            )
        return [shaped_array(first.shape, first.dtype, all(a.weak_type for a in cases))]

    def factors(self, avals, results, params):
        return pointwise(avals, results)

    def operand_cotangents(self, cotangent, operands, params):
        which, *cases = operands
        zero = zeros(type_of(cotangent))
        return [
            None,
            *(
                is_linear(x) and _case_cotangent(which, i, cotangent, zero)
                for i, x in enumerate(cases)
            ),
        ]

    def batch(self, axis, operands, dims, params):
        (which, *cases), (which_dim, *case_dims) = operands, dims
        target = next((d for d in case_dims if d is not None), 0)
        cases = aligned_at(axis, cases, case_dims, target)
        which = _bring_to_shape(axis, which, which_dim, target, type_of(cases[0]).shape)
        return bind(self, which, *cases), [target]

    def lower(self, ctx, operands, params):
        which, *cases = operands
        aval, result = ctx.avals_in[0], ctx.avals_out[0]
        if len(cases) == 1:
            return cases
        if aval.dtype != np.bool_:
            return ctx.from_python(_choose_by_halves, operands)
        if aval.shape != () and element_shape(result):
            mask = shaped_array(physical(result).shape, np.dtype(bool))
            which = ctx.broadcast(which, range(aval.ndim), mask)
        return [ctx.op1("stablehlo.select", result, [which, *cases[::-1]])]


def _choose_by_halves(which, *cases):
    """`select_n` by an integer, as a tree of choices between two."""

    def choose(first: int, values: Operands) -> Any:
        if len(values) == 1:
            return values[0]
        middle = len(values) // 2
        is_below = lt(which, constant_like(which, first + middle))
        halves = choose(first, values[:middle]), choose(first + middle, values[middle:])
        return select(is_below, *halves)

    return choose(0, cases)


select_n_p = SelectN()


def _case_cotangent(which, i: int, cotangent, zero):
    """The cotangent of case `i`: the result's where that case was chosen."""
    if type_of(which).dtype == np.bool_:
        return select_n(which, zero, cotangent) if i else select_n(which, cotangent, zero)
    return select_n(eq(which, constant_like(which, i)), zero, cotangent)


def _bring_to_shape(axis: BatchAxis, x, dim: BatchDim, target: int, shape: Shape):
    """`brought_to` for operands that may be scalars: a batch of scalars is broadcast to `shape`, a single scalar
    stays.
    """
    ndim = type_of(x).ndim
    if dim is None and ndim == 0:
        return x
    if dim is not None and ndim == 1 < len(shape):
        return broadcast_in_dim(x, shape, (target,))
    return brought_to(axis, x, dim, target)


def select_n(which: ArrayLike, *cases: ArrayLike) -> Array:
    """Elements chosen among `cases`, which have one shape and dtype: element `i` of case `which[i]`.

    `which` is a bool (False chooses the first of two cases) or an integer array, of the cases' shape or a
    scalar. What an integer outside the range of cases chooses is not defined.

    Raises: ShapeError for shapes that differ, DtypeError for different dtypes and for a floating `which`,
    ArgumentTypeError for a bool `which` with more than two cases, and for lists and strings.

    >>> select_n(np.array([0, 2]), *np.array([[1, 2], [3, 4], [5, 6]]))
    Array([1, 6], dtype=int32)
    """
    if not cases:
        raise ArgumentTypeError(
            "select_n needs at least one case.", do="Pass the arrays to choose from."
        )
    return bind1(select_n_p, which, *cases)


def select(pred: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Array:
    """Elements of `on_true` where `pred` is True, of `on_false` elsewhere.

    `pred` is bool and has the shape of the cases or none; these have one shape and dtype, which are those of the
    result.
    Raises: ShapeError for shapes that differ, DtypeError for different dtypes and for a floating `pred`,
    ArgumentTypeError for lists and strings.
    Source: StableHLO specification, `select`.

    >>> select(np.array([True, False]), np.array([1, 2]), np.array([3, 4]))
    Array([1, 4], dtype=int32)
    """
    return select_n(pred, on_false, on_true)


# clamp --------------------------------------------------------------------------------------------


def clamp(min: ArrayLike, x: ArrayLike, max: ArrayLike) -> Array:
    """`x` moved into the interval from `min` to `max`, element by element; the bounds may be scalars.

    Where `min > max`, the result is `max`. Source: StableHLO specification, `clamp`.

    All three have one dtype, the result that of `x` and its shape; bounds have that shape, too, or none.
    Raises: DtypeError for different dtypes, ShapeError for bounds of other shapes, ArgumentTypeError for lists and
    strings.

    >>> clamp(np.int32(0), np.array([-1, 1, 5]), np.int32(3))
    Array([0, 1, 3], dtype=int32)
    """
    return bind1(clamp_p, min, x, max)


class Clamp(Elementwise):
    """The reference's `clamp`: the bounds fit the operand, which decides the shape."""

    def _shape(self, avals):
        low, x, high = avals
        if low.shape not in ((), x.shape) or high.shape not in ((), x.shape):
            raise ShapeError(
                "clamp needs bounds that are scalars or have the operand's shape.",
                got=[f"min: {low.text()}", f"operand: {x.text()}", f"max: {high.text()}"],
                do="Broadcast them first, or use `jnp.clip`.",
            )
        return x.shape

    def batch(self, axis, operands, dims, params):
        (low, x, high), (low_dim, dim, high_dim) = operands, dims
        target = dim or 0
        x = brought_to(axis, x, dim, target)
        low, high = (
            _bring_to_shape(axis, bound, d, target, type_of(x).shape)
            for bound, d in ((low, low_dim), (high, high_dim))
        )
        return bind(self, low, x, high), [target]


def _where(condition, t, x):
    """The tangent `t`, of `x`'s shape or a scalar, where `condition`; else zero."""
    t = broadcast_to(t, type_of(x).shape)
    return select(condition, t, zeros(type_of(t)))


def _lower_clamp(ctx, operands: Operands, params):
    [result] = ctx.avals_out
    if kind_of(result.dtype) != "bool" or not ctx.has_fault(CLAMP_OF_BOOLEANS):
        return ctx.op1("stablehlo.clamp", result, operands)
    low, x, high = operands
    return ctx.op1("stablehlo.and", result, [ctx.op1("stablehlo.or", result, [low, x]), high])


# At the bounds themselves the derivative by the operand is zero, as in the reference.
clamp_p = Clamp(
    "clamp",
    CHEAP_ARITHMETIC,
    ANY,
    _lower_clamp,
    tangents=(
        lambda t, y, low, x, high: _where(bitwise_and(gt(low, x), lt(low, high)), t, x),
        lambda t, y, low, x, high: _where(bitwise_and(gt(x, low), lt(x, high)), t, x),
        lambda t, y, low, x, high: _where(lt(high, x), t, x),
    ),
)
