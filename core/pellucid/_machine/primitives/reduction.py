"""Reductions: all elements along some axes become one, or each is combined with all before it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    Axes,
    Binary,
    DtypeError,
    Function,
    Ints,
    Symbol,
    UnsupportedError,
    cached,
    dtypes,
    ints,
    resized,
    strict_zip,
)
from pellucid._machine.ir import (
    ClosedJaxpr,
    Operands,
    Results,
    ShapedArray,
    Traits,
    Values,
    shaped_array,
)
from pellucid._machine.lowering.dynamic_shapes import reduce_window
from pellucid._machine.lowering.faults import BITS_OF_PARTS, EXTREMES_WITHOUT_NAN
from pellucid._machine.tracing import bind1, type_of
from pellucid._machine.xla.mlir import ir

from .arithmetic import abs, add, div, max, min, mul, neg, rem, share, sub
from .assembly import concatenate, stack
from .contraction import converted
from .conversion import complex as complex_from_parts, imag, real, real_dtype
from .counts import combinations, operand_elements
from .creation import zeros
from .families import (
    ANY,
    BOOL,
    COMPLEX,
    FLOATING,
    INTEGER,
    NUMBER,
    add_any_p,
    check_elements,
    kind_of,
    zero_of,
)
from .logical import bitwise_and, bitwise_or, eq, gt, lt, ne, ordered, select_n
from .monoids import (
    MONOIDS,
    Monoid,
    highest,
    lower_reduction,
    lowest,
    monoid_body,
    scalar_program,
    through_integers,
)
from .movement import (
    Movement,
    OfOneArray,
    other_axes,
    reduce_sum,
    reduced_shape,
    reshape,
    rev,
    transpose,
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
            resized(ones, axis, size), ones, resized([(0, 0)] * aval.ndim, axis, ends), ones, ones
        )
        initial = ctx.constant(self.monoid.identity(aval.dtype))
        return reduce_window(
            ctx, [aval], [operands[0], initial], window_attributes(ctx, windows),
            lambda region: self.fill(ctx, region, aval.dtype),
        )  # fmt: skip


class CumulativeSum(Cumulative, Movement[CumulativeParams]):
    """Sums; linear."""

    traits = Traits(kind="reduction", flops=2.0, linear="all", makes_nan=True)

    def undo(self, cotangent, aval, params):
        return bind1(self, cotangent, params=CumulativeParams(params.axis, not params.reverse))


class Scanned(Cumulative):
    """A cumulative reduction whose derivative is that of a tree of combinations (see `prefixes`)."""

    def __init__(self, monoid: Monoid, pair: Callable[[Pair, Pair], Pair], **traits: Any) -> None:
        """`pair` combines two values with their tangents; `traits` are what differs from those of extremes."""
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

        def turned(x):
            return rev(x, (axis,)) if params.reverse else x

        y, t = prefixes(self.pair, [turned(primals[0]), turned(tangents[0])], axis)
        return [turned(y)], [turned(t)]


def prefixes(combine: Callable[[Any, Any], Results], arrays: Operands, axis: int) -> Results:
    """All prefixes of `arrays` along `axis` combined, in logarithmic depth; `combine` takes and gives lists of arrays.

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
    return [_interleaved(*pair, axis) for pair in strict_zip(even, odd)]


