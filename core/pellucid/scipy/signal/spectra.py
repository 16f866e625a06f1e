"""Spectra of segments of signals: short-time Fourier transforms and densities.

Source: Welch, The use of fast Fourier transform for the estimation of power spectra (1967); Allen and Rabiner, A
unified approach to short-time Fourier analysis and synthesis (1977); for the median Allen et al. (2012), appendix B.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pellucid import numpy as jnp
from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    ShapeError,
    dtypes,
    public_functions,
    warn_user,
)
from pellucid._machine.primitives.movement import broadcast_shapes, canonical_axis
from pellucid._machine.tracing import is_array_like, type_of
from pellucid._machine.xla.arrays import Array
from pellucid.numpy.compiled import numpy_function
from pellucid.numpy.promotion import aval_of, known_int, promote_dtypes_inexact

from .trends import detrend as detrended
from .windows import periodic_window

_PADDING: dict[str | None, dict[str, Any] | None] = {
    None: None,
    "zeros": {"mode": "constant"},
    "constant": {"mode": "edge"},
    "even": {"mode": "reflect"},
    "odd": {"mode": "reflect", "reflect_type": "odd"},
}
_MIN_NORM = 1e-10
"""Samples that windows cover with a smaller sum of squares are not divided by it."""


class _Segments(NamedTuple):
    """Sizes in samples: of a segment, of the step between segments, and of the Fourier transform."""

    size: int
    step: int
    transformed: int


def _segments(
    name: str, window: Any, nperseg: int | None, noverlap: int | None, nfft: int | None, length: int
) -> tuple[_Segments, Any]:
    """(sizes, window [size]) of the segments of a signal of `length` samples."""
    if nperseg is not None and known_int(f"scipy.signal.{name}", "nperseg", nperseg) < 1:
        raise ArgumentValueError(f"scipy.signal.{name} needs nperseg of at least 1.", got=f"nperseg: {nperseg}")  # fmt: skip
    if not is_array_like(window):
        size = 256 if nperseg is None else known_int(f"scipy.signal.{name}", "nperseg", nperseg)
        if size > length:
            if nperseg is not None:
                text = f"scipy.signal.{name}: nperseg is {size}, the signal has {length} samples, which are taken."
                warn_user(text, UserWarning)
            size = length
        weights: Any = periodic_window(window, size).astype(dtypes.default_float_dtype())
    else:
        weights, aval = window, aval_of(f"scipy.signal.{name}", window)
        size = aval.shape[0] if aval.ndim == 1 else 0
        if not size or size > length or nperseg not in (None, size):
            raise ShapeError(
                f"scipy.signal.{name} needs a window [nperseg] that is no longer than the signal.",
                got=[f"window: {aval.text()}", f"nperseg: {nperseg}", f"{length} samples"],
            )
    transformed = size if nfft is None else known_int(f"scipy.signal.{name}", "nfft", nfft)
    if transformed < size:
        raise ArgumentValueError(
            f"scipy.signal.{name} needs nfft of at least nperseg.",
            got=f"nfft: {nfft}, nperseg: {size}",
        )
    return _Segments(size, size - _overlap(name, noverlap, size), transformed), weights


def _overlap(name: str, noverlap: int | None, size: int) -> int:
    overlap = (
        size // 2 if noverlap is None else known_int(f"scipy.signal.{name}", "noverlap", noverlap)
    )
    if overlap >= size:
        raise ArgumentValueError(
            f"scipy.signal.{name} needs noverlap below nperseg.",
            got=f"noverlap: {noverlap}, nperseg: {size}",
        )
    return overlap


@numpy_function(static=("sizes", "boundary", "is_padded"))
def _cut(x: Array, sizes: _Segments, boundary: str | None, is_padded: bool) -> Array:
    """Segments [..., segments, size] of signals [..., samples]; these are extended by half a segment at both ends
    unless `boundary` is None.
    """
    around = [(0, 0)] * (type_of(x).ndim - 1)
    options = _PADDING[boundary]
    if options is not None:
        x = jnp.pad(x, [*around, (sizes.size // 2, sizes.size // 2)], **options)
    if is_padded:
        missing = -(type_of(x).shape[-1] - sizes.size) % sizes.step % sizes.size
        x = jnp.pad(x, [*around, (0, missing)])
    starts = np.arange(0, type_of(x).shape[-1] - sizes.size + 1, sizes.step)
    return x[..., starts[:, None] + np.arange(sizes.size)]


@numpy_function(static=("nfft", "is_onesided"))
def _transform_segments(segments: Array, window: Any, nfft: int, is_onesided: bool) -> Array:
    transform = jnp.fft.rfft if is_onesided else jnp.fft.fft
    return transform(segments * window, nfft, -1)


@numpy_function(static="is_density")
def _scale(window: Any, fs: Any, is_density: bool) -> Array:
    window = jnp.abs(jnp.asarray(window))
    return 1 / (fs * jnp.sum(window**2)) if is_density else 1 / jnp.sum(window) ** 2


@numpy_function(static=("nfft", "is_onesided"))
def _products(first: Array, second: Array, scale: Array, nfft: int, is_onesided: bool) -> Array:
    """Products of spectra, times `scale`; in one-sided spectra, frequencies with a mirror image count twice."""
    products = first.real**2 + first.imag**2 if second is None else jnp.conj(first) * second
    if is_onesided:
        frequencies = np.arange(nfft // 2 + 1)
        counts = np.where((frequencies == 0) | (2 * frequencies == nfft), 1, 2)
        products = products * counts.astype(type_of(products).dtype)
    return products * scale


class _Spectra(NamedTuple):
    """Fourier transforms of the segments of one or two signals, with the parameters that they were computed with."""

    transforms: list[Any]
    sizes: _Segments
    window: Any
    is_onesided: bool
    length: int

    def frequencies(self, fs: Any) -> Any:
        function = jnp.fft.rfftfreq if self.is_onesided else jnp.fft.fftfreq
        return function(self.sizes.transformed) * fs


def _spectra(
    name: str,
    signals: list[Any],
    axis: int,
    segmentation: tuple[Any, int | None, int | None, int | None],
    detrend: str | bool | Callable[[Any], Any],
    return_onesided: bool,
    boundary: str | None = None,
    is_padded: bool = False,
) -> _Spectra:
    """Transforms [..., segments, frequencies] of `signals` along `axis`, of equal length after padding with zeros."""
    if boundary not in _PADDING:
        raise ArgumentValueError(
            f"scipy.signal.{name}: boundary must be one of {', '.join(map(str, _PADDING))}.",
            got=f"boundary: {boundary!r}",
        )
    signals = promote_dtypes_inexact(f"scipy.signal.{name}", *signals)
    if type_of(signals[0]).dtype.itemsize < 4:
        signals = [x.astype(np.float32) for x in signals]
    signals = [jnp.moveaxis(x, axis, -1) for x in signals]
    length = max(type_of(x).shape[-1] for x in signals)
    signals = [
        jnp.pad(x, [*[(0, 0)] * (type_of(x).ndim - 1), (0, length - type_of(x).shape[-1])])
        for x in signals
    ]
    sizes, window = _segments(name, *segmentation, length)
    is_onesided = bool(return_onesided)
    dtype = type_of(signals[0]).dtype
    if is_onesided and (dtype.kind == "c" or type_of(window).dtype.kind == "c"):
        warn_user(f"scipy.signal.{name}: spectra of complex signals are two-sided.", UserWarning)  # fmt: skip
        is_onesided = False
    if not is_array_like(segmentation[0]):
        window = window.astype(np.zeros(0, dtype).real.dtype)
    transforms = []
    for x in signals:
        segments = _cut(x, sizes, boundary, is_padded)
        if callable(detrend):
            aligned = axis == -1 or axis == type_of(x).ndim - 1
            segments = (
                detrend(segments)
                if aligned
                else jnp.moveaxis(detrend(jnp.moveaxis(segments, -1, axis)), axis, -1)
            )
        elif detrend:
            segments = detrended(segments, type=detrend)  # pyright: ignore[reportArgumentType]
        transforms.append(_transform_segments(segments, window, sizes.transformed, is_onesided))
    return _Spectra(transforms, sizes, window, is_onesided, length)


def stft(
    x: ArrayLike,
    fs: ArrayLike = 1.0,
    window: Any = "hann",
    nperseg: int = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
) -> tuple[Array, Array, Array]:
    """(frequencies [f], times [t], transforms [..., f, ..., t]) of segments of `x`, scaled as amplitudes.

    Frequencies stand along `axis`, times last. Segments have `nperseg` samples, of which `noverlap` (half of them, by
    default) are also in the next one; they are weighed by `window`, a name, a name with parameters or an array, and
    padded to `nfft`. `detrend`: False, "linear", "constant" or a function. `boundary`: "zeros", "constant", "even",
    "odd" or None says how `x` is extended by half a segment at both ends; `padded` extends it to whole segments.
    Of real signals only frequencies ≥ 0, if `return_onesided`. Half precision is computed in single.
    Raises: ArgumentValueError for unknown options and for sizes that don't fit.

    >>> frequencies, times, transforms = stft(jnp.ones(8), nperseg=4)
    >>> transforms.shape
    (3, 5)
    """
    aval = aval_of("scipy.signal.stft", x)
    if not aval.size:
        empty = jnp.zeros(aval.shape)
        return empty, empty, jnp.zeros(aval.shape, dtypes.to_complex_dtype(aval.dtype))
    axis = canonical_axis(axis, aval.ndim)
    spectra = _spectra(
        "stft", [x], axis, (window, nperseg, noverlap, nfft), detrend, return_onesided, boundary, bool(padded)
    )  # fmt: skip
    transforms = spectra.transforms[0] * jnp.sqrt(_scale(spectra.window, fs, False))
    segments = type_of(transforms).shape[-2]
    size, step = spectra.sizes.size, spectra.sizes.step
    first = size / 2 - (0 if boundary is None else size / 2)
    times = jnp.asarray(first + step * np.arange(segments), dtypes.default_float_dtype()) / fs
    transforms = jnp.moveaxis(jnp.swapaxes(transforms, -1, -2), -2, axis)
    return spectra.frequencies(fs), times, transforms


def csd(
    x: ArrayLike,
    y: ArrayLike,
    fs: ArrayLike = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """(frequencies [f], cross power spectrum of `x` and `y`): averages over segments of products of their transforms.

    `scaling`: "density" (per frequency) or "spectrum". `average`: "mean", or "median" without its bias. Without `y`,
    or with `x` itself, real. The shorter signal is padded with zeros. For other arguments see `stft`.
    Raises: ArgumentValueError for unknown options, ShapeError for ranks that differ.

    >>> frequencies, power = csd(jnp.array([1.0, 0, -1, 0]), jnp.array([0, 1.0, 0, -1]), detrend=False)
    >>> power.shape
    (3,)
    """
    return _density(
        "csd", [x] if y is None else [x, y], fs, (window, nperseg, noverlap, nfft), detrend, return_onesided,
        scaling, axis, average,
    )  # fmt: skip


def welch(
    x: ArrayLike,
    fs: ArrayLike = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """(frequencies [f], power spectrum of `x`) by Welch's method; see `csd`.

    Raises: ArgumentValueError for sizes that do not fit and for an unknown window, AxisError for an axis out of bounds,
    DtypeError for PRNG keys, ArgumentTypeError for lists and strings.

    >>> frequencies, power = welch(jnp.array([1.0, 0, -1, 0, 1, 0, -1, 0]), nperseg=4)
    >>> int(power.argmax())
    1
    """
    return _density(
        "welch", [x], fs, (window, nperseg, noverlap, nfft), detrend, return_onesided, scaling, axis, average
    )  # fmt: skip


def _density(
    name: str,
    signals: list[Any],
    fs: ArrayLike,
    segmentation: tuple[Any, int | None, int | None, int | None],
    detrend: Any,
    return_onesided: bool,
    scaling: str,
    axis: int,
    average: str,
) -> tuple[Array, Array]:
    for option, value, choices in (
        ("scaling", scaling, ("density", "spectrum")),
        ("average", average, ("mean", "median")),
    ):
        if value not in choices:
            raise ArgumentValueError(
                f"scipy.signal.{name}: {option} must be {' or '.join(choices)}.",
                got=f"got {value!r}",
            )
    avals = [aval_of(f"scipy.signal.{name}", x, i) for i, x in enumerate(signals)]
    if len({aval.ndim for aval in avals}) > 1:
        raise ShapeError(
            f"scipy.signal.{name} needs signals of one rank.", got=[aval.text() for aval in avals]
        )
    axis = canonical_axis(axis, avals[0].ndim)
    if not all(aval.size for aval in avals):
        outer = broadcast_shapes(*(a.shape[:axis] + a.shape[axis + 1 :] for a in avals))
        shape = (*outer[:axis], min(a.shape[axis] for a in avals), *outer[axis:])
        return jnp.zeros(shape), jnp.zeros(shape)
    spectra = _spectra(name, signals, axis, segmentation, detrend, return_onesided)
    first, second, *_ = *spectra.transforms, None
    scale = _scale(spectra.window, fs, scaling == "density")
    products = _products(first, second, scale, spectra.sizes.transformed, spectra.is_onesided)
    power = jnp.mean(products, axis=-2) if average == "mean" else _median(products)
    return spectra.frequencies(fs), jnp.moveaxis(power, -1, axis)


def _median(products: Array) -> Array:
    """Medians over segments, of real and imaginary parts, divided by their bias: the expected median of as many squared
    absolute values, of mean 1, of complex normal numbers.
    """
    count = type_of(products).shape[-2]
    odd = np.arange(3, count + 1, 2)
    bias = 1 + np.sum(1 / odd - 1 / (odd - 1))
    if type_of(products).dtype.kind != "c":
        return jnp.median(products, axis=-2) / bias
    parts = jnp.median(products.real, axis=-2) + 1j * jnp.median(products.imag, axis=-2)
    return parts / bias


def istft(
    Zxx: ArrayLike,
    fs: ArrayLike = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
) -> tuple[Array, Array]:
    """(times [n], signals) whose short-time transforms `Zxx` are: sums of its overlapping segments of least squares.

    `boundary` says that `stft` extended the signals by half a segment; for other arguments see there.
    Raises: ArgumentValueError for sizes and axes that don't fit.

    >>> times, signal = istft(stft(jnp.arange(8.0), nperseg=4)[2])
    >>> signal.round(3).astype(int)
    Array([0, 1, 2, 3, 4, 5, 6, 7], dtype=int32)
    """
    aval = aval_of("scipy.signal.istft", Zxx)
    if aval.ndim < 2:
        raise ShapeError("scipy.signal.istft needs transforms [frequencies, times].", got=aval.text())  # fmt: skip
    axes = canonical_axis(freq_axis, aval.ndim), canonical_axis(time_axis, aval.ndim)
    if axes[0] == axes[1]:
        raise ArgumentValueError("scipy.signal.istft needs two different axes.", got=f"axes: {axes}")  # fmt: skip
    count = aval.shape[axes[0]]
    default = 2 * (count - 1) if input_onesided else count
    if is_array_like(window):
        weights, weights_aval = window, aval_of("scipy.signal.istft", window)
        size = default if nperseg is None else known_int("scipy.signal.istft", "nperseg", nperseg)
        if weights_aval.shape != (size,):
            raise ShapeError(
                "scipy.signal.istft needs a window [nperseg].",
                got=[f"window: {weights_aval.text()}", f"nperseg: {size}"],
            )
    else:
        size = default if nperseg is None else known_int("scipy.signal.istft", "nperseg", nperseg)
        if size < 1:
            raise ArgumentValueError("scipy.signal.istft needs nperseg of at least 1.", got=f"nperseg: {size}")  # fmt: skip
        dtype = dtypes.finfo(dtypes.to_inexact_dtype(aval.dtype)).dtype
        weights = periodic_window(window, size).astype(dtype)
    # The length n // 2 + 1 of a one-sided spectrum doesn't say whether n is even.
    is_odd = bool(input_onesided) and size == default + 1
    transformed = (
        (size if is_odd else default)
        if nfft is None
        else known_int("scipy.signal.istft", "nfft", nfft)
    )
    if transformed < size:
        raise ArgumentValueError(
            "scipy.signal.istft needs nfft of at least nperseg.",
            got=f"nfft: {transformed}, nperseg: {size}",
        )
    sizes = _Segments(size, size - _overlap("istft", noverlap, size), transformed)
    signal = _invert(Zxx, weights, axes, sizes, bool(input_onesided), bool(boundary))
    times = jnp.arange(type_of(signal).shape[-1], dtype=dtypes.default_float_dtype()) / fs
    # The time axis is moved to its place among the remaining axes.
    place = axes[1] - (axes[0] < axes[1])
    return times, jnp.moveaxis(signal, -1, place)


@numpy_function(static=("axes", "sizes", "is_onesided", "is_trimmed"))
def _invert(
    transforms: Any,
    window: Any,
    axes: tuple[int, int],
    sizes: _Segments,
    is_onesided: bool,
    is_trimmed: bool,
) -> Array:
    transforms = jnp.moveaxis(transforms, axes, (-1, -2))  # [..., segments, frequencies]
    inverse = jnp.fft.irfft if is_onesided else jnp.fft.ifft
    segments = inverse(transforms, sizes.transformed, -1)[..., : sizes.size]
    window = jnp.asarray(window)
    segments = segments * (window * jnp.sum(window))
    *outer, count, size = type_of(segments).shape
    total = size + (count - 1) * sizes.step
    places = sizes.step * np.arange(count)[:, None] + np.arange(size)
    signal = jnp.zeros((*outer, total), type_of(segments).dtype).at[..., places].add(segments)
    norm = jnp.zeros(total, type_of(window).dtype).at[places].add(window**2)
    signal = signal / jnp.where(norm > _MIN_NORM, norm, 1)
    return signal[..., size // 2 : total - size // 2] if is_trimmed else signal


__all__ = ["csd", "istft", "stft", "welch"]

public_functions(__all__, globals())
