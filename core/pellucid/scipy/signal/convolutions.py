"""Convolutions and correlations of arrays of any rank: sums of products, or products of Fourier transforms."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid import numpy as jnp
from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    Ints,
    ShapeError,
    Size,
    Symbol,
    UnsupportedError,
    larger,
    public_functions,
)
from pellucid._machine.ir import ShapedArray
from pellucid._machine.primitives.precision import canonical_precision
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array
from pellucid.numpy.compiled import numpy_function
from pellucid.numpy.convolutions import direct_convolution, window_of_mode
from pellucid.numpy.manipulation import canonical_axes
from pellucid.numpy.promotion import aval_of, promote_dtypes_inexact

_MODES = ("full", "same", "valid")
_METHODS = ("auto", "direct", "fft")
_TRANSFORMED = (np.float32, np.float64, np.complex64, np.complex128)
"""Dtypes of which XLA computes Fourier transforms."""


# Arguments ----------------------------------------------------------------------------------------


def _operand_types(name: str, in1: Any, in2: Any, mode: str) -> tuple[ShapedArray, ShapedArray]:
    """The types of two arrays; raises unless they have one rank and `mode` is known."""
    if mode not in _MODES:
        raise ArgumentValueError(
            f"scipy.signal.{name}: mode must be one of {', '.join(_MODES)}.", got=f"mode: {mode!r}"
        )
    first, second = (aval_of(f"scipy.signal.{name}", x, i) for i, x in enumerate((in1, in2)))
    if first.ndim != second.ndim:
        raise _shape_error(name, "needs arrays of one rank", first, second)
    return first, second


def _check_overlap(
    name: str, first: ShapedArray, second: ShapedArray, axes: Sequence[int], mode: str
) -> None:
    """Raise ShapeError in mode "valid" unless one array is at least as large as the other along all `axes`."""
    pairs = [(first.shape[i], second.shape[i]) for i in axes]
    larger, smaller = (builtins.all(p[i] >= p[1 - i] for p in pairs) for i in (0, 1))
    if mode == "valid" and not (larger or smaller):
        raise _shape_error(
            name, 'needs one array that is the larger one along every axis, in mode "valid"', first, second
        )  # fmt: skip


def _shape_error(name: str, needed: str, first: ShapedArray, second: ShapedArray) -> ShapeError:
    texts = [f"in1: {first.text()}", f"in2: {second.text()}"]
    return ShapeError(f"scipy.signal.{name} {needed}.", got=texts)


# Sums of products ---------------------------------------------------------------------------------


@numpy_function(static=("name", "mode", "precision", "correlates"))
def _direct(
    name: str, in1: Array, in2: Array, mode: str, precision: Any, correlates: bool
) -> Array:
    in1, in2 = promote_dtypes_inexact(name, in1, in2)
    if not type_of(in1).ndim:
        return in1 * (jnp.conj(in2) if correlates else in2)
    return direct_convolution(in1, jnp.conj(jnp.flip(in2)) if correlates else in2, mode, precision)


def _convolve(
    name: str, in1: Any, in2: Any, mode: str, method: str, precision: Any, correlates: bool
) -> Array:
    first, second = _operand_types(name, in1, in2, mode)
    if method not in _METHODS:
        raise ArgumentValueError(
            f"scipy.signal.{name}: method must be one of {', '.join(_METHODS)}.",
            got=f"method: {method!r}",
        )
    if not (first.size and second.size):
        raise _shape_error(name, "needs arrays with elements", first, second)
    _check_overlap(name, first, second, range(first.ndim), mode)
    if method == "fft":
        return _convolve_by_fft(in1, in2, mode, tuple(range(first.ndim)), correlates)
    precision = canonical_precision(precision, f"scipy.signal.{name}")
    return _direct(name, in1, in2, mode, precision, correlates)


def convolve(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto", precision: Any = None
) -> Array:
    """Convolution of two arrays of one rank, floating or complex.

    `mode`: "full", "same" its middle of the shape of `in1`, "valid" where the arrays overlap wholly. `method`: "direct"
    sums products, and so does "auto"; "fft" multiplies Fourier transforms.
    Raises: ShapeError for ranks that differ, for arrays without elements, and in mode "valid" unless one array is at
    least as large as the other along every axis.

    >>> convolve(jnp.array([1, 2, 3]), jnp.array([0, 1]))
    Array([0., 1., 2., 3.], dtype=float32)
    """
    return _convolve("convolve", in1, in2, mode, method, precision, correlates=False)


def correlate(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto", precision: Any = None
) -> Array:
    """Cross-correlation of two arrays of one rank: the convolution with `conj(in2)` reversed. See `convolve`.

    The result has the shape that `mode` gives, as for `convolve`, and the floating-point or complex dtype to which both
    promote.
    Raises: ShapeError for arrays of different ranks, ArgumentValueError for another `mode` or `method`, DtypeError for
    PRNG keys, ArgumentTypeError for lists and strings.

    >>> correlate(jnp.array([1, 2, 3]), jnp.array([0, 1]))
    Array([1., 2., 3., 0.], dtype=float32)
    """
    return _convolve("correlate", in1, in2, mode, method, precision, correlates=True)


def _convolve_matrices(
    name: str, in1: Any, in2: Any, mode: str, boundary: str, fillvalue: Any, precision: Any
) -> Array:
    if boundary != "fill" or fillvalue != 0:
        raise UnsupportedError(
            f"scipy.signal.{name} takes what is beyond the boundary as 0.",
            got=f"boundary: {boundary!r}, fillvalue: {fillvalue!r}",
            do="Pad `in1` with `jnp.pad` first.",
        )
    first, second = _operand_types(name, in1, in2, mode)
    if first.ndim != 2:
        raise _shape_error(name, "needs matrices", first, second)
    return _convolve(name, in1, in2, mode, "direct", precision, correlates=False)


def convolve2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: Any = None,
) -> Array:
    """Convolution of two matrices; see `convolve`.

    Raises: UnsupportedError for a `boundary` other than "fill" with 0, ShapeError for shapes that don't fit.

    >>> convolve2d(jnp.ones((2, 2)), jnp.ones((2, 2)), "same")
    Array([[1., 2.],
           [2., 4.]], dtype=float32)
    """
    return _convolve_matrices("convolve2d", in1, in2, mode, boundary, fillvalue, precision)


def correlate2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: Any = None,
) -> Array:
    """Cross-correlation of two matrices; see `correlate` and `convolve2d`.

    In mode "same" element [0, 0] is that at `in2[m // 2, n // 2]`, for `in2` of shape [m, n], as in SciPy.

    Raises: ShapeError for anything that isn't a matrix, ArgumentValueError for another `mode`, UnsupportedError for another
    `boundary` or `fillvalue`, DtypeError for PRNG keys, ArgumentTypeError for lists and strings.

    >>> correlate2d(jnp.ones((2, 2)), jnp.ones((2, 2)), "valid")
    Array([[4.]], dtype=float32)
    """
    for i, x in enumerate((in1, in2)):
        aval_of("scipy.signal.correlate2d", x, i)
    in1, in2 = jnp.flip(in1), jnp.conj(in2)
    return jnp.flip(
        _convolve_matrices("correlate2d", in1, in2, mode, boundary, fillvalue, precision)
    )


# Products of Fourier transforms -------------------------------------------------------------------


def fftconvolve(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", axes: int | Ints | None = None
) -> Array:
    """Convolution of two arrays of one rank along `axes`, by default all, as a product of Fourier transforms.

    Takes n log n steps; rounding errors are relative to the largest elements. Sizes along other axes must be equal, or
    1. Modes are those of `convolve`. Half precision is computed in single. Raises: ShapeError for shapes that don't fit.

    >>> fftconvolve(jnp.array([1.0, 2.0, 3.0]), jnp.array([0.0, 1.0])).round(4) + 0
    Array([0., 1., 2., 3.], dtype=float32)
    """
    first, second = _operand_types("fftconvolve", in1, in2, mode)
    chosen = canonical_axes(axes, first.ndim)
    for i in set(range(first.ndim)) - {*chosen}:
        if first.shape[i] != second.shape[i] and 1 not in (first.shape[i], second.shape[i]):
            raise _shape_error("fftconvolve", f"needs equal sizes along axis {i}", first, second)
    _check_overlap("fftconvolve", first, second, chosen, mode)
    return _convolve_by_fft(in1, in2, mode, chosen, correlates=False)


@numpy_function(static=("mode", "axes", "correlates"))
def _convolve_by_fft(
    in1: Any, in2: Any, mode: str, axes: tuple[int, ...], correlates: bool
) -> Array:
    in1, in2 = promote_dtypes_inexact("fftconvolve", in1, in2)
    in2 = jnp.conj(jnp.flip(in2)) if correlates else in2
    dtype: Any = type_of(in1).dtype
    if not axes:
        return in1 * in2
    is_complex = dtype.kind == "c"
    if dtype not in _TRANSFORMED:
        in1, in2 = in1.astype(np.float32), in2.astype(np.float32)
    shape, other = type_of(in1).shape, type_of(in2).shape
    sizes = [_fast_size(larger(shape[i] + other[i] - 1, 1)) for i in axes]
    forward, inverse = (jnp.fft.fftn, jnp.fft.ifftn) if is_complex else (jnp.fft.rfftn, jnp.fft.irfftn)  # fmt: skip
    spectrum = forward(in1, sizes, axes) * forward(in2, sizes, axes)
    index = [slice(None)] * len(shape)
    for i in axes:
        start, length = window_of_mode(mode, shape[i], other[i])
        index[i] = slice(start, start + length)
    return inverse(spectrum, sizes, axes)[tuple(index)].astype(dtype)


def _fast_size(size: Size) -> Size:
    """The smallest number from `size` on with the prime factors 2, 3 and 5 only, for which Fourier transforms are
    fast; a symbol itself.
    """
    if isinstance(size, Symbol):
        return size
    while True:
        rest = size
        for prime in (2, 3, 5):
            while rest % prime == 0:
                rest //= prime
        if rest == 1:
            return size
        size += 1


__all__ = ["convolve", "convolve2d", "correlate", "correlate2d", "fftconvolve"]

public_functions(__all__, globals())
