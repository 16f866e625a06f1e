"""Reductions along axes: sums, products, extrema, truth, positions of extrema."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    ArrayLike,
    ConcretizationTypeError,
    DtypeError,
    DTypeLike,
    PellucidError,
    ShapeError,
    dtypes,
    public_functions,
)
from pellucid._machine.primitives import arithmetic, logical
from pellucid._machine.primitives.families import scalar
from pellucid._machine.primitives.monoids import MONOIDS
from pellucid._machine.primitives.movement import (
    broadcast_in_dim,
    broadcast_shapes,
    broadcast_to,
    canonical_axis,
    expand_dims,
    reduce_sum,
    reshape,
)
from pellucid._machine.primitives.reduction import (
    argmax as lax_argmax,
    argmin as lax_argmin,
    reduce_and,
    reduce_max,
    reduce_min,
    reduce_or,
    reduce_prod,
)
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array

from . import elementwise, number_kinds
from .compiled import alias, numpy_function
from .creation import asarray, of_sequence
from .manipulation import canonical_axes, diagonal
from .promotion import aval_of, canonical, check_promotion, convert, number_type, refuse_out

Axis = int | tuple[int, ...] | None
_BOOL = np.dtype(bool)
_HALF = frozenset({"float16", "bfloat16"})


# What all reductions share ------------------------------------------------------------------------


def static_axis(axis: Any) -> Any:
    """`axis` in hashable form, for the cache of compiled calls."""
    if axis is None or isinstance(axis, int):
        return axis
    try:
        several = np.ndim(axis) > 0
        return tuple([operator.index(a) for a in axis]) if several else operator.index(axis)
    except PellucidError:
        raise
    except (TypeError, ValueError):
        raise ArgumentTypeError(
            "axis must be an int, several ints, or None.", got=f"got {axis!r:.60}"
        ) from None


def static_dtype(name: str, dtype: DTypeLike | None) -> Any:
    """The canonical form of a user's `dtype`; None stays."""
    return None if dtype is None else dtypes.check_user_dtype(dtype, f"jnp.{name}")


def wide(dtype: np.dtype) -> Any:
    """The dtype in which sums are computed: float32 for half precision, where each step would be rounded."""
    return np.dtype(np.float32) if dtype.name in _HALF else dtype


def mask_elements(name: str, a: ArrayLike, where: ArrayLike | None, neutral: Any) -> Any:
    """`a` with the scalar `neutral` where `where` is false; both broadcast."""
    if where is None:
        return a
    mask, aval = aval_of(name, where), type_of(a)
    if mask.dtype != _BOOL:
        raise ArgumentValueError(
            f"jnp.{name} needs bools as `where`.",
            got=f"where: {mask.text()}",
            do="Compare with something.",
        )
    shape = broadcast_shapes(mask.shape, aval.shape)
    chosen = where if mask.ndim == 0 else broadcast_to(where, shape)
    filler = scalar(neutral, aval.dtype)
    return logical.select(chosen, broadcast_to(a, shape), broadcast_in_dim(filler, shape, ()))


class Kind(NamedTuple):
    """A reduction: the function that reduces axes, the one that combines two elements, and the identity by dtype."""

    reduce: Callable[..., Any]
    combine: Callable[..., Any]
    identity: Callable[[Any], Any]


AND = Kind(reduce_and, logical.bitwise_and, MONOIDS["and"].identity)
OR = Kind(reduce_or, logical.bitwise_or, MONOIDS["or"].identity)
SUM = Kind(reduce_sum, arithmetic.add, MONOIDS["sum"].identity)
PROD = Kind(reduce_prod, arithmetic.mul, MONOIDS["prod"].identity)
MAX = Kind(reduce_max, arithmetic.max, MONOIDS["max"].identity)
MIN = Kind(reduce_min, arithmetic.min, MONOIDS["min"].identity)
_OF_BOOLS = {SUM: OR, PROD: AND}


