"""Cumulative reductions: each element combined with all before it along an axis."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid.base import (
    ArgumentValueError,
    Function,
    Symbol,
    UnsupportedError,
    resized,
    strict_zip,
)
from pellucid.ir import Traits, shaped_array
from pellucid.lowering.dynamic_shapes import reduce_window
from pellucid.tracing import bind1, stage, type_of
from pellucid.xla.mlir import ir

from .arithmetic import abs, add, max, min, mul, neg, rem, share, sub
from .complex_parts import complex as complex_from_parts, imag, real, real_dtype
from .concatenation import concatenate, stack
from .counts import running_combinations, running_exponentials
from .creation import zeros
from .families import COMPLEX, FLOATING, NUMBER, add_any_p, check_elements
from .logical import eq, lt, ne, select_n
from .monoids import MONOIDS, lowest, monoid_body
from .movement import Movement, OfOneArray, reshape, rev
from .slicing import slice_in_dim
from .transcendental import exp, log1p
from .windows import WindowParams, window_attributes

Pair = tuple[Any, Any]
"""A value and its tangent."""


class CumulativeParams(NamedTuple):
    axis: int
    reverse: bool


class Cumulative(OfOneArray[CumulativeParams]):
    """A reduction over all windows that end (or begin, if reversed) at an element."""

    dim_fields = ("axis",)
    accepts = NUMBER

    def identity(self, dtype: Any) -> Any:
        """The element that changes nothing."""
        raise self.missing("identity")

    def fill(self, ctx: Any, region: ir.Region, dtype: Any) -> None:
        """Fill `region` with the combination of two elements."""
        raise self.missing("fill")

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
            resized(ones, axis, size), ones, resized([(0, 0)] * aval.ndim, axis, ends), ones, ones
        )
        initial = ctx.constant(self.identity(aval.dtype))
        return reduce_window(
            ctx, [aval], [operands[0], initial], window_attributes(ctx, windows),
            lambda region: self.fill(ctx, region, aval.dtype),
        )  # fmt: skip


class CumulativeMonoid(Cumulative):
    """A cumulative reduction by one of the monoids."""

    def __init__(self, monoid: str) -> None:
        super().__init__(f"cum{monoid}")
        self.monoid = MONOIDS[monoid]

    def identity(self, dtype):
        return self.monoid.identity(dtype)

    def fill(self, ctx, region, dtype):
        monoid_body(ctx, region, self.monoid, dtype)


class CumulativeSum(CumulativeMonoid, Movement[CumulativeParams]):
    """Sums; linear."""

    traits = Traits(kind="reduction", flops=running_combinations, linear="all", makes_nan=True)

    def undo(self, cotangent, aval, params):
        return bind1(self, cotangent, params=CumulativeParams(params.axis, not params.reverse))


class Scanned(Cumulative):
    """A cumulative reduction whose derivative is that of a tree of combinations (see `prefixes`)."""

    pair: Callable[[Pair, Pair], Pair]
    """Two values with their tangents, combined."""

    def jvp(self, primals, tangents, params):
        aval, axis = type_of(primals[0]), params.axis
        if isinstance(aval.shape[axis], Symbol):
            raise UnsupportedError(
                "this cumulative function has no derivative along a symbolic dimension: its size decides how many steps there are.",
                got=f"operand: {aval.text()}, axis {axis}",
                do="Use `jnp.cumsum`, or `lax.scan`.",
            )

        def turned(x):
            return rev(x, (axis,)) if params.reverse else x

        y, t = prefixes(type(self).pair, [turned(primals[0]), turned(tangents[0])], axis)
        return [turned(y)], [turned(t)]


def prefixes(
    combine: Callable[[Any, Any], Sequence[Any]], arrays: Sequence[Any], axis: int
) -> Sequence[Any]:
    """All prefixes of `arrays` along `axis` combined, in logarithmic depth; `combine` takes and gives lists of arrays.

    Neighbours are combined, the half as long arrays are scanned, and the prefixes that end at the other elements are made
    from those (Ladner and Fischer, "Parallel prefix computation", 1980).
    """
    size = type_of(arrays[0]).shape[axis]
    if size < 2:
        return arrays

    def every_second(start: int, limit: int) -> list[Any]:
        return [slice_in_dim(x, start, limit, 2, axis) for x in arrays]

    odd = prefixes(combine, combine(every_second(0, size - 1), every_second(1, size)), axis)
    even = [slice_in_dim(x, 0, 1, 1, axis) for x in arrays]
    if size > 2:
        before = odd if size % 2 else [slice_in_dim(x, 0, -1, 1, axis) for x in odd]
        rest = combine(before, every_second(2, size))
        even = [concatenate(pair, axis) for pair in strict_zip(even, rest)]
    return [_interleaved(*pair, axis) for pair in strict_zip(even, odd)]


def _interleaved(even, odd, axis: int):
    """Elements of `even` and `odd` in turn along `axis`; `even` has as many, or one more."""
    aval: Any = type_of(odd)
    n = aval.shape[axis]
    longer = type_of(even).shape[axis] > n
    pairs = stack([slice_in_dim(even, 0, n, axis=axis) if longer else even, odd], axis + 1)
    flat = reshape(pairs, resized(aval.shape, axis, 2 * n))
    return concatenate([flat, slice_in_dim(even, n, None, axis=axis)], axis) if longer else flat


def product_pair(a: Pair, b: Pair) -> Pair:
    """The product of two values, with its tangent."""
    (x, t), (y, u) = a, b
    return mul(x, y), bind1(add_any_p, mul(t, y), mul(x, u))


def _extreme_pair(choose: Callable[[Any, Any], Any], a: Pair, b: Pair) -> Pair:
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
    """`x`, but 0 where it is infinite and equal to `z`, except for one that is minus infinity beside z."""
    aval: Any = type_of(x)
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


class CumulativeProduct(Scanned, CumulativeMonoid):
    traits = Traits(kind="reduction", flops=running_combinations, makes_nan=True)
    pair = staticmethod(product_pair)


class CumulativeMaximum(Scanned, CumulativeMonoid):
    traits = Traits(kind="reduction", flops=running_combinations)
    pair = staticmethod(functools.partial(_extreme_pair, max))


class CumulativeMinimum(Scanned, CumulativeMonoid):
    traits = CumulativeMaximum.traits
    pair = staticmethod(functools.partial(_extreme_pair, min))


class CumulativeLogSumExp(Scanned):
    name = "cumlogsumexp"
    traits = Traits(
        kind="reduction",
        flops=running_exponentials,
        transcendentals=running_exponentials,
        makes_nan=True,
    )
    accepts = FLOATING | COMPLEX
    pair = staticmethod(_log_sum_pair)

    def identity(self, dtype):
        return lowest(dtype)

    def fill(self, ctx, region, dtype):
        aval = shaped_array((), dtype)
        jaxpr, _ = stage(lambda x, y: [log_sum_of_two(x, y)], [aval, aval])
        ctx.jaxpr_body(region, jaxpr)


def _function(primitive: Cumulative, doc: str) -> Function:
    """The public function of `primitive`, described by `doc`."""

    def cumulative(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
        params = CumulativeParams(operator.index(axis), bool(reverse))
        return bind1(primitive, operand, params=params)

    cumulative.__name__ = cumulative.__qualname__ = primitive.name
    cumulative.__doc__ = doc
    return cumulative


cumsum_p = CumulativeSum("sum")


cumsum = _function(
    cumsum_p,
    """Sums of the elements up to each one along `axis`; from it to the end if `reverse`.

    >>> cumsum(np.array([1, 2, 3]))
    Array([1, 3, 6], dtype=int32)
    """,
)


cumprod_p = CumulativeProduct("prod")


cumprod = _function(
    cumprod_p,
    """Products of the elements up to each one along `axis`; from it to the end if `reverse`.

    >>> cumprod(np.array([1, 2, 3]), reverse=True)
    Array([6, 6, 3], dtype=int32)
    """,
)


cummax_p = CumulativeMaximum("max")


cummax = _function(
    cummax_p,
    """Greatest of the elements up to each one along `axis`; from it to the end if `reverse`.

    >>> cummax(np.array([1, 3, 2]))
    Array([1, 3, 3], dtype=int32)
    """,
)


cummin_p = CumulativeMinimum("min")


cummin = _function(
    cummin_p,
    """Least of the elements up to each one along `axis`; from it to the end if `reverse`.

    >>> cummin(np.array([2, 1, 3]))
    Array([2, 1, 1], dtype=int32)
    """,
)


cumlogsumexp_p = CumulativeLogSumExp()


cumlogsumexp = _function(
    cumlogsumexp_p,
    """Logarithms of the sums of exponentials of the elements up to each one along `axis`; from it if `reverse`.

    >>> cumlogsumexp(np.array([0.0, 0.0]))
    Array([0.       , 0.6931472], dtype=float32)
    """,
)
