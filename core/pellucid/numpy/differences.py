"""Differences, gradients, integrals, interpolation and cross products of sampled functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    UnsupportedError,
    dtypes,
    larger,
    public_functions,
)
from pellucid._machine.primitives.movement import broadcast_shapes, canonical_axis
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array

from .compiled import numpy_function
from .creation import asarray, number_for
from .cumulative import cumsum
from .elementwise import absolute, clip, not_equal, remainder
from .joining import concatenate, stack
from .manipulation import broadcast_to, canonical_axes, moveaxis, ravel, where
from .promotion import (
    aval_of,
    convert,
    known_int,
    promote_dtypes,
    promote_dtypes_inexact,
)
from .reductions import sum
from .searching import searchsorted
from .sorting import argsort


def _slice_along(x: Any, axis: int, *bounds: int | None) -> Any:
    """`x` sliced by `slice(*bounds)` along `axis`."""
    return x[(slice(None),) * axis + (slice(*bounds),)]


def diff(
    a: ArrayLike,
    n: int = 1,
    axis: int = -1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
) -> Array:
    """Differences of neighbours along `axis`, `n` times; each makes it shorter by one. Of bools, whether they differ.

    `prepend` and `append` are put before and after first: arrays, or numbers, which stand for one element.
    Result: shape of `a`, shorter by `n` along `axis`; dtype that the arrays promote to.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for an array without dimensions and for a negative `n`, ShapeError for a `prepend` or `append`
    that doesn't fit.

    >>> diff(jnp.array([1, 3, 6]))
    Array([2, 3], dtype=int32)
    """
    aval = aval_of("diff", a)
    n = known_int("diff", "n", n)
    if not aval.ndim:
        raise ArgumentValueError("jnp.diff needs an array with axes.", got=f"got {aval.text()}")
    if n < 0:
        raise ArgumentValueError("jnp.diff needs an order that isn't negative.", got=f"n={n}")
    return _diff(a, prepend, append, n, canonical_axis(axis, aval.ndim))


@numpy_function(static=("n", "axis"))
def _diff(a: Any, prepend: ArrayLike | None, append: ArrayLike | None, n: int, axis: int) -> Any:
    if not n:
        return a
    pieces = []
    for each in (prepend, a, append):
        if each is None:
            continue
        if not aval_of("diff", each).ndim:
            shape = type_of(a).shape
            each = broadcast_to(each, (*shape[:axis], 1, *shape[axis + 1 :]))
        pieces.append(each)
    if len(pieces) > 1:
        a = concatenate(promote_dtypes("diff", *pieces), axis)
    is_bool = type_of(a).dtype == np.bool_
    for _ in range(n):
        after, before = (
            _slice_along(a, axis, 1, None),
            _slice_along(a, axis, 0, larger(a.shape[axis] - 1, 0)),
        )
        a = not_equal(after, before) if is_bool else after - before
    return a


@numpy_function
def ediff1d(
    ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None
) -> Array:
    """Differences of neighbours of `ary`, raveled, between the elements of `to_begin` and `to_end`, in its dtype.

    Result: a vector of the dtype of `ary`, to which `to_end` and `to_begin`, raveled, are converted. Of bools, whether
    neighbours differ.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, DtypeError for random keys.

    >>> ediff1d(jnp.array([1, 3, 6]), to_end=0)
    Array([2, 3, 0], dtype=int32)
    """
    aval = aval_of("ediff1d", ary)
    differences = diff(ravel(ary)) if aval.dtype != np.bool_ else ravel(ary)[1:] ^ ravel(ary)[:-1]
    parts = [
        differences
        if each is differences
        else convert(ravel(each), type_of(ravel(each)), aval.dtype)
        for each in (to_begin, differences, to_end)
        if each is not None
    ]
    return concatenate(parts) if len(parts) > 1 else differences


def gradient(
    f: ArrayLike,
    *varargs: ArrayLike,
    axis: int | Sequence[int] | None = None,
    edge_order: int | None = None,
) -> Any:
    """Derivatives of samples `f` along each axis (or `axis`): central differences, one-sided ones at the edges.

    `varargs`: the spacing, one number for all axes, or for each a number or coordinates.
    Result: shape of `f`, of its floating dtype, float32 for integers: an array for one axis, else a list.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for fewer than two samples along an axis and for spacings that don't fit, UnsupportedError for
    `edge_order`.

    >>> gradient(jnp.array([1.0, 3.0, 6.0, 10.0]))
    Array([2. , 2.5, 3.5, 4. ], dtype=float32)
    """
    if edge_order is not None:
        raise UnsupportedError(
            "jnp.gradient has no edge_order: differences at edges are one-sided."
        )
    aval = aval_of("gradient", f)
    axes = canonical_axes(axis, aval.ndim)
    if short := [i for i in axes if aval.shape[i] < 2]:
        raise ArgumentValueError(
            "jnp.gradient needs at least two samples along each axis.",
            got=f"axis {short[0]} of {aval.text()}",
        )
    spacings = varargs * len(axes) if len(varargs) == 1 else varargs or (1.0,) * len(axes)
    if len(spacings) != len(axes):
        raise ArgumentValueError(
            "jnp.gradient needs one spacing, or one for each axis.",
            got=f"{len(spacings)} spacings, {len(axes)} axes",
        )
    results = [_gradient(f, h, i) for h, i in zip(spacings, axes, strict=True)]
    return results[0] if len(results) == 1 else results


@numpy_function(static="axis")
def _gradient(f: ArrayLike, h: Any, axis: int) -> Any:
    [f] = promote_dtypes_inexact("gradient", f)
    f, h = promote_dtypes_inexact("gradient", f, h)
    f = moveaxis(f, axis, 0)
    n = type_of(f).shape[0]
    spacing = type_of(h)
    if spacing.ndim == 0:
        inner = (f[2:] - f[:-2]) * 0.5 / h
        first, last = (f[1] - f[0]) / h, (f[n - 1] - f[n - 2]) / h
    elif spacing.shape == (n,):
        steps = (h[1:] - h[:-1]).reshape((n - 1,) + (1,) * (f.ndim - 1))
        before, after = steps[:-1], steps[1:]
        inner = (
            -(after / (before * (before + after))) * f[:-2]
            + ((after - before) / (before * after)) * f[1:-1]
            + (before / (after * (before + after))) * f[2:]
        )
        first, last = (f[1] - f[0]) / steps[0], (f[n - 1] - f[n - 2]) / steps[n - 2]
    else:
        raise ArgumentValueError(
            "jnp.gradient needs a number or a coordinate for each sample.",
            got=f"{spacing.text()} for {n} samples",
        )
    return moveaxis(concatenate([first[None], inner, last[None]]), 0, axis)


def trapezoid(
    y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1
) -> Array:
    """Integral of the samples `y` along `axis` by the trapezoidal rule; at coordinates `x`, or spaced by `dx`.

    Result: shape of `y` without `axis`; floating or complex dtype that the arguments promote to. `x` is a vector, or
    has the shape of `y`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ShapeError for an `x` of another length, DtypeError for random keys.

    >>> trapezoid(jnp.array([1.0, 2.0, 3.0]))
    Array(4., dtype=float32)
    """
    axis = canonical_axis(axis, aval_of("trapezoid", y).ndim)
    if x is not None:
        aval_of("trapezoid", x, 1)
    return _trapezoid(y, x, dx, axis)


@numpy_function(static="axis")
def _trapezoid(y: ArrayLike, x: Any, dx: ArrayLike, axis: int) -> Any:
    if x is None:
        [y] = promote_dtypes_inexact("trapezoid", y)
        y, dx = promote_dtypes("trapezoid", y, dx)
        y = moveaxis(y, axis, -1)
    else:
        y, x = promote_dtypes_inexact("trapezoid", y, x)
        y = moveaxis(y, axis, -1)
        dx = diff(x) if type_of(x).ndim == 1 else moveaxis(diff(x, axis=axis), axis, -1)
    return sum(dx * (y[..., 1:] + y[..., :-1]), axis=-1) * 0.5


def unwrap(
    p: ArrayLike, discont: ArrayLike | None = None, axis: int = -1, period: ArrayLike = 2 * np.pi
) -> Array:
    """`p` with jumps along `axis` of more than `discont` (half a period) replaced by those to the nearest period.

    Result: shape of `p`; its floating dtype, float32 for integers (float64 for 64-bit ones).
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for complex numbers.

    >>> unwrap(jnp.array([0.0, 1.0, 6.5]))
    Array([0.        , 1.        , 0.216815], dtype=float32)
    """
    aval = aval_of("unwrap", p)
    if aval.dtype.kind == "c":
        raise ArgumentValueError("jnp.unwrap needs real numbers.", got=f"got {aval.text()}")
    axis = canonical_axis(axis, aval.ndim)
    aval_of("unwrap", period, 3)
    period = number_for(period, dtypes.to_inexact_dtype(aval.dtype))
    return _unwrap(p, period / 2 if discont is None else discont, period, axis)


@numpy_function(static="axis")
def _unwrap(p: ArrayLike, discont: ArrayLike | None, period: Any, axis: int) -> Any:
    p, period = promote_dtypes("unwrap", p, period)
    is_integer = type_of(p).dtype in dtypes.KINDS["integral"]
    half = period // 2 if is_integer else period / 2
    jumps = diff(p, axis=axis)
    nearest = remainder(jumps + half, period) - half
    nearest = where((nearest == -half) & (jumps > 0), half, nearest)
    corrections = where(absolute(jumps) < discont, 0, nearest - jumps)
    first = _slice_along(p, axis, 0, 1)
    rest = _slice_along(p, axis, 1, None) + cumsum(corrections, axis=axis).astype(type_of(p).dtype)
    return concatenate([first, rest], axis)


def interp(
    x: ArrayLike,
    xp: ArrayLike,
    fp: ArrayLike,
    left: ArrayLike | str | None = None,
    right: ArrayLike | str | None = None,
    period: ArrayLike | None = None,
) -> Array:
    """Values at `x` of the function that is linear between the points `(xp, fp)`, with rising `xp`.

    `left` and `right`: values outside, by default those of the first and the last point; "extrapolate" continues
    the line. With `period`, `x` and `xp` are taken modulo it.
    Raises: ArgumentValueError for points that aren't two vectors of one length, and for a period of 0.

    >>> interp(jnp.array([0.5, 3.0]), jnp.array([0.0, 1.0]), jnp.array([10.0, 20.0]))
    Array([15., 20.], dtype=float32)
    """
    avals = [aval_of("interp", each, i) for i, each in enumerate((x, xp, fp))]
    if avals[1].ndim != 1 or avals[1].shape != avals[2].shape or not avals[1].size:
        raise ArgumentValueError(
            "jnp.interp needs points as two vectors of one length.",
            got=f"xp: {avals[1].text()}, fp: {avals[2].text()}",
        )
    if "c" in (avals[0].dtype.kind, avals[1].dtype.kind):
        raise ArgumentValueError(
            "jnp.interp needs real coordinates.", got=f"x: {avals[0].text()}, xp: {avals[1].text()}"
        )
    if period is not None and type(period) in (int, float) and not period:
        raise ArgumentValueError("jnp.interp needs a period other than 0.", got=f"got {period}")
    for name, side in (("left", left), ("right", right)):
        if isinstance(side, str) and side != "extrapolate":
            raise ArgumentValueError(
                f'jnp.interp needs a number or "extrapolate" as `{name}`.', got=f"got {side!r}"
            )
    beyond = tuple(
        side == "extrapolate" if isinstance(side, str) else False for side in (left, right)
    )
    left, right = (None if isinstance(side, str) else side for side in (left, right))
    return _interp(x, xp, fp, left, right, period, beyond)


@numpy_function(static="extrapolates")
def _interp(
    x: ArrayLike,
    xp: Any,
    fp: Any,
    left: ArrayLike | None,
    right: ArrayLike | None,
    period: Any,
    extrapolates: tuple[bool, ...],
) -> Any:
    x, xp = promote_dtypes_inexact("interp", x, xp)
    [fp] = promote_dtypes_inexact("interp", fp)
    xp, fp = asarray(xp), asarray(fp)
    if period is not None:
        period = absolute(convert(period, type_of(period), type_of(x).dtype))
        x, xp = remainder(x, period), remainder(xp, period)
        order = argsort(xp)
        xp, fp = xp[order], fp[order]
        xp = concatenate([xp[-1:] - period, xp, xp[:1] + period])
        fp = concatenate([fp[-1:], fp, fp[:1]])
    n = type_of(xp).shape[0]
    after = clip(searchsorted(xp, x, side="right"), 1, max(n - 1, 1))
    after = after if n > 1 else after * 0
    before = after - (1 if n > 1 else 0)
    width = xp[after] - xp[before]
    is_step = absolute(width) <= np.finfo(np.float32).tiny
    slope = (fp[after] - fp[before]) / where(is_step, 1, width)
    result = where(is_step, fp[before], fp[before] + (x - xp[before]) * slope)
    if period is None:
        if not extrapolates[0]:
            result = where(x < xp[0], fp[0] if left is None else left, result)
        if not extrapolates[1]:
            result = where(x > xp[-1], fp[-1] if right is None else right, result)
    return result


def cross(
    a: ArrayLike,
    b: ArrayLike,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
) -> Array:
    """Cross products of the vectors along `axisa` of `a` and `axisb` of `b`; of two dimensions, their third one.

    A vector of two numbers beside one of three has 0 as its third. Results lie along `axisc`; `axis` is for all three.
    Raises: ArgumentValueError for vectors of other sizes.

    >>> cross(jnp.array([1, 0, 0]), jnp.array([0, 1, 0]))
    Array([0, 0, 1], dtype=int32)
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    avals = [aval_of("cross", x, i) for i, x in enumerate((a, b))]
    sizes = [
        aval.shape[canonical_axis(i, aval.ndim)]
        for aval, i in zip(avals, (axisa, axisb), strict=True)
    ]
    if not set(sizes) <= {2, 3}:
        raise ArgumentValueError(
            "jnp.cross needs vectors of two or three numbers.",
            got=[f"a: {avals[0].text()}, axis {axisa}", f"b: {avals[1].text()}, axis {axisb}"],
        )
    return _cross(a, b, axisa, axisb, axisc)


@numpy_function(static=("axisa", "axisb", "axisc"))
def _cross(a: ArrayLike, b: ArrayLike, axisa: int, axisb: int, axisc: int) -> Any:
    a, b = promote_dtypes("cross", a, b)
    a, b = moveaxis(a, axisa, -1), moveaxis(b, axisb, -1)
    if type_of(a).shape[-1] == type_of(b).shape[-1] == 2:
        return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    parts = [[x[..., i] if i < type_of(x).shape[-1] else None for i in range(3)] for x in (a, b)]

    def term(i: int, j: int) -> Any:
        left, right = parts[0][i], parts[1][j]
        return None if left is None or right is None else left * right

    def difference(x: Array, y: Array) -> Any:
        return -y if x is None else x if y is None else x - y

    components = [difference(term(i, j), term(j, i)) for i, j in ((1, 2), (2, 0), (0, 1))]
    shape = broadcast_shapes(type_of(a).shape[:-1], type_of(b).shape[:-1])
    return stack([broadcast_to(asarray(x), shape) for x in components], axis=axisc)


__all__ = ["cross", "diff", "ediff1d", "gradient", "interp", "trapezoid", "unwrap"]

public_functions(__all__, globals())
