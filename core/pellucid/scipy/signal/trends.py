"""Trends removed from signals."""

from __future__ import annotations

import itertools
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
from pellucid._machine.primitives.movement import canonical_axis
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array
from pellucid.numpy.compiled import numpy_function
from pellucid.numpy.promotion import aval_of, promote_dtypes_inexact


def detrend(
    data: ArrayLike, axis: int = -1, type: str = "linear", bp: Any = 0, overwrite_data: None = None
) -> Array:
    """`data` less its trend along `axis`: the line of least squares ("linear"), or the mean ("constant").

    Lines are fitted to each piece between two of the sorted breakpoints `bp`. `overwrite_data` is not supported.
    Raises: ArgumentValueError for another `type` and for breakpoints out of bounds.

    The result has the shape of `data`, and its dtype if that is floating-point or complex, else the default floating
    dtype. AxisError for an axis out of bounds, DtypeError for PRNG keys, UnsupportedError for `overwrite_data`.

    >>> detrend(jnp.array([1.0, 2.0, 3.0, 8.0]), type="constant")
    Array([-2.5, -1.5, -0.5,  4.5], dtype=float32)
    """
    if overwrite_data is not None:
        raise UnsupportedError(
            "scipy.signal.detrend can't overwrite its operand: arrays are values."
        )
    if type not in ("linear", "l", "constant", "c") or len(type) == 1:
        raise ArgumentValueError(
            "scipy.signal.detrend: type must be 'linear' or 'constant'.", got=f"type: {type!r}"
        )
    aval = aval_of("scipy.signal.detrend", jnp.asarray(data))
    if not aval.ndim:
        raise ShapeError("scipy.signal.detrend needs an axis.", got=aval.text())
    axis = canonical_axis(axis, aval.ndim)
    size = aval.shape[axis]
    edges = sorted({0, size, *(int(i) for i in np.ravel(bp))}) if type == "linear" else [0, size]
    if edges[0] < 0 or edges[-1] > size:
        raise ArgumentValueError(
            "scipy.signal.detrend needs breakpoints between 0 and the number of elements.",
            got=f"bp: {bp!r}, {size} elements",
        )
    return _detrend(jnp.asarray(data), axis, tuple(edges), type == "linear")


@numpy_function(static=("axis", "edges", "is_linear"))
def _detrend(data: Array, axis: int, edges: tuple[int, ...], is_linear: bool) -> Array:
    [data] = promote_dtypes_inexact("scipy.signal.detrend", data)
    if not type_of(data).size:
        return data
    moved = jnp.moveaxis(data, axis, -1)
    pieces = [_residual(moved[..., a:b], is_linear) for a, b in itertools.pairwise(edges)]
    return jnp.moveaxis(jnp.concatenate(pieces, axis=-1), -1, axis)


def _residual(x: Array, is_linear: bool) -> Array:
    """Vectors along the last axis minus their mean, or minus their least-squares line."""
    x = x - jnp.mean(x, axis=-1, keepdims=True)
    size = type_of(x).shape[-1]
    if not is_linear or size == 1:
        return x
    times = np.linspace(-1.0, 1.0, size)
    line = (times / np.linalg.norm(times)).astype(type_of(x).dtype)
    return x - jnp.sum(x * line, axis=-1, keepdims=True) * line


__all__ = ["detrend"]

public_functions(__all__, globals())
