"""Interpolation of functions of several variables on a rectangular grid."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid import numpy as jnp
from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    ShapeError,
    UnsupportedError,
    public_functions,
)
from pellucid._machine.ir import ShapedArray
from pellucid._machine.tracing import Tracer, type_of
from pellucid._machine.xla.arrays import Array
from pellucid.numpy.compiled import numpy_function
from pellucid.numpy.promotion import aval_of, promote_dtypes_inexact

_METHODS = ("linear", "nearest")


class RegularGridInterpolator:
    """Interpolates a function of n variables between its `values` [m1, …, mn, …] on the grid of `points`, vectors
    [m1], …, [mn].

    `points` ascend or, where they are known when tracing, descend. `method`: "linear" weighs the corners of a cell of
    the grid, "nearest" takes the nearest one. Outside of the grid the function is `fill_value`, or extrapolated if that
    is None. Raises: ShapeError for shapes that don't fit, ArgumentValueError for another method, for points in disorder
    and for a `fill_value` that `values` can't hold, UnsupportedError for `bounds_error`.

    >>> grid = RegularGridInterpolator((jnp.array([0.0, 1.0, 3.0]),), jnp.array([0.0, 10.0, 20.0]))
    >>> grid(jnp.array([0.5, 2.0, 4.0]))
    Array([ 5., 15., nan], dtype=float32)
    """

    def __init__(
        self,
        points: Sequence[Any],
        values: ArrayLike,
        method: str = "linear",
        bounds_error: bool = False,
        fill_value: ArrayLike = np.nan,
    ) -> None:
        self.method = _checked_method(method)
        self.bounds_error = bounds_error
        if bounds_error:
            raise UnsupportedError(
                "RegularGridInterpolator can't raise for values: programs run later.",
                do="Use `fill_value`, or `checkify`.",
            )
        aval = aval_of("scipy.interpolate.RegularGridInterpolator", values, 1)
        avals = [aval_of("scipy.interpolate.RegularGridInterpolator", p) for p in points]
        if len(avals) > aval.ndim or any(
            p.ndim != 1 or not n or p.shape[0] != n for p, n in zip(avals, aval.shape, strict=False)
        ):
            raise ShapeError(
                "RegularGridInterpolator needs a vector of points for each of the first axes of its values.",
                got=[*(f"points[{i}]: {p.text()}" for i, p in enumerate(avals)), f"values: {aval.text()}"],
            )  # fmt: skip
        [values] = promote_dtypes_inexact("scipy.interpolate.RegularGridInterpolator", values)
        self.fill_value = fill_value
        if fill_value is not None:
            self.fill_value = jnp.asarray(fill_value)
            if not np.can_cast(type_of(self.fill_value).dtype, type_of(values).dtype, "same_kind"):
                raise ArgumentValueError(
                    "RegularGridInterpolator needs a fill_value that its values can hold.",
                    got=f"{fill_value!r} for {type_of(values).text()}",
                )
        ascending = []
        for axis, p in enumerate(points):
            p, is_flipped = _ascending(p)
            ascending.append(p)
            values = jnp.flip(values, axis) if is_flipped else values
        self.grid, self.values = tuple(ascending), values

    def __call__(self, xi: ArrayLike, method: str | None = None) -> Array:
        """Values at the points `xi` [..., n], or at a tuple of n coordinates, which are broadcast.

        A vector has coordinates of several points, one after another.
        """
        method = self.method if method is None else _checked_method(method)
        count = len(self.grid)
        if isinstance(xi, tuple):
            xi = jnp.stack(jnp.broadcast_arrays(*xi), axis=-1)
        aval: ShapedArray = aval_of("RegularGridInterpolator", jnp.asarray(xi))
        xi = jnp.reshape(jnp.asarray(xi), (-1, count)) if aval.ndim == 1 and aval.size % count == 0 else jnp.asarray(xi)  # fmt: skip
        if not type_of(xi).ndim or type_of(xi).shape[-1] != count:
            raise ShapeError(
                f"RegularGridInterpolator needs points with {count} coordinates.", got=aval.text()
            )
        return _interpolate(self.grid, self.values, self.fill_value, xi, method)


def _checked_method(method: str) -> str:
    if method not in _METHODS:
        raise ArgumentValueError(
            f"RegularGridInterpolator: method must be {' or '.join(_METHODS)}.",
            got=f"method: {method!r}",
        )
    return method


def _ascending(points: Array) -> tuple[Any, bool]:
    """(`points` in ascending order, whether they were descending); traced points are assumed to ascend."""
    if isinstance(points, Tracer):
        return points, False
    steps: Any = np.diff(np.asarray(points))
    if (steps > 0).all():
        return points, False
    if (steps < 0).all():
        return jnp.flip(points), True
    raise ArgumentValueError(
        "RegularGridInterpolator needs points that ascend or descend strictly.",
        got=f"{np.asarray(points)!s:.60}",
    )


@numpy_function(static="method")
def _interpolate(
    grid: tuple[Any, ...], values: Any, fill_value: Any, xi: Array, method: str
) -> Array:
    nodes, outside, unknown = [], [], []
    for i, points in enumerate(grid):
        points, x = promote_dtypes_inexact("RegularGridInterpolator", points, xi[..., i])
        last = type_of(points).shape[0] - 1
        lower = jnp.clip(jnp.searchsorted(points, x, side="right") - 1, 0, max(last - 1, 0))
        upper = jnp.minimum(lower + 1, last)
        width = points[upper] - points[lower]
        place = (x - points[lower]) / jnp.where(width == 0, 1, width)
        if method == "linear":
            nodes.append([(lower, 1 - place), (upper, place)])
        else:
            nodes.append([(jnp.where(place <= 0.5, lower, upper), np.int32(1))])
        outside.append((x < points[0]) | (x > points[-1]))
        unknown.append(jnp.isnan(x))
    trailing = type_of(values).ndim - len(grid)
    aligned = lambda x: jnp.reshape(x, (*type_of(x).shape, *[1] * trailing))
    terms = []
    for corner in itertools.product(*nodes):
        indices, weights = zip(*corner, strict=True)
        weight = functools.reduce(operator.mul, weights)
        terms.append(values[indices] * (weight if method == "nearest" else aligned(weight)))
    result = functools.reduce(operator.add, terms).astype(type_of(values).dtype)
    result = jnp.where(aligned(functools.reduce(operator.or_, unknown)), np.nan, result)
    if fill_value is None:
        return result
    fill_value = fill_value.astype(type_of(values).dtype)
    return jnp.where(aligned(functools.reduce(operator.or_, outside)), fill_value, result)


__all__ = ["RegularGridInterpolator"]

public_functions(__all__, globals())
