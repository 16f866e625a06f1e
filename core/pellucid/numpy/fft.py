"""`pellucid.numpy.fft`: discrete Fourier transforms.

Lengths and axes are known when tracing. Real input of single precision gives complex64, of double complex128.
`norm` says which direction divides by the number of elements: "backward" (the inverse, default), "forward", or
"ortho" (both by its root). Formulas as in NumPy's `numpy.fft`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    DTypeLike,
    Ints,
    canonical_size,
    dtypes,
    expecting,
    ints,
    larger,
    public_functions,
    smaller,
)
from pellucid._machine.ir import ShapedArray
from pellucid._machine.primitives import arithmetic
from pellucid._machine.primitives.assembly import pad
from pellucid._machine.primitives.conversion import conj
from pellucid._machine.primitives.creation import zero_like_elements
from pellucid._machine.primitives.families import scalar
from pellucid._machine.primitives.fourier import MAX_AXES, FftType, fft as lax_fft
from pellucid._machine.primitives.movement import broadcast_in_dim, transpose
from pellucid._machine.primitives.slicing import slice_in_dim
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array

from .annotations import Axis, DeviceLike
from .compiled import numpy_function
from .creation import asarray, of_sequence
from .manipulation import canonical_axes, roll
from .promotion import as_tuple, aval_of, canonical, convert, known_int

_INVERSE = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def fft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Transform of `a` along `axis`, cut or padded with zeros to length `n`: sum over t of a[t] exp(-2πi k t / n).

    Result: shape of `a` with `n` along `axis`; dtype complex64, or complex128 for elements of 64-bit dtypes. `norm`:
    "backward" (default) divides `ifft` by `n`, "forward" divides `fft` by it, "ortho" both by its root.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for an unknown `norm`, a length below 1.

    >>> fft(np.ones(4, np.float32))
    Array([4.+0.j, 0.+0.j, 0.+0.j, 0.+0.j], dtype=complex64)
    """
    return _along("fft", FftType.FFT, a, n, axis, norm)


def ifft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Inverse of `fft` along `axis`.

    Result: shape of `a` with `n` along `axis`; dtype complex64, or complex128 for elements of 64-bit dtypes. `n` and
    `norm` are those of `fft`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for an unknown `norm`, a length below 1.

    >>> ifft(np.array([4, 0, 0, 0], np.complex64))
    Array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)
    """
    return _along("ifft", FftType.IFFT, a, n, axis, norm)


def rfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The `n // 2 + 1` nonnegative frequencies of a real signal.

    Result: shape of `a` with `n // 2 + 1` along `axis`; dtype complex64, or complex128 for elements of 64-bit dtypes.
    `n` and `norm` are those of `fft`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for an unknown `norm`, a length below 1, and for complex elements.

    >>> rfft(np.ones(4, np.float32))
    Array([4.+0.j, 0.+0.j, 0.+0.j], dtype=complex64)
    """
    return _along("rfft", FftType.RFFT, a, n, axis, norm)


def irfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The real signal of length `n` (default `2 * (m - 1)`) whose `m` nonnegative frequencies are given.

    Result: shape of `a` with `n` along `axis`; dtype float32, or float64 for elements of 64-bit dtypes. `norm` is that
    of `fft`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for an unknown `norm`, a length below 1.

    >>> irfft(np.array([4, 0, 0], np.complex64))
    Array([1., 1., 1., 1.], dtype=float32)
    """
    return _along("irfft", FftType.IRFFT, a, n, axis, norm)


def hfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Real spectrum of a signal with Hermitian symmetry, of which the first half is given.

    Result: shape of `a` with `n` (default `2 * (m - 1)` for `m` elements) along `axis`; dtype float32, or float64 for
    elements of 64-bit dtypes. `norm` is that of `fft`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for an unknown `norm`, a length below 1.

    >>> hfft(np.array([1, 0, 0], np.complex64))
    Array([1., 1., 1., 1.], dtype=float32)
    """
    return irfft(_conjugate(a), n, axis, _INVERSE[_checked_norm("hfft", norm)])


def ihfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Inverse of `hfft`: the first half of the signal whose spectrum is real.

    Result: shape of `a` with `n // 2 + 1` along `axis`; dtype complex64, or complex128 for elements of 64-bit dtypes.
    `n` and `norm` are those of `fft`.
    Raises: ArgumentTypeError for values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for an unknown `norm`, a length below 1, and for complex elements.

    >>> ihfft(np.ones(4, np.float32)).shape
    (3,)
    """
    return _conjugate(rfft(of_sequence(a), n, axis, _INVERSE[_checked_norm("ihfft", norm)]))


def fftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """Transform along several axes: the last `len(s)`, or all.

    Result: shape of `a` with the lengths `s` along `axes`; dtype complex64, or complex128 for elements of 64-bit
    dtypes. `s`: a length for each axis, to which it is cut or padded with zeros. `norm` is that of `fft`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for an unknown `norm`, a length below 1, lengths and axes of different number.

    >>> fftn(np.ones((2, 2), np.float32))[0, 0]
    Array(4.+0.j, dtype=complex64)
    """
    return _transform("fftn", FftType.FFT, a, s, axes, norm)


def ifftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """Inverse of `fftn`.

    Result: shape of `a` with the lengths `s` along `axes`; dtype complex64, or complex128 for elements of 64-bit
    dtypes. `s` is that of `fftn`, `norm` that of `fft`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for an unknown `norm`, a length below 1, lengths and axes of different number.

    >>> ifftn(np.ones((2, 2), np.float32))[0, 0]
    Array(1.+0.j, dtype=complex64)
    """
    return _transform("ifftn", FftType.IFFT, a, s, axes, norm)


def rfftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """Transform of a real signal along several axes, with the nonnegative frequencies of the last.

    Result: shape of `a` with the lengths `s` along `axes`, `s[-1] // 2 + 1` along the last; dtype complex64, or
    complex128 for elements of 64-bit dtypes. `s` is that of `fftn`, `norm` that of `fft`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for an unknown `norm`, a length below 1, lengths and axes of different number, and for complex
    elements.

    >>> rfftn(np.ones((2, 4), np.float32)).shape
    (2, 3)
    """
    return _transform("rfftn", FftType.RFFT, a, s, axes, norm)


def irfftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """Inverse of `rfftn`.

    Result: shape of `a` with the lengths `s` along `axes`, the last by default `2 * (m - 1)` for `m` elements; dtype
    float32, or float64 for elements of 64-bit dtypes. `s` is that of `fftn`, `norm` that of `fft`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for an unknown `norm`, a length below 1, lengths and axes of different number.

    >>> irfftn(np.ones((2, 3), np.complex64)).shape
    (2, 4)
    """
    return _transform("irfftn", FftType.IRFFT, a, s, axes, norm)


def fft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
) -> Array:
    """Transform along two axes.

    Result: shape of `a` with the lengths `s` along `axes`; dtype complex64, or complex128 for elements of 64-bit
    dtypes. `s` is that of `fftn`, `norm` that of `fft`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for an unknown `norm`, a length below 1, lengths or axes that aren't two.

    >>> fft2(np.ones((2, 2), np.float32))[0]
    Array([4.+0.j, 0.+0.j], dtype=complex64)
    """
    return _transform("fft2", FftType.FFT, a, s, _two("fft2", axes), norm)


def ifft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
) -> Array:
    """Inverse of `fft2`.

    Result: shape of `a` with the lengths `s` along `axes`; dtype complex64, or complex128 for elements of 64-bit
    dtypes. `s` is that of `fftn`, `norm` that of `fft`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for an unknown `norm`, a length below 1, lengths or axes that aren't two.

    >>> ifft2(np.ones((2, 2), np.float32))[0]
    Array([1.+0.j, 0.+0.j], dtype=complex64)
    """
    return _transform("ifft2", FftType.IFFT, a, s, _two("ifft2", axes), norm)


def rfft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
) -> Array:
    """Transform of a real signal along two axes, with the nonnegative frequencies of the second.

    Result: shape of `a` with the lengths `s` along `axes`, `s[1] // 2 + 1` along the second; dtype complex64, or
    complex128 for elements of 64-bit dtypes. `s` is that of `fftn`, `norm` that of `fft`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for an unknown `norm`, a length below 1, lengths or axes that aren't two, and for complex
    elements.

    >>> rfft2(np.ones((4, 4), np.float32)).shape
    (4, 3)
    """
    return _transform("rfft2", FftType.RFFT, a, s, _two("rfft2", axes), norm)


def irfft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
) -> Array:
    """Inverse of `rfft2`.

    Result: shape of `a` with the lengths `s` along `axes`, the second by default `2 * (m - 1)` for `m` elements; dtype
    float32, or float64 for elements of 64-bit dtypes. `s` is that of `fftn`, `norm` that of `fft`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for an unknown `norm`, a length below 1, lengths or axes that aren't two.

    >>> irfft2(np.ones((4, 3), np.complex64)).shape
    (4, 4)
    """
    return _transform("irfft2", FftType.IRFFT, a, s, _two("irfft2", axes), norm)


def fftfreq(
    n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike | None = None, device: DeviceLike = None
) -> Array:
    """Frequencies that belong to the results of `fft`, in cycles per unit of the sample spacing `d`.

    Result: shape [n]; dtype `dtype`, or the default floating dtype. `device` places it.
    Raises: ArgumentTypeError for a length that is no int and for a `d` that isn't a number, DtypeError for an unknown
    dtype.

    >>> fftfreq(4)
    Array([ 0.  ,  0.25, -0.5 , -0.25], dtype=float32)
    """
    size = _size("fftfreq", n)
    counts = np.concatenate([np.arange((size + 1) // 2), np.arange(-(size // 2), 0)])
    return _frequencies("fftfreq", counts, size, d, dtype, device)


def rfftfreq(
    n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike | None = None, device: DeviceLike = None
) -> Array:
    """Frequencies that belong to the results of `rfft`, in cycles per unit of the sample spacing `d`.

    Result: shape [n // 2 + 1]; dtype `dtype`, or the default floating dtype. `device` places it.
    Raises: ArgumentTypeError for a length that is no int and for a `d` that isn't a number, DtypeError for an unknown
    dtype.

    >>> rfftfreq(4)
    Array([0.  , 0.25, 0.5 ], dtype=float32)
    """
    size = _size("rfftfreq", n)
    return _frequencies("rfftfreq", np.arange(size // 2 + 1), size, d, dtype, device)


def fftshift(x: ArrayLike, axes: Axis = None) -> Array:
    """`x` with the zero frequency in the middle of `axes` (default: all).

    Result: shape and dtype of `x`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for an axis named twice.

    >>> fftshift(np.array([0, 1, -2, -1]))
    Array([-2, -1,  0,  1], dtype=int32)
    """
    return _shift("fftshift", x, axes, 1)


def ifftshift(x: ArrayLike, axes: Axis = None) -> Array:
    """Inverse of `fftshift`.

    Result: shape and dtype of `x`.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, AxisError for axes out of bounds,
    ArgumentValueError for an axis named twice.

    >>> ifftshift(np.array([-2, -1, 0, 1]))
    Array([ 0,  1, -2, -1], dtype=int32)
    """
    return _shift("ifftshift", x, axes, -1)


# ------------------------------------------------------------------------------------------------------


def _along(
    name: str, kind: FftType, a: ArrayLike, n: int | None, axis: int, norm: str | None
) -> Any:
    if np.ndim(axis):
        raise ArgumentValueError(
            f"jnp.fft.{name} needs a single axis.",
            got=f"axis: {axis!r}",
            do=f"Use `jnp.fft.{name}n`.",
        )
    return _transform(name, kind, a, None if n is None else (n,), (axis,), norm)


def _transform(
    name: str, kind: FftType, a: ArrayLike, s: Ints | None, axes: Ints | None, norm: str | None
) -> Any:
    a, aval = canonical(name, a)
    norm = _checked_norm(name, norm)
    lengths = None if s is None else tuple([_size(name, n) for n in as_tuple(s)])
    if axes is None:
        axes = tuple(range(aval.ndim) if lengths is None else range(-len(lengths), 0))
    axes = canonical_axes(axes, aval.ndim)
    if lengths is not None and len(lengths) != len(axes):
        raise ArgumentValueError(
            f"jnp.fft.{name} needs one length for each axis.",
            got=f"{len(lengths)} lengths, {len(axes)} axes",
        )
    if kind is FftType.RFFT and aval.dtype.kind == "c":
        raise ArgumentValueError(
            f"jnp.fft.{name} needs real signals only.",
            got=f"operand: {aval.text()}",
            do=f"Use `jnp.fft.{name.removeprefix('r')}` for complex ones.",
        )
    if lengths is None:
        sizes = [aval.shape[i] for i in axes]
        if kind is FftType.IRFFT and sizes:
            sizes[-1] = larger(0, 2 * (sizes[-1] - 1))
        lengths = tuple(sizes)
    stated = lengths if s is not None else lengths[-1:] if kind is FftType.RFFT else ()
    if any(n < 1 for n in stated):
        raise ArgumentValueError(
            f"jnp.fft.{name} needs at least one element along each axis.",
            got=[f"operand: {aval.text()}", f"lengths: {lengths}"],
        )
    return _fft_along(a, kind, lengths, axes, norm)


@numpy_function(static=("kind", "lengths", "axes", "norm"))
def _fft_along(
    a: ArrayLike, kind: FftType, lengths: tuple[int, ...], axes: tuple[int, ...], norm: str
) -> Any:
    aval = type_of(a)
    if not axes:
        to = dtypes.to_inexact_dtype if kind is FftType.RFFT else dtypes.to_complex_dtype
        return convert(a, aval, to(aval.dtype))
    if 0 in lengths:  # an empty axis: the result has no elements
        return _empty(aval, kind, lengths, axes)
    ndim = aval.ndim
    needed = list(lengths)
    if kind is FftType.IRFFT:
        needed[-1] = lengths[-1] // 2 + 1
    for axis, n in zip(axes, needed, strict=True):
        a = _resize(a, axis, n)
    order = (*(i for i in range(ndim) if i not in axes), *axes)
    back = tuple(np.argsort(order).tolist())
    x = transpose(a, order) if order != tuple(range(ndim)) else a
    x = _several(x, kind, lengths)
    x = transpose(x, back) if order != tuple(range(ndim)) else x
    return _normalize(x, kind, math.prod(lengths), norm)


def _empty(
    aval: ShapedArray, kind: FftType, lengths: tuple[int, ...], axes: tuple[int, ...]
) -> Any:
    """The transform of an array without elements: zeros of its type."""
    shape = list(aval.shape)
    for axis, n in zip(axes, lengths, strict=True):
        shape[axis] = n
    if kind is FftType.RFFT:
        shape[axes[-1]] = lengths[-1] // 2 + 1
    is_real = kind is FftType.IRFFT
    dtype = (dtypes.to_floating_dtype if is_real else dtypes.to_complex_dtype)(aval.dtype)
    return broadcast_in_dim(scalar(0, dtype), shape, ())


def _several(x: ArrayLike, kind: FftType, lengths: tuple[int, ...]) -> Any:
    """The transform along the last axes, at most `MAX_AXES` at a time; the last axis is transformed first by RFFT,
    last by IRFFT.
    """
    if len(lengths) <= MAX_AXES:
        return lax_fft(x, kind, lengths)
    ndim = type_of(x).ndim
    first, last = lengths[:-MAX_AXES], lengths[-MAX_AXES:]
    turned = (
        *range(ndim - len(lengths)),
        *range(ndim - MAX_AXES, ndim),
        *range(ndim - len(lengths), ndim - MAX_AXES),
    )
    back = tuple(np.argsort(turned).tolist())
    whole = FftType.FFT if kind in (FftType.FFT, FftType.RFFT) else FftType.IFFT
    if kind is FftType.IRFFT:
        x = transpose(_several(transpose(x, turned), whole, first), back)
        return lax_fft(x, kind, last)
    x = lax_fft(x, kind, last)
    return transpose(_several(transpose(x, turned), whole, first), back)


def _resize(a: ArrayLike, axis: int, n: int) -> Any:
    """`a` cut, or padded with zeros, to `n` along `axis`."""
    aval = type_of(a)
    size = aval.shape[axis]
    kept = smaller(n, size)
    if kept != size:
        a = slice_in_dim(a, 0, kept, axis=axis)
    if kept != n:
        config = [(0, n - kept if i == axis else 0, 0) for i in range(aval.ndim)]
        a = pad(a, zero_like_elements(a), config)
    return a


def _normalize(x: ArrayLike, kind: FftType, count: int, norm: str) -> Any:
    """`x` multiplied by the factor of the normalization `norm`; inverse transforms already contain 1 / `count`."""
    inverse = kind in (FftType.IFFT, FftType.IRFFT)
    factor = {
        "backward": 1.0,
        "ortho": count**0.5 if inverse else count**-0.5,
        "forward": count if inverse else 1 / count,
    }[norm]
    return x if factor == 1 else arithmetic.mul(x, type_of(x).dtype.type(factor))


def _conjugate(a: ArrayLike) -> Any:
    return _conjugation(a) if aval_of("conj", a).dtype.kind == "c" else a


@numpy_function
def _conjugation(a: ArrayLike) -> Any:
    return conj(a)


def _shift(name: str, x: ArrayLike, axes: Axis, sign: int) -> Any:
    shape = aval_of(name, x).shape
    chosen = canonical_axes(axes, len(shape))
    # `fftshift` moves by n // 2, `ifftshift` back by the same number.
    shifts = tuple([shape[i] // 2 if sign > 0 else -(shape[i] // 2) for i in chosen])
    return roll(x, shifts, chosen)


def _frequencies(name: str, counts: np.ndarray, n: int, d: Any, dtype: Any, device: Any) -> Any:
    result_dtype: Any = (
        dtypes.default_float_dtype()
        if dtype is None
        else dtypes.check_user_dtype(dtype, f"jnp.fft.{name}")
    )
    if np.ndim(d):
        raise ArgumentValueError(f"jnp.fft.{name} needs one number as `d`.", got=f"got {d!r:.60}")
    frequencies = asarray(counts, result_dtype, device=device)
    return arithmetic.div(frequencies, asarray(d * n, result_dtype))


def _size(name: str, n: Any) -> int:
    if np.ndim(n):
        raise ArgumentValueError(f"jnp.fft.{name} needs one int as `n`.", got=f"got {n!r:.60}")
    return known_int(f"fft.{name}", "n", n, canonical_size)


def _checked_norm(name: str, norm: str | None) -> str:
    if norm is None:
        return "backward"
    if norm not in _INVERSE:
        raise ArgumentValueError(
            f"jnp.fft.{name}: norm must be 'backward', 'ortho' or 'forward'.", got=f"norm: {norm!r}"
        )
    return norm


def _two(name: str, axes: Any) -> tuple[int, ...]:
    with expecting(f"jnp.fft.{name} needs two axes", axes):
        chosen = ints(axes)
    if len(chosen) != 2:
        raise ArgumentValueError(f"jnp.fft.{name} needs two axes.", got=f"axes: {chosen}")
    return chosen


__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "irfft",
    "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

public_functions(__all__, globals())
