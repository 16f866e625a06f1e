"""Cumulative operations: each element along an axis is combined with all before it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    Binary,
    Function,
    Symbol,
    UnsupportedError,
    ints,
    replace_axis_size,
    strict_zip,
)
from pellucid._machine.ir import (
    Operands,
    Results,
    Traits,
    Values,
)
from pellucid._machine.lowering.dynamic_shapes import reduce_window
from pellucid._machine.lowering.summed_products import apart_from_product
from pellucid._machine.tracing import bind1, type_of
from pellucid._machine.xla import Array
from pellucid._machine.xla.mlir import ir

from .arithmetic import abs, add, max, min, mul, neg, rem, share, sub
from .assembly import concatenate, stack
from .conversion import complex as complex_from_parts, imag, real, real_dtype
from .creation import zeros
from .families import (
    COMPLEX,
    FLOATING,
    NUMBER,
    add_any_p,
    check_elements,
)
from .logical import eq, lt, ne, select_n
from .monoids import (
    MONOIDS,
    Monoid,
    lowest,
    monoid_body,
    scalar_program,
)
from .movement import (
    Movement,
    OfOneArray,
    reshape,
    rev,
)
from .slicing import slice_in_dim
from .transcendental import exp, log1p
from .windows import WindowParams, window_attributes

Pair = tuple[Any, Any]
"""A value and its tangent."""


class CumulativeParams(NamedTuple):
    axis: int
    reverse: bool


class Cumulative(OfOneArray[CumulativeParams]):
    """A reduction over all windows that end (or begin, if reversed) at an element.

    By halves it combines each element about twice.
    """

    dim_fields = ("axis",)
    accepts = NUMBER

    def __init__(self, monoid: Monoid) -> None:
        super().__init__(f"cum{monoid.name}")
        self.monoid = monoid

    def fill(self, ctx: Any, region: ir.Region, dtype: Any) -> None:
        """Fill `region` with the combination of two elements."""
        monoid_body(ctx, region, self.monoid, dtype)

    def result_shape(self, x, params):
        check_elements(self.name, [x], self.accepts)
        if not 0 <= params.axis < x.ndim:
            raise ArgumentValueError(
                f"{self.name}: axis {params.axis} is out of bounds for shape {x.shape}.",
                got=f"operand: {x.text()}",
                do="Axes are counted from the front, from 0.",
            )
        return x.shape

    def lower(self, ctx, operands, params):
        aval = ctx.avals_out[0]
        size = aval.shape[params.axis]
        if size == 0:
            return operands

        ones, axis = (1,) * aval.ndim, params.axis
        ends = (0, size - 1) if params.reverse else (size - 1, 0)
        windows = WindowParams(
            replace_axis_size(ones, axis, size),
            ones,
            replace_axis_size([(0, 0)] * aval.ndim, axis, ends),
            ones,
            ones,
        )
        initial = ctx.constant(self.monoid.identity(aval.dtype))
        x = apart_from_product(ctx, operands[0], aval, aval.shape)
        return reduce_window(
            ctx, [aval], [x, initial], window_attributes(ctx, windows),
            lambda region: self.fill(ctx, region, aval.dtype),
        )  # fmt: skip


class CumulativeSum(Cumulative, Movement[CumulativeParams]):
    """Sums; linear."""

    traits = Traits(kind="reduction", flops=2.0, linear="all", makes_nan=True)

    def operand_cotangent(self, cotangent, aval, params):
        return bind1(self, cotangent, params=CumulativeParams(params.axis, not params.reverse))


class Scanned(Cumulative):
    """A cumulative reduction that is differentiated as a tree of combinations (see `prefixes`)."""

    def __init__(self, monoid: Monoid, pair: Callable[[Pair, Pair], Pair], **traits: Any) -> None:
        """`pair` combines two pairs (value, tangent); `traits` override those of extremes."""
        self.traits = Traits(kind="reduction", flops=2.0).replace(**traits)
        super().__init__(monoid)
        self.pair = pair

    def jvp(self, primals, tangents, params):
        aval, axis = type_of(primals[0]), params.axis
        if isinstance(aval.shape[axis], Symbol):
            raise UnsupportedError(
                "this cumulative function has no derivative along a symbolic dimension: its size decides how many steps there are.",
                got=f"operand: {aval.text()}, axis {axis}",
                do="Use `jnp.cumsum`, or `lax.scan`.",
            )

        def reverse(x):
            return rev(x, (axis,)) if params.reverse else x

        y, t = prefixes(self.pair, [reverse(primals[0]), reverse(tangents[0])], axis)
        return [reverse(y)], [reverse(t)]


def prefixes(combine: Callable[[Any, Any], Results], arrays: Operands, axis: int) -> Results:
    """The cumulative combination of `arrays` along `axis`, in logarithmic depth; `combine` maps two lists of arrays
    to one.

    Neighbours are combined, the half as long arrays are scanned, and the prefixes that end at the other elements are made
    from those (Ladner and Fischer, "Parallel prefix computation", 1980).
    """
    size = type_of(arrays[0]).shape[axis]
    if size < 2:
        return arrays

    def every_second(start: int, limit: int) -> Values:
        return [slice_in_dim(x, start, limit, 2, axis) for x in arrays]

    odd = prefixes(combine, combine(every_second(0, size - 1), every_second(1, size)), axis)
    even = [slice_in_dim(x, 0, 1, 1, axis) for x in arrays]
    if size > 2:
        before = odd if size % 2 else [slice_in_dim(x, 0, -1, 1, axis) for x in odd]
        rest = combine(before, every_second(2, size))
        even = [concatenate(pair, axis) for pair in strict_zip(even, rest)]
    return [_interleave(*pair, axis) for pair in strict_zip(even, odd)]


def _interleave(even, odd, axis: int):
    """Elements of `even` and `odd` in turn along `axis`; `even` has as many, or one more."""
    aval = type_of(odd)
    n = aval.shape[axis]
    longer = type_of(even).shape[axis] > n
    pairs = stack([slice_in_dim(even, 0, n, axis=axis) if longer else even, odd], axis + 1)
    flat = reshape(pairs, replace_axis_size(aval.shape, axis, 2 * n))
    return concatenate([flat, slice_in_dim(even, n, None, axis=axis)], axis) if longer else flat


def product_pair(a: Pair, b: Pair) -> Pair:
    """The product of two values, with its tangent."""
    (x, t), (y, u) = a, b
    return mul(x, y), bind1(add_any_p, mul(t, y), mul(x, u))


def _extreme_pair(choose: Binary, a: Pair, b: Pair) -> Pair:
    (x, t), (y, u) = a, b
    z = choose(x, y)
    return z, bind1(add_any_p, mul(t, share(x, z, y)), mul(u, share(y, z, x)))


def _log_sum_pair(a: Pair, b: Pair) -> Pair:
    (x, t), (y, u) = a, b
    z = log_sum_of_two(x, y)
    # Where z is infinite, so is the larger of x and y; exp(x - z) is then to be 1 or 0, not NaN.
    finite_z = _finite(z, z)
    weights = [exp(sub(_finite(v, z), finite_z)) for v in (x, y)]
    return z, bind1(add_any_p, mul(t, weights[0]), mul(u, weights[1]))


def _finite(x, z):
    """`x` with infinity replaced by 0; if `x` is `z`, minus infinity as well."""
    aval = type_of(x)
    is_infinite = eq(x, np.asarray(np.inf, aval.dtype))
    if x is z:
        is_infinite = select_n(is_infinite, eq(x, np.asarray(-np.inf, aval.dtype)), is_infinite)
    return select_n(is_infinite, x, zeros(aval))


def log_sum_of_two(x: Any, y: Any) -> Any:
    """log(exp(x) + exp(y)) without overflow; the imaginary part of complex results is between -pi and pi.

    >>> log_sum_of_two(np.float32(0), np.float32(0))
    Array(0.6931472, dtype=float32)
    """
    dtype = type_of(x).dtype
    greater = max(x, y)
    if dtype.kind == "c":
        twice = mul(greater, dtype.type(2))
        z = add(greater, log1p(exp(sub(add(x, y), twice))))
        part = real_dtype(dtype).type
        turn, half = part(2 * math.pi), part(math.pi)
        angle = rem(add(imag(z), half), turn)
        angle = select_n(lt(angle, part(0)), angle, add(angle, turn))
        # The sum of two zeros is zero, whose logarithm has no difference to itself.
        is_zero = eq(real(greater), part(-math.inf))
        return select_n(is_zero, complex_from_parts(real(z), sub(angle, half)), greater)
    difference = sub(x, y)
    # Equal infinities have no difference; their sum is the result.
    return select_n(
        ne(difference, difference), add(greater, log1p(exp(neg(abs(difference))))), add(x, y)
    )


class CumulativeLogSumExp(Scanned):
    accepts = FLOATING | COMPLEX

    def fill(self, ctx, region, dtype):
        program = scalar_program(lambda x, y: [log_sum_of_two(x, y)], dtype, dtype)
        ctx.jaxpr_body(region, program)


def _cumulative(primitive: Cumulative, doc: str) -> Function:
    """The public function of `primitive`, described by `doc`."""

    def cumulative(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
        params = CumulativeParams(*ints([axis]), bool(reverse))  # pyright: ignore[reportCallIssue]
        return bind1(primitive, operand, params=params)

    cumulative.__name__ = cumulative.__qualname__ = primitive.name
    cumulative.__doc__ = doc
    return cumulative


cumsum_p = CumulativeSum(MONOIDS["sum"])


cumsum = _cumulative(
    cumsum_p,
    """Sums of the elements up to each one along `axis`; from it to the end if `reverse`.

    Takes integer, floating-point or complex elements; the result has the shape and dtype of `operand`.
    Raises: DtypeError for other elements, ArgumentValueError for an axis out of bounds, TypeError for one that is no
    integer, ArgumentTypeError for lists and strings.

    >>> cumsum(np.array([1, 2, 3]))
    Array([1, 3, 6], dtype=int32)
    """,
)


cumprod_p = Scanned(MONOIDS["prod"], product_pair, makes_nan=True)


cumprod = _cumulative(
    cumprod_p,
    """Products of the elements up to each one along `axis`; from it to the end if `reverse`.

    Takes integer, floating-point or complex elements; the result has the shape and dtype of `operand`.
    Raises: DtypeError for other elements, ArgumentValueError for an axis out of bounds, TypeError for one that is no
    integer, ArgumentTypeError for lists and strings.

    >>> cumprod(np.array([1, 2, 3]), reverse=True)
    Array([6, 6, 3], dtype=int32)
    """,
)


cummax_p = Scanned(MONOIDS["max"], functools.partial(_extreme_pair, max))


cummax = _cumulative(
    cummax_p,
    """Greatest of the elements up to each one along `axis`; from it to the end if `reverse`.

    Takes integer, floating-point or complex elements; the result has the shape and dtype of `operand`.
    Raises: DtypeError for other elements, ArgumentValueError for an axis out of bounds, TypeError for one that is no
    integer, ArgumentTypeError for lists and strings.

    >>> cummax(np.array([1, 3, 2]))
    Array([1, 3, 3], dtype=int32)
    """,
)


cummin_p = Scanned(MONOIDS["min"], functools.partial(_extreme_pair, min))


cummin = _cumulative(
    cummin_p,
    """Least of the elements up to each one along `axis`; from it to the end if `reverse`.

    Takes integer, floating-point or complex elements; the result has the shape and dtype of `operand`.
    Raises: DtypeError for other elements, ArgumentValueError for an axis out of bounds, TypeError for one that is no
    integer, ArgumentTypeError for lists and strings.

    >>> cummin(np.array([2, 1, 3]))
    Array([2, 1, 1], dtype=int32)
    """,
)


cumlogsumexp_p = CumulativeLogSumExp(
    Monoid("logsumexp", "", "", lowest),
    _log_sum_pair,
    flops=4.0,
    transcendentals=4.0,
    makes_nan=True,
)


cumlogsumexp = _cumulative(
    cumlogsumexp_p,
    """Logarithms of the sums of exponentials of the elements up to each one along `axis`; from it if `reverse`.

    Takes floating-point or complex elements; the result has the shape and dtype of `operand`.
    Raises: DtypeError for other elements, ArgumentValueError for an axis out of bounds, TypeError for one that is no
    integer, ArgumentTypeError for lists and strings.

    >>> cumlogsumexp(np.array([0.0, 0.0]))
    Array([0.       , 0.6931472], dtype=float32)
    """,
)