def reduce_along(
    name: str,
    kind: Kind,
    a: ArrayLike,
    axis: Axis,
    dtype: Any,
    keepdims: bool,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Any:
    """`a`, converted to `dtype`, reduced along `axis`. Results are never weakly typed."""
    aval = number_type(name, a)
    axes = canonical_axes(axis, aval.ndim)
    if dtypes.float0 in (aval.dtype, dtype):
        raise DtypeError(f"jnp.{name} does not accept float0 elements.", got=aval.text())
    if dtype == _BOOL:
        kind = _OF_BOOLS.get(kind, kind)
    a = mask_elements(name, convert(a, aval, dtype), where, kind.identity(dtype))
    result = kind.reduce(a, axes)
    if initial is not None:
        start = aval_of(name, initial)
        if start.ndim:
            raise ArgumentValueError(
                f"jnp.{name} needs a scalar as `initial`.", got=f"initial: {start.text()}"
            )
        result = kind.combine(convert(initial, start, dtype), result)
    return expand_dims(result, axes) if keepdims else result


# Sums and products --------------------------------------------------------------------------------


def dtype_of_sum(dtype: np.dtype) -> Any:
    """The dtype in which integers are summed: at least the default integer of their sign."""
    if dtypes.is_inexact(dtype):
        return dtype
    unsigned = dtype.name.startswith("uint")
    default = dtypes.default_uint_dtype() if unsigned else dtypes.default_int_dtype()
    return (
        default
        if dtypes.itemsize_bits(dtype) < dtypes.itemsize_bits(default) or dtype == _BOOL
        else dtype
    )


def _accumulate(
    name: str,
    kind: Kind,
    a: ArrayLike,
    axis: Axis,
    dtype: np.dtype | None,
    keepdims: bool,
    initial: ArrayLike | None,
    where: ArrayLike | None,
    promote: bool,
) -> Any:
    """Sum or product; without a `dtype`, small integers are widened and half precision is computed in float32."""
    a, aval = canonical(name, a)
    element_dtype = aval.dtype
    result = dtype or (
        dtype_of_sum(element_dtype) if promote or element_dtype == _BOOL else element_dtype
    )
    computed = wide(result) if dtype is None else result
    total = reduce_along(name, kind, a, axis, computed, keepdims, initial, where)
    return convert(total, type_of(total), result)


@numpy_function(static=("axis", "dtype", "keepdims", "promote"))
def _sum(
    a: ArrayLike,
    axis: Axis,
    dtype: np.dtype | None,
    keepdims: bool,
    initial: ArrayLike | None,
    where: ArrayLike | None,
    promote: bool,
) -> Any:
    return _accumulate("sum", SUM, a, axis, dtype, keepdims, initial, where, promote)


def sum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """Sum of the elements of `a` along `axis` (all axes by default); small integers are summed as default ones.

    Result: shape of `a` without the axes `axis`, or with size 1 there if `keepdims`; dtype `dtype`, or that of `a`,
    where bools and, with `promote_integers`, small integers are widened to the default integer dtype of their sign.
    `initial` is added; `where`, bools that broadcast, selects elements.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for an `initial` that isn't a scalar or a `where` that isn't of bools, DtypeError for random keys,
    UnsupportedError for `out`.

    >>> sum(np.arange(4))
    Array(6, dtype=int32)
    """
    refuse_out("sum", out)
    return _sum(
        a,
        static_axis(axis),
        static_dtype("sum", dtype),
        bool(keepdims),
        initial,
        where,
        promote_integers,
    )


@numpy_function(static=("axis", "dtype", "keepdims", "promote"))
def _prod(
    a: ArrayLike,
    axis: Axis,
    dtype: np.dtype | None,
    keepdims: bool,
    initial: ArrayLike | None,
    where: ArrayLike | None,
    promote: bool,
) -> Any:
    return _accumulate("prod", PROD, a, axis, dtype, keepdims, initial, where, promote)


def prod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """Product of the elements of `a` along `axis` (all axes by default); small integers are widened first.

    Result: shape of `a` without the axes `axis`, or with size 1 there if `keepdims`; dtype `dtype`, or that of `a`,
    where bools and, with `promote_integers`, small integers are widened to the default integer dtype of their sign.
    `initial` is a factor; `where`, bools that broadcast, selects elements.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for an `initial` that isn't a scalar or a `where` that isn't of bools, DtypeError for random keys,
    UnsupportedError for `out`.

    >>> prod(np.arange(1, 4))
    Array(6, dtype=int32)
    """
    refuse_out("prod", out)
    return _prod(
        a,
        static_axis(axis),
        static_dtype("prod", dtype),
        bool(keepdims),
        initial,
        where,
        promote_integers,
    )


# Truth --------------------------------------------------------------------------------------------


@numpy_function(static=("axis", "keepdims"))
def _all(a: ArrayLike, axis: Axis, keepdims: bool, where: ArrayLike | None) -> Any:
    return reduce_along("all", AND, a, axis, _BOOL, keepdims, where=where)


def all(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Whether all elements of `a` along `axis` are nonzero.

    Result: bools, shape of `a` without the axes `axis`, or with size 1 there if `keepdims`; True for no elements.
    `where`, bools that broadcast, selects elements.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for a `where` that isn't of bools, DtypeError for random keys, UnsupportedError for `out`.

    >>> all(np.array([1, 0]))
    Array(False, dtype=bool)
    """
    refuse_out("all", out)
    return _all(a, static_axis(axis), bool(keepdims), where)


@numpy_function(static=("axis", "keepdims"))
def _any(a: ArrayLike, axis: Axis, keepdims: bool, where: ArrayLike | None) -> Any:
    return reduce_along("any", OR, a, axis, _BOOL, keepdims, where=where)


def any(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Whether some element of `a` along `axis` is nonzero.

    Result: bools, shape of `a` without the axes `axis`, or with size 1 there if `keepdims`; False for no elements.
    `where`, bools that broadcast, selects elements.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for a `where` that isn't of bools, DtypeError for random keys, UnsupportedError for `out`.

    >>> any(np.array([1, 0]))
    Array(True, dtype=bool)
    """
    refuse_out("any", out)
    return _any(a, static_axis(axis), bool(keepdims), where)


@numpy_function(static=("axis", "keepdims"))
def _count_nonzero(a: ArrayLike, axis: Axis, keepdims: bool) -> Any:
    aval = number_type("count_nonzero", a)
    chosen = logical.ne(a, scalar(0, aval.dtype))
    return reduce_along("count_nonzero", SUM, chosen, axis, dtypes.default_int_dtype(), keepdims)


def count_nonzero(a: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Array:
    """Number of nonzero elements of `a` along `axis`.

    Result: shape of `a` without the axes `axis`, or with size 1 there if `keepdims`; the default integer dtype.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    DtypeError for random keys.

    >>> count_nonzero(np.array([1, 0, 2]))
    Array(2, dtype=int32)
    """
    return _count_nonzero(a, static_axis(axis), bool(keepdims))


# Extrema ------------------------------------------------------------------------------------------


def extreme(
    name: str,
    kind: Kind,
    a: ArrayLike,
    axis: Axis,
    keepdims: bool,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Any:
    """Maximum or minimum; raises unless there is an element or `initial`."""
    a, aval = canonical(name, a)
    if initial is None:
        if where is not None:
            raise ArgumentValueError(
                f"jnp.{name} with `where` needs `initial`, its result where nothing is chosen."
            )
        if 0 in [aval.shape[i] for i in canonical_axes(axis, aval.ndim)]:
            raise ShapeError(
                f"jnp.{name} of no elements is not defined.",
                got=f"a: {aval.text()}, axis {axis}",
                do="Pass `initial`.",
            )
    return reduce_along(name, kind, a, axis, aval.dtype, keepdims, initial, where)


@numpy_function(static=("axis", "keepdims"))
def _max(
    a: ArrayLike, axis: Axis, keepdims: bool, initial: ArrayLike | None, where: ArrayLike | None
) -> Any:
    return extreme("max", MAX, a, axis, keepdims, initial, where)


def max(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The greatest element of `a` along `axis`; NaN if one is NaN.

    Result: shape of `a` without the axes `axis`, or with size 1 there if `keepdims`; dtype of `a`. Complex numbers
    compare by their real parts, then by their imaginary parts. `initial` is one more element; `where`, bools that
    broadcast, selects elements and needs `initial`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ShapeError for no elements without `initial`, ArgumentValueError for `where` without `initial`, DtypeError for
    random keys, UnsupportedError for `out`.

    >>> max(np.array([1, 3, 2]))
    Array(3, dtype=int32)
    """
    refuse_out("max", out)
    return _max(a, static_axis(axis), bool(keepdims), initial, where)


@numpy_function(static=("axis", "keepdims"))
def _min(
    a: ArrayLike, axis: Axis, keepdims: bool, initial: ArrayLike | None, where: ArrayLike | None
) -> Any:
    return extreme("min", MIN, a, axis, keepdims, initial, where)


def min(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The least element of `a` along `axis`; NaN if one is NaN.

    Result: shape of `a` without the axes `axis`, or with size 1 there if `keepdims`; dtype of `a`. Complex numbers
    compare by their real parts, then by their imaginary parts. `initial` is one more element; `where`, bools that
    broadcast, selects elements and needs `initial`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ShapeError for no elements without `initial`, ArgumentValueError for `where` without `initial`, DtypeError for
    random keys, UnsupportedError for `out`.

    >>> min(np.array([1, 3, 2]))
    Array(1, dtype=int32)
    """
    refuse_out("min", out)
    return _min(a, static_axis(axis), bool(keepdims), initial, where)


amax, amin = alias(max, "amax"), alias(min, "amin")


@numpy_function(static=("axis", "keepdims"))
def _ptp(a: ArrayLike, axis: Axis, keepdims: bool) -> Any:
    greatest, least = (extreme("ptp", kind, a, axis, keepdims) for kind in (MAX, MIN))
    return arithmetic.sub(greatest, least)


def ptp(a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False) -> Array:
    """The greatest minus the least element of `a` along `axis`.

    Result: shape of `a` without the axes `axis`, or with size 1 there if `keepdims`; dtype of `a`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ShapeError for no elements, DtypeError for bools and random keys, UnsupportedError for `out`.

    >>> ptp(np.array([1, 3, 2]))
    Array(2, dtype=int32)
    """
    refuse_out("ptp", out)
    return _ptp(a, static_axis(axis), bool(keepdims))


# Positions ----------------------------------------------------------------------------------------


def position(
    name: str, find: Callable[..., Any], a: ArrayLike, axis: int | None, keepdims: bool
) -> Any:
    """Index of an extreme element along `axis`, or in the raveled array."""
    aval = aval_of(name, a)
    if axis is None:
        a, along, reduced_axes = reshape(a, (aval.size,)), 0, tuple(range(aval.ndim))
    else:
        along = canonical_axis(axis, aval.ndim)
        reduced_axes = (along,)
    if type_of(a).shape[along] == 0:
        raise ShapeError(
            f"jnp.{name} of no elements is not defined.", got=f"a: {aval.text()}, axis {axis}"
        )
    index = find(a, along, dtypes.default_int_dtype())
    return expand_dims(index, reduced_axes) if keepdims else index


def single_axis(name: str, axis: Any) -> int | None:
    """`axis`, which must be None or one integer."""
    try:
        return None if axis is None else operator.index(axis)
    except ConcretizationTypeError:
        raise
    except TypeError:
        raise ArgumentTypeError(f"jnp.{name} needs a single axis.", got=f"axis: {axis!r}") from None


@numpy_function(static=("axis", "keepdims"))
def _argmax(a: ArrayLike, axis: int | None, keepdims: bool) -> Any:
    return position("argmax", lax_argmax, a, axis, keepdims)


def argmax(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """Index of the first greatest element of `a` along `axis` (or the first NaN), or in the raveled array.

    Result: shape of `a` without `axis` (size 1 there with `keepdims`); the default integer dtype.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for several axes, AxisError for axes out
    of bounds, ShapeError for no elements, DtypeError for random keys, UnsupportedError for `out`.

    >>> argmax(np.array([1, 3, 2]))
    Array(1, dtype=int32)
    """
    refuse_out("argmax", out)
    return _argmax(a, single_axis("argmax", axis), bool(keepdims))


@numpy_function(static=("axis", "keepdims"))
def _argmin(a: ArrayLike, axis: int | None, keepdims: bool) -> Any:
    return position("argmin", lax_argmin, a, axis, keepdims)


def argmin(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """Index of the first least element of `a` along `axis` (or the first NaN), or in the raveled array.

    Result: shape of `a` without `axis` (size 1 there with `keepdims`); the default integer dtype.
    Raises: ArgumentTypeError for lists and other values that aren't arrays and for several axes, AxisError for axes out
    of bounds, ShapeError for no elements, DtypeError for random keys, UnsupportedError for `out`.

    >>> argmin(np.array([3, 1, 2]))
    Array(1, dtype=int32)
    """
    refuse_out("argmin", out)
    return _argmin(a, single_axis("argmin", axis), bool(keepdims))


# Diagonals and comparisons ------------------------------------------------------------------------


def trace(
    a: ArrayLike,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: DTypeLike | None = None,
    out: None = None,
) -> Array:
    """Sum of the diagonal number `offset` of the matrices of `a` over two axes.

    Result: shape of `a` without `axis1` and `axis2`; dtype `dtype`, or that of `a`, small integers widened as by `sum`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds and for
    fewer than two dimensions, ArgumentValueError for one axis twice, UnsupportedError for `out`.

    >>> trace(np.eye(3))
    Array(3., dtype=float32)
    """
    refuse_out("trace", out)
    return sum(diagonal(a, offset, axis1, axis2), -1, dtype)


def allclose(
    a: ArrayLike,
    b: ArrayLike,
    rtol: ArrayLike = 1e-05,
    atol: ArrayLike = 1e-08,
    equal_nan: bool = False,
) -> Array:
    """Whether all elements of `a` and `b` are close, as `isclose` says.

    Result: a scalar of dtype bool.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ShapeError for shapes that don't broadcast.

    >>> allclose(np.ones(2), np.ones(2))
    Array(True, dtype=bool)
    """
    return _allclose(a, b, rtol, atol, bool(equal_nan))


@numpy_function(static=("equal_nan",))
def _allclose(a: ArrayLike, b: ArrayLike, rtol: ArrayLike, atol: ArrayLike, equal_nan: bool) -> Any:
    check_promotion("allclose", a, b)
    return all(number_kinds.isclose(a, b, rtol, atol, equal_nan))


def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Array:
    """Whether `a1` and `a2` have one shape and equal elements, NaN being equal to NaN on request.

    Result: a scalar of dtype bool.
    Raises: ArgumentTypeError for values that aren't arrays, DtypeError for random keys beside numbers.

    >>> array_equal(np.ones(2), np.ones(3))
    Array(False, dtype=bool)
    """
    return _array_equal(of_sequence(a1), of_sequence(a2), bool(equal_nan))


@numpy_function(static=("equal_nan",))
def _array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool) -> Any:
    first, second = aval_of("array_equal", a1), aval_of("array_equal", a2, 1)
    if first.shape != second.shape:
        return broadcast_in_dim(np.False_, (), ())
    same = elementwise.equal(a1, a2)
    if equal_nan:
        same = elementwise.logical_or(
            same, elementwise.logical_and(number_kinds.isnan(a1), number_kinds.isnan(a2))
        )
    return all(same)


def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Whether `a1` and `a2` can be broadcast together and have equal elements.

    Result: a scalar of dtype bool.
    Raises: ArgumentTypeError for values that aren't arrays, DtypeError for random keys beside numbers.

    >>> array_equiv(np.ones((2, 3)), np.ones(3))
    Array(True, dtype=bool)
    """
    a1, a2 = of_sequence(a1), of_sequence(a2)
    first, second = aval_of("array_equiv", a1), aval_of("array_equiv", a2, 1)
    try:
        broadcast_shapes(first.shape, second.shape)
    except ShapeError:
        return asarray(np.False_)
    return all(elementwise.equal(a1, a2))


__all__ = [
    "all", "allclose", "amax", "amin", "any", "argmax", "argmin", "array_equal", "array_equiv", "count_nonzero",
    "max", "min", "prod", "ptp", "sum", "trace",
]  # fmt: skip

public_functions(__all__, globals())