def _interleaved(even, odd, axis: int):
    """Elements of `even` and `odd` in turn along `axis`; `even` has as many, or one more."""
    aval = type_of(odd)
    n = aval.shape[axis]
    longer = type_of(even).shape[axis] > n
    pairs = stack([slice_in_dim(even, 0, n, axis=axis) if longer else even, odd], axis + 1)
    flat = reshape(pairs, resized(aval.shape, axis, 2 * n))
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
    """`x`, but 0 where it is infinite and equal to `z`, except for one that is minus infinity beside z."""
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

    def cumulative(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
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


class ReduceParams(NamedTuple):
    axes: Axes


class Reduction(OfOneArray[ReduceParams]):
    """A reduction by a monoid; `accepts` are the kinds of elements that it takes."""

    traits = Traits(kind="reduction", flops=combinations)
    dim_fields, dims_mark = ("axes",), ""

    def __init__(self, monoid: str, accepts: frozenset[str]) -> None:
        super().__init__(f"reduce_{monoid}")
        self.monoid = MONOIDS[monoid]
        self.accepts = accepts

    def result_shape(self, x, params):
        check_elements(self.name, [x], self.accepts)
        return reduced_shape(x.shape, params.axes, self.name)

    def lower(self, ctx, operands, params):
        [x], [aval] = operands, ctx.avals_in
        if not _cpus_combine(self.monoid.name, aval.dtype):
            x = ctx.whole_along(BITS_OF_PARTS, x, aval, params.axes)
        return [lower_reduction(ctx, x, self.monoid, params.axes, ctx.avals_out[0])]


def _cpus_combine(monoid: str, dtype: np.dtype[Any]) -> bool:
    """Whether CPUs can combine the results of their parts."""
    if monoid in ("max", "min"):
        return dtype.kind != "c"
    return monoid in ("sum", "prod") or (dtype == np.bool_ and monoid != "xor")


class ReduceExtreme(Reduction):
    """Maximum or minimum. Equal extremes share the derivative."""

    def lower(self, ctx, operands, params):
        [x], [aval], [result] = operands, ctx.avals_in, ctx.avals_out
        may_be_nan = dtypes.is_inexact(aval.dtype) and aval.dtype.kind != "c" and aval.size != 0
        if not may_be_nan or not ctx.has_fault(EXTREMES_WITHOUT_NAN):
            return super().lower(ctx, operands, params)

        def reduce(keys: Any, _: ShapedArray, result: ShapedArray) -> Any:
            return lower_reduction(ctx, keys, self.monoid, params.axes, result)

        return [through_integers(ctx, x, aval, result, self.monoid, reduce)]

    def jvp(self, primals, tangents, params):
        [x], [t] = primals, tangents
        aval = type_of(x)
        y = bind1(self, x, params=params)
        if aval.size == 0:
            return [y], [zero_of(y)]
        shape = tuple([1 if i in params.axes else size for i, size in enumerate(aval.shape)])
        chosen = converted(eq(x, reshape(y, shape)), aval.dtype)
        count = reduce_sum(chosen, params.axes)
        return [y], [div(reduce_sum(mul(t, chosen), params.axes), count)]


def by_halves(combine: Callable[[Any, Any], Results], arrays: Operands, axes: Axes) -> Values:
    """The elements of `arrays` along `axes` combined, as a tree of combinations of halves.

    The arrays have one shape, with at least one element along the axes. `combine` takes two lists of arrays, and gives one.
    """
    shape = type_of(arrays[0]).shape
    others = other_axes(len(shape), axes)
    rest = tuple([shape[i] for i in others])
    size = math.prod([shape[i] for i in axes])
    values = [reshape(transpose(x, (*axes, *others)), (size, *rest)) for x in arrays]
    while size > 1:
        half = size // 2
        first, second = ([slice_in_dim(x, at, at + half) for x in values] for at in (0, half))
        joined = combine(first, second)
        if size % 2:
            last = [slice_in_dim(x, size - 1, size) for x in values]
            joined = [concatenate(pair, 0) for pair in strict_zip(joined, last)]
        values, size = joined, half + size % 2
    return [reshape(x, rest) for x in values]


class ReduceProd(Reduction):
    """Product. Its derivative is that of a tree of products, which has no division and so no trouble with zeros."""

    traits = Traits(kind="reduction", flops=combinations, makes_nan=True)

    def jvp(self, primals, tangents, params):
        if type_of(primals[0]).size == 0:
            y = bind1(self, *primals, params=params)
            return [y], [zero_of(y)]
        y, t = by_halves(product_pair, (*primals, *tangents), params.axes)
        return [y], [t]


def _function(primitive: Reduction, doc: str) -> Function:
    """The public function of `primitive`, described by `doc`."""

    def reduce(operand: Any, axes: Ints) -> Any:
        params = ReduceParams(ints(axes))
        return bind1(primitive, operand, params=params)

    reduce.__name__ = reduce.__qualname__ = primitive.name
    reduce.__doc__ = doc
    return reduce


reduce_max_p = ReduceExtreme("max", ANY)


reduce_max = _function(
    reduce_max_p,
    """Greatest of the elements along `axes`, which disappear; NaN if one is NaN.

    Complex numbers compare by real, then by imaginary part. Of no elements, it is the least value of the dtype.

    Takes numeric or bool elements; the result has the shape of `operand` without `axes`, and its dtype.
    Raises: DtypeError for other elements, ArgumentValueError for axes that are repeated or out of bounds, TypeError for
    ones that are no integers, ArgumentTypeError for lists and strings.
    Source: StableHLO specification, `reduce` with `maximum`.

    >>> reduce_max(np.array([[1.0, 4.0], [3.0, 2.0]]), (1,))
    Array([4., 3.], dtype=float32)
    """,
)


reduce_min_p = ReduceExtreme("min", ANY)


reduce_min = _function(
    reduce_min_p,
    """Least of the elements along `axes`, which disappear; NaN if one is NaN.

    Complex numbers compare by real, then by imaginary part. Of no elements, it is the greatest value of the dtype.

    Takes numeric or bool elements; the result has the shape of `operand` without `axes`, and its dtype.
    Raises: DtypeError for other elements, ArgumentValueError for axes that are repeated or out of bounds, TypeError for
    ones that are no integers, ArgumentTypeError for lists and strings.
    Source: StableHLO specification, `reduce` with `minimum`.

    >>> reduce_min(np.array([[1.0, 4.0], [3.0, 2.0]]), (1,))
    Array([1., 2.], dtype=float32)
    """,
)


reduce_prod_p = ReduceProd("prod", NUMBER)


reduce_prod = _function(
    reduce_prod_p,
    """Product of the elements along `axes`, which disappear; 1 for no elements.

    Takes integer, floating-point or complex elements; the result has the shape of `operand` without `axes`, and its
    dtype.
    Raises: DtypeError for other elements, ArgumentValueError for axes that are repeated or out of bounds, TypeError for
    ones that are no integers, ArgumentTypeError for lists and strings.
    Source: StableHLO specification, `reduce` with `multiply`.

    >>> reduce_prod(np.array([[1, 4], [3, 2]]), (1,))
    Array([4, 6], dtype=int32)
    """,
)


reduce_and_p = Reduction("and", BOOL | INTEGER)


reduce_and = _function(
    reduce_and_p,
    """Bitwise and of the elements along `axes`, which disappear; all bits for no elements.

    Takes integer or bool elements; the result has the shape of `operand` without `axes`, and its dtype.
    Raises: DtypeError for other elements, ArgumentValueError for axes that are repeated or out of bounds, TypeError for
    ones that are no integers, ArgumentTypeError for lists and strings.

    >>> reduce_and(np.array([6, 3]), (0,))
    Array(2, dtype=int32)
    """,
)


reduce_or_p = Reduction("or", BOOL | INTEGER)


reduce_or = _function(
    reduce_or_p,
    """Bitwise or of the elements along `axes`, which disappear.

    Takes integer or bool elements; the result has the shape of `operand` without `axes`, and its dtype.
    Raises: DtypeError for other elements, ArgumentValueError for axes that are repeated or out of bounds, TypeError for
    ones that are no integers, ArgumentTypeError for lists and strings.

    >>> reduce_or(np.array([6, 3]), (0,))
    Array(7, dtype=int32)
    """,
)


reduce_xor_p = Reduction("xor", BOOL | INTEGER)


reduce_xor = _function(
    reduce_xor_p,
    """Bitwise exclusive or of the elements along `axes`, which disappear.

    Takes integer or bool elements; the result has the shape of `operand` without `axes`, and its dtype.
    Raises: DtypeError for other elements, ArgumentValueError for axes that are repeated or out of bounds, TypeError for
    ones that are no integers, ArgumentTypeError for lists and strings.

    >>> reduce_xor(np.array([6, 3]), (0,))
    Array(5, dtype=int32)
    """,
)


# argmax and argmin --------------------------------------------------------------------------------


class ArgExtremeParams(NamedTuple):
    axes: tuple[int]
    index_dtype: Any


class ArgExtreme(OfOneArray[ArgExtremeParams]):
    """Index of the first extreme element, or of the first NaN."""

    traits = Traits(kind="reduction", flops=operand_elements)
    dim_fields, dims_mark = ("axes",), ""

    def __init__(self, name: str, exceeds: Function, worst: Function) -> None:
        super().__init__(name)
        self.exceeds, self.worst = exceeds, worst

    def abstract_eval(self, avals, params):
        [x] = avals
        [axis] = params.axes
        if kind_of(x.dtype) not in ANY:
            raise DtypeError(f"{self.name} needs numbers or bools.", got=f"operand: {x.text()}")
        if not 0 <= axis < x.ndim:
            raise ArgumentValueError(
                f"{self.name}: axis {axis} is out of bounds for shape {x.shape}.",
                got=f"operand: {x.text()}",
            )
        if x.shape[axis] == 0:
            raise ArgumentValueError(
                f"{self.name} of no elements has no value.", got=f"operand: {x.text()}, axis {axis}"
            )
        return [shaped_array(resized(x.shape, axis), params.index_dtype)]

    def jvp(self, primals, tangents, params):
        y = bind1(self, *primals, params=params)
        return [y], [zero_of(y)]

    def lower(self, ctx, operands, params):
        x, result = ctx.avals_in[0], ctx.avals_out[0]
        [axis] = params.axes
        indices = shaped_array(x.shape, params.index_dtype)
        places = ctx.op1("stablehlo.iota", indices, [], {"iota_dimension": axis})
        reduction = ctx.op(
            "stablehlo.reduce", ctx.types([result.update(dtype=x.dtype), result]),
            [operands[0], places, ctx.constant(self.worst(x.dtype)), ctx.constant(params.index_dtype.type(0))],
            {"dimensions": [axis]}, regions=1,
        )  # fmt: skip
        ctx.jaxpr_body(reduction.regions[0], self._first_of_two(x.dtype, params.index_dtype))
        return [reduction.results[1]]

    @cached(64)
    def _first_of_two(self, dtype, index_dtype) -> ClosedJaxpr:
        """The program for two (value, index) pairs, of which a NaN wins, then the better value, then the smaller index."""

        def chosen(x, i, y, j):
            keep = bitwise_or(ordered(self.exceeds, x, y), ne(x, x))
            keep_index = bitwise_or(keep, bitwise_and(eq(x, y), lt(i, j)))
            return [select_n(keep, y, x), select_n(keep_index, j, i)]

        return scalar_program(chosen, dtype, index_dtype, dtype, index_dtype)


def _arg_extreme(primitive: ArgExtreme, operand, axis: int, index_dtype):
    index_dtype = dtypes.check_user_dtype(index_dtype, primitive.name)
    if kind_of(index_dtype) not in INTEGER:
        raise ArgumentTypeError(
            f"{primitive.name}: index_dtype must be an integer dtype.",
            got=f"index_dtype: {dtypes.short_name(index_dtype)}",
        )
    return bind1(primitive, operand, params=ArgExtremeParams(ints([axis]), index_dtype))  # pyright: ignore[reportArgumentType]


argmax_p = ArgExtreme("argmax", gt, lowest)


def argmax(operand: Any, axis: int, index_dtype: Any) -> Any:
    """Index, along `axis`, of the first of the greatest elements, or of the first NaN.

    Raises ArgumentValueError if there are no elements along `axis`.

    The result has the shape of `operand` without `axis`, and dtype `index_dtype`. Raises, too: ArgumentValueError for
    an axis out of bounds, TypeError for one that is no integer, ArgumentTypeError for an index dtype that is not
    integer, and for lists and strings, DtypeError for PRNG keys.

    >>> argmax(np.array([1.0, 4.0, 4.0]), 0, np.int32)
    Array(1, dtype=int32)
    """
    return _arg_extreme(argmax_p, operand, axis, index_dtype)


argmin_p = ArgExtreme("argmin", lt, highest)


def argmin(operand: Any, axis: int, index_dtype: Any) -> Any:
    """Index, along `axis`, of the first of the least elements, or of the first NaN.

    Raises ArgumentValueError if there are no elements along `axis`.

    The result has the shape of `operand` without `axis`, and dtype `index_dtype`. Raises, too: ArgumentValueError for
    an axis out of bounds, TypeError for one that is no integer, ArgumentTypeError for an index dtype that is not
    integer, and for lists and strings, DtypeError for PRNG keys.

    >>> argmin(np.array([4.0, 1.0, 1.0]), 0, np.int32)
    Array(1, dtype=int32)
    """
    return _arg_extreme(argmin_p, operand, axis, index_dtype)
