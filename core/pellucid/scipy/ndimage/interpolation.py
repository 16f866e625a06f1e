"""Interpolation of arrays at coordinates between their elements."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid import numpy as jnp
from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    ShapeError,
    UnsupportedError,
    dtypes,
    public_functions,
)
from pellucid._machine.primitives.arithmetic import round as lax_round
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array
from pellucid.numpy.compiled import numpy_function
from pellucid.numpy.promotion import aval_of


def _mirror(index: Array, size: int) -> Array:
    """Positions in `0 1 … size-1 … 1 0 1 …`."""
    last = size - 1
    period = max(2 * last, 1)
    return last - jnp.abs((index % period) - last) if last else jnp.zeros_like(index)


def _reflect(index: Array, size: int) -> Array:
    """Positions in `0 1 … size-1 size-1 … 0 0 1 …`."""
    index = index % (2 * size)
    return jnp.minimum(index, 2 * size - 1 - index)


_PLACES: dict[str, Callable[[Any, int], Any]] = {
    "constant": lambda index, size: jnp.clip(index, 0, size - 1),
    "nearest": lambda index, size: jnp.clip(index, 0, size - 1),
    "wrap": lambda index, size: index % size,
    "mirror": _mirror,
    "reflect": _reflect,
}
"""Maps mode to the function from an index out of bounds to a position within the axis."""


def map_coordinates(
    input: ArrayLike,
    coordinates: Sequence[Any],
    order: int,
    mode: str = "constant",
    cval: ArrayLike = 0.0,
) -> Array:
    """Elements of `input` at `coordinates`, one array for each axis, which are broadcast: the result has their shape.

    `order` 0 takes the nearest element (halves away from 0), 1 weighs the nearest ones along each axis linearly. `mode`
    says what is beyond an axis: "constant" `cval`, "nearest" the last element, "wrap" all elements again, "mirror" the
    elements backwards, "reflect" likewise with the last one twice. The result has the dtype of `input`, integers are
    rounded. Raises: ShapeError unless there are coordinates for each axis, UnsupportedError for other orders and modes.

    >>> map_coordinates(jnp.array([0.0, 10.0, 20.0]), [jnp.array([0.5, 1.2, 7.0])], order=1)
    Array([ 5., 12.,  0.], dtype=float32)
    """
    x = jnp.asarray(input)
    aval = type_of(x)
    if order not in (0, 1):
        raise UnsupportedError(
            "scipy.ndimage.map_coordinates has order 0 and 1 only.", got=f"order: {order!r}"
        )
    if mode not in _PLACES:
        raise UnsupportedError(
            f"scipy.ndimage.map_coordinates: mode must be one of {', '.join(_PLACES)}.",
            got=f"mode: {mode!r}",
        )
    if len(coordinates) != aval.ndim or not aval.ndim or not aval.size:
        raise ShapeError(
            "scipy.ndimage.map_coordinates needs an array with elements, and coordinates for each axis.",
            got=[f"input: {aval.text()}", f"coordinates for {len(coordinates)} axes"],
        )
    arrays = [jnp.asarray(c) for c in coordinates]
    for c in arrays:
        if aval_of("scipy.ndimage.map_coordinates", c, 1).dtype.kind == "c":
            raise ArgumentValueError(
                "scipy.ndimage.map_coordinates needs real coordinates.", got=type_of(c).text()
            )
    return _map_coordinates(x, arrays, jnp.asarray(cval, aval.dtype), order, mode)


@numpy_function(static=("order", "mode"))
def _map_coordinates(x: Array, coordinates: list[Any], cval: Array, order: int, mode: str) -> Array:
    aval = type_of(x)
    nodes = [_nodes(c, order) for c in coordinates]
    terms = []
    for corner in itertools.product(*nodes):
        indices, weights = zip(*corner, strict=True)
        places = tuple(_PLACES[mode](i, n) for i, n in zip(indices, aval.shape, strict=True))
        values = x[places]
        if mode == "constant":
            inside = [(i >= 0) & (i < n) for i, n in zip(indices, aval.shape, strict=True)]
            values = jnp.where(functools.reduce(operator.and_, inside), values, cval)
        terms.append(functools.reduce(operator.mul, weights, values))
    result = functools.reduce(operator.add, terms)
    if not dtypes.is_inexact(aval.dtype) and dtypes.is_inexact(type_of(result).dtype):
        result = lax_round(result)
    return result.astype(aval.dtype)


def _nodes(coordinate: Array, order: int) -> list[tuple[Any, Any]]:
    """(index, weight) of each element that contributes to the value at `coordinate` along an axis."""
    aval = type_of(coordinate)
    if not dtypes.is_inexact(aval.dtype):
        return [
            (coordinate.astype(np.int32) if aval.dtype == np.bool_ else coordinate, np.int32(1))
        ]
    if order == 0:
        return [(lax_round(coordinate).astype(np.int32), np.int32(1))]
    lower = jnp.floor(coordinate)
    weight = coordinate - lower
    index = lower.astype(np.int32)
    return [(index, 1 - weight), (index + 1, weight)]


__all__ = ["map_coordinates"]

public_functions(__all__, globals())
