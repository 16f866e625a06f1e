"""Reductions: all elements along some axes become one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    ArrayLike,
    Axes,
    DtypeError,
    DTypeLike,
    Function,
    Ints,
    cached,
    dtypes,
    ints,
    replace_axis_size,
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
from pellucid._machine.lowering.faults import BITS_OF_PARTS, EXTREMES_WITHOUT_NAN
from pellucid._machine.tracing import bind1, type_of
from pellucid._machine.xla import Array

from .arithmetic import div, mul
from .assembly import concatenate
from .contraction import convert_real
from .counts import combinations, operand_elements
from .cumulative import product_pair
from .families import (
    ANY,
    BOOL,
    INTEGER,
    NUMBER,
    check_elements,
    kind_of,
    zero_of,
)
from .logical import bitwise_and, bitwise_or, compare_lexically, eq, gt, lt, ne, select_n
from .monoids import (
    MONOIDS,
    highest,
    lower_reduction,
    lowest,
    reduce_through_integers,
    scalar_program,
)
from .movement import (
    OfOneArray,
    other_axes,
    reduce_sum,
    reduced_shape,
    reshape,
    transpose,
)
from .slicing import slice_in_dim


class ReduceParams(NamedTuple):
    axes: Axes


class Reduction(OfOneArray[ReduceParams]):
    """A reduction by a monoid; `accepts`: kinds of dtypes that are allowed."""

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
    """Whether CPUs can combine partial results of several devices."""
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

        return [reduce_through_integers(ctx, x, aval, result, self.monoid, reduce)]

    def jvp(self, primals, tangents, params):
        [x], [t] = primals, tangents
        aval = type_of(x)
        y = bind1(self, x, params=params)
        if aval.size == 0:
            return [y], [zero_of(y)]
        shape = tuple([1 if i in params.axes else size for i, size in enumerate(aval.shape)])
        chosen = convert_real(eq(x, reshape(y, shape)), aval.dtype)
        count = reduce_sum(chosen, params.axes)
        return [y], [div(reduce_sum(mul(t, chosen), params.axes), count)]


def reduce_by_halves(
    combine: Callable[[Any, Any], Results], arrays: Operands, axes: Axes
) -> Values:
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
    """Product along axes. Its derivative is that of a tree of products, which needs no division and is right at
    zeros.
    """

    traits = Traits(kind="reduction", flops=combinations, makes_nan=True)

    def jvp(self, primals, tangents, params):
        if type_of(primals[0]).size == 0:
            y = bind1(self, *primals, params=params)
            return [y], [zero_of(y)]
        y, t = reduce_by_halves(product_pair, (*primals, *tangents), params.axes)
        return [y], [t]


def _function(primitive: Reduction, doc: str) -> Function:
    """The public function of `primitive`, described by `doc`."""

    def reduce(operand: ArrayLike, axes: Ints) -> Array:
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

    traits = Traits(kind="reduction", flops=operand_elements, parts="otherwise")
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
        return [shaped_array(replace_axis_size(x.shape, axis), params.index_dtype)]

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

        def choose(x, i, y, j):
            keep = bitwise_or(compare_lexically(self.exceeds, x, y), ne(x, x))
            keep_index = bitwise_or(keep, bitwise_and(eq(x, y), lt(i, j)))
            return [select_n(keep, y, x), select_n(keep_index, j, i)]

        return scalar_program(choose, dtype, index_dtype, dtype, index_dtype)


def _arg_extreme(primitive: ArgExtreme, operand, axis: int, index_dtype):
    index_dtype = dtypes.check_user_dtype(index_dtype, primitive.name)
    if kind_of(index_dtype) not in INTEGER:
        raise ArgumentTypeError(
            f"{primitive.name}: index_dtype must be an integer dtype.",
            got=f"index_dtype: {dtypes.short_name(index_dtype)}",
        )
    return bind1(primitive, operand, params=ArgExtremeParams(ints([axis]), index_dtype))  # pyright: ignore[reportArgumentType]


argmax_p = ArgExtreme("argmax", gt, lowest)


def argmax(operand: ArrayLike, axis: int, index_dtype: DTypeLike) -> Array:
    """Index, along `axis`, of the first of the greatest elements, or of the first NaN.

    Raises ArgumentValueError if there are no elements along `axis`.

    The result has the shape of `operand` without `axis`, and dtype `index_dtype`. Raises, too: ArgumentValueError for
    an axis out of bounds, TypeError for one that isn't an integer, ArgumentTypeError for an index dtype that is not
    integer, and for lists and strings, DtypeError for PRNG keys.

    >>> argmax(np.array([1.0, 4.0, 4.0]), 0, np.int32)
    Array(1, dtype=int32)
    """
    return _arg_extreme(argmax_p, operand, axis, index_dtype)


argmin_p = ArgExtreme("argmin", lt, highest)


def argmin(operand: ArrayLike, axis: int, index_dtype: DTypeLike) -> Array:
    """Index, along `axis`, of the first of the least elements, or of the first NaN.

    Raises ArgumentValueError if there are no elements along `axis`.

    The result has the shape of `operand` without `axis`, and dtype `index_dtype`. Raises, too: ArgumentValueError for
    an axis out of bounds, TypeError for one that isn't an integer, ArgumentTypeError for an index dtype that is not
    integer, and for lists and strings, DtypeError for PRNG keys.

    >>> argmin(np.array([4.0, 1.0, 1.0]), 0, np.int32)
    Array(1, dtype=int32)
    """
    return _arg_extreme(argmin_p, operand, axis, index_dtype)
