"""Discrete cosine transforms of type 2, computed by one Fourier transform of the same length.

Source: Makhoul, A fast cosine transform in one and two dimensions (1980).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid import numpy as jnp
from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    Ints,
    ShapeError,
    UnsupportedError,
    public_functions,
)
from pellucid._machine.primitives.movement import canonical_axis
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array
from pellucid.numpy.compiled import numpy_function
from pellucid.numpy.manipulation import canonical_axes
from pellucid.numpy.promotion import aval_of, known_int, promote_dtypes_inexact

_NORMS = {None: False, "backward": False, "ortho": True}


def _transform_along(
    function: Callable[..., Any], name: str, x: Any, type: int, n: Any, axis: int, norm: str | None
) -> Array:
    """`function` along `axis` of `x`, which is first cut or padded with zeros to `n` elements."""
    if type != 2:
        raise UnsupportedError(f"scipy.fft.{name} has type 2 only.", got=f"type: {type!r}")
    if norm not in _NORMS:
        raise ArgumentValueError(
            f"scipy.fft.{name}: norm must be None, 'backward' or 'ortho'.", got=f"norm: {norm!r}"
        )
    aval = aval_of(f"scipy.fft.{name}", x)
    axis = canonical_axis(axis, aval.ndim)
    size = aval.shape[axis] if n is None else known_int(f"scipy.fft.{name}", "n", n)
    if size < 1:
        raise ShapeError(
            f"scipy.fft.{name} needs at least one element along its axis.",
            got=[aval.text(), f"n: {n}"],
        )
    return function(x, size, axis, _NORMS[norm])


def _several(
    function: Callable[..., Any],
    name: str,
    x: Any,
    type: int,
    s: Any,
    axes: int | Ints | None,
    norm: str | None,
) -> Array:
    """`function` along each of `axes`, whose sizes become `s`."""
    aval = aval_of(f"scipy.fft.{name}", x)
    sizes: Sequence[Any] | None = None if s is None else (s,) if np.ndim(s) == 0 else tuple(s)
    if sizes is not None and len(sizes) > aval.ndim:
        raise ArgumentValueError(
            f"scipy.fft.{name} needs at most as many sizes as axes.",
            got=[aval.text(), f"s: {sizes}"],
        )
    if axes is None and sizes is not None:
        axes = range(-len(sizes), 0)
    chosen = canonical_axes(axes, aval.ndim)
    if sizes is not None and len(sizes) != len(chosen):
        raise ArgumentValueError(
            f"scipy.fft.{name} needs a size for each axis.", got=f"s: {sizes}, axes: {chosen}"
        )
    for axis, n in zip(chosen, sizes or [None] * len(chosen), strict=True):
        x = function(x, type=type, n=n, axis=axis, norm=norm)
    return x


def _operand(name: str, x: Array, size: int, axis: int) -> Array:
    """`x` in single precision at least, with `axis` moved to the end and cut or padded with zeros to `size` elements."""
    [x] = promote_dtypes_inexact(f"scipy.fft.{name}", x)
    x = x.astype(np.float32) if type_of(x).dtype.itemsize < 4 else x
    x = jnp.moveaxis(x, axis, -1)[..., :size]
    missing = size - type_of(x).shape[-1]
    return jnp.pad(x, [(0, 0)] * (type_of(x).ndim - 1) + [(0, missing)])


def _turns(size: int, dtype: np.dtype) -> Any:
    """`exp(-i pi k / (2 size))` for k = 0, …, size // 2."""
    phases = np.arange(size // 2 + 1) * (-np.pi / (2 * size))
    return np.exp(1j * phases).astype(np.result_type(dtype, np.complex64))


def _orthonormal_factors(size: int, dtype: np.dtype) -> Any:
    """Factors [size] that make the transform orthonormal."""
    weights = np.full(size, np.sqrt(1 / (2 * size)))
    weights[0] = np.sqrt(1 / (4 * size))
    return weights.astype(dtype)


def _apply_to_parts(function: Callable[[Any], Any], x: Array) -> Array:
    """`function`, which is real and linear, of `x`; of complex `x` by parts."""
    if type_of(x).dtype.kind != "c":
        return function(x)
    return jnp.asarray(function(x.real)) + 1j * function(x.imag)


@numpy_function(static=("size", "axis", "is_orthonormal"))
def _dct(x: Array, size: int, axis: int, is_orthonormal: bool) -> Array:
    def transform(x: Any) -> Any:
        order = jnp.concatenate([x[..., ::2], x[..., 1::2][..., ::-1]], axis=-1)
        dtype = type_of(x).dtype
        turned = 2 * jnp.fft.rfft(order) * _turns(size, dtype)
        # Element size - k of the result is the negative imaginary part of element k of `turned`.
        later = -turned.imag[..., 1 : (size + 1) // 2][..., ::-1]
        result = jnp.concatenate([turned.real, later], axis=-1)
        return result * _orthonormal_factors(size, dtype) if is_orthonormal else result

    return jnp.moveaxis(_apply_to_parts(transform, _operand("dct", x, size, axis)), -1, axis)


@numpy_function(static=("size", "axis", "is_orthonormal"))
def _idct(x: Array, size: int, axis: int, is_orthonormal: bool) -> Array:
    def transform(x: Any) -> Any:
        dtype = type_of(x).dtype
        x = x / _orthonormal_factors(size, dtype) if is_orthonormal else x
        count = size // 2 + 1
        mirrored = jnp.concatenate([jnp.zeros_like(x[..., :1]), x[..., :0:-1]], axis=-1)
        half = jnp.asarray(x[..., :count]) - 1j * mirrored[..., :count]
        order = jnp.fft.irfft(half * (_turns(size, dtype).conj() / 2), size)
        middle = (size + 1) // 2
        places = np.zeros(size, np.int32)
        places[::2], places[1::2] = np.arange(middle), np.arange(size - 1, middle - 1, -1)
        return order[..., places]

    return jnp.moveaxis(_apply_to_parts(transform, _operand("idct", x, size, axis)), -1, axis)


def dct(
    x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Array:
    """Cosine transform of type 2 along `axis`: `y[k] = 2 sum over i of x[i] cos(pi k (2 i + 1) / (2 n))`.

    `x` is cut or padded with zeros to `n` elements. With `norm` "ortho" the transform is orthonormal. Half precision is
    computed in single. Raises: UnsupportedError for another `type`, ArgumentValueError for another `norm`.

    >>> dct(jnp.ones(4)).round(4) + 0
    Array([8., 0., 0., 0.], dtype=float32)
    """
    return _transform_along(_dct, "dct", x, type, n, axis, norm)


def idct(
    x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Array:
    """Inverse of `dct` along `axis`.

    The result has the shape of `x` with `n` elements along `axis`, and a floating-point or complex dtype of at least 32
    bits.
    Raises: AxisError for an axis out of bounds, ShapeError for an `n` below 1, ArgumentValueError for another `norm`,
    UnsupportedError for another `type` than 2, DtypeError for PRNG keys, ArgumentTypeError for lists and strings.

    >>> idct(jnp.array([8.0, 0.0, 0.0, 0.0])).round(4)
    Array([1., 1., 1., 1.], dtype=float32)
    """
    return _transform_along(_idct, "idct", x, type, n, axis, norm)


def dctn(
    x: ArrayLike,
    type: int = 2,
    s: Ints | None = None,
    axes: int | Ints | None = None,
    norm: str | None = None,
) -> Array:
    """`dct` along each of `axes`: by default all, or the last ones for which `s` has sizes.

    The result has the shape of `x` with the sizes `s`, and a floating-point or complex dtype of at least 32 bits.
    Raises: AxisError for axes out of bounds, ShapeError for sizes below 1, ArgumentValueError for another `norm` and
    for another number of sizes than axes, UnsupportedError for another `type` than 2, DtypeError for PRNG keys,
    ArgumentTypeError for lists and strings.

    >>> dctn(jnp.ones((2, 2))).round(4) + 0
    Array([[16.,  0.],
           [ 0.,  0.]], dtype=float32)
    """
    return _several(dct, "dctn", x, type, s, axes, norm)


def idctn(
    x: ArrayLike,
    type: int = 2,
    s: Ints | None = None,
    axes: int | Ints | None = None,
    norm: str | None = None,
) -> Array:
    """Inverse of `dctn`.

    The result has the shape of `x` with the sizes `s`, and a floating-point or complex dtype of at least 32 bits.
    Raises: as `dctn`.

    >>> idctn(jnp.array([[16.0, 0.0], [0.0, 0.0]])).round(4)
    Array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    return _several(idct, "idctn", x, type, s, axes, norm)


__all__ = ["dct", "dctn", "idct", "idctn"]

public_functions(__all__, globals())
