"""Functions of `scipy` give what SciPy gives, in float64 where that matters, and have the derivatives of differences."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.fft
import scipy.interpolate
import scipy.ndimage
import scipy.signal
from rotation import rotating

import pellucid as pl
import pellucid.numpy as jnp
from pellucid.scipy import fft, interpolate, ndimage, signal
from pellucid.scipy.signal.windows import periodic_window

X, Y = (np.random.default_rng(i).normal(size=(5, 24)) for i in (1, 2))

ROWS = [
    *(f"{f}(x, y[:3, :4], {m!r})" for f in ("convolve", "correlate", "fftconvolve", "convolve2d", "correlate2d")
      for m in ("full", "same", "valid")),
    "convolve(x[:2], y[:, :3], 'same')", "fftconvolve(x, y[:1, :5], axes=1)", "correlate(x[0], y[0, :5] * 1j, method='fft')",
    "detrend(x, bp=[3, 9])", "detrend(x, axis=0, type='constant')",
    *(f"stft(x, nperseg=8, boundary={b!r}, detrend='linear')[2]" for b in ("zeros", "even", "odd", "constant", None)),
    "stft(x, 4.0, 'blackman', nperseg=7, noverlap=2, nfft=9, axis=1)[2]",
    *(f"csd(x, y, 2.0, nperseg=8, scaling={s!r}, average={a!r})[1]" for s in ("density", "spectrum") for a in ("mean", "median")),
    "welch(x, nperseg=5)[1]", "welch(x.T, nperseg=6, axis=0, window=('gaussian', 2.0))[1]",
    "istft(L.stft(x, nperseg=7)[2], nperseg=7)[1]",
]  # fmt: skip


@pytest.mark.parametrize(
    "row", rotating([(r,) for r in ROWS], lambda case: case[0].partition("(")[0])
)
def test_signals(row) -> None:
    with pl.enable_x64(True):
        ours, theirs = (
            np.asarray(eval(f"L.{row}", {"L": library, "x": X, "y": Y}))
            for library in (signal, scipy.signal)
        )
        np.testing.assert_allclose(ours, theirs, 1e-9, 1e-12)


def test_windows() -> None:
    names = [
        "boxcar", "hann", "hamming", "blackman", "nuttall", "blackmanharris", "flattop", "bartlett", "triang",
        "cosine", ("kaiser", 3.0), ("gaussian", 2.0), "tukey", ("tukey", 0.3), 4.0,
    ]  # fmt: skip
    for name in names:
        for size in (1, 2, 7, 8):
            expected = scipy.signal.get_window(name, size)
            np.testing.assert_allclose(periodic_window(name, size), expected, 1e-6, 1e-12)


def test_cosine_transforms() -> None:
    with pl.enable_x64(True):
        for n in (1, 2, 5, 24, 30):
            for norm in (None, "ortho"):
                for name in ("dct", "idct"):
                    ours = getattr(fft, name)(X, n=n, norm=norm)
                    theirs = getattr(scipy.fft, name)(X, n=n, norm=norm)
                    np.testing.assert_allclose(ours, theirs, 1e-9, 1e-12)
        np.testing.assert_allclose(fft.idctn(fft.dctn(X)), X, 1e-9, 1e-12)


def test_coordinates_and_grids() -> None:
    places = np.linspace(-7.3, 11.4, 60)
    for mode in ("nearest", "mirror"):
        for order in (0, 1):
            ours = ndimage.map_coordinates(X[0, :5], [places], order, mode)
            theirs = scipy.ndimage.map_coordinates(X[0, :5], [places], order=order, mode=mode)
            np.testing.assert_allclose(ours, theirs, 1e-4, 1e-5)
    points = (np.array([0.0, 1, 3, 4, 9]), np.arange(24.0)[::-1])
    xi = np.random.default_rng(3).uniform(-1, 10, (30, 2))
    for options in ({}, {"method": "nearest"}, {"fill_value": None}):
        ours = interpolate.RegularGridInterpolator(points, X, **options)(xi)
        theirs = scipy.interpolate.RegularGridInterpolator(
            points, X, **{"bounds_error": False} | options
        )(xi)
        np.testing.assert_allclose(ours, theirs, 1e-4, 1e-4)


SCALARS = {
    "resize": lambda x: pl.image.resize(x.reshape(2, 3), (3, 2), "cubic"),
    "scale": lambda x: pl.image.scale_and_translate(jnp.sin(jnp.arange(6.0)), (5,), (0,), 0.6 + x[:1], x[1:2], "lanczos3"),
    "fftconvolve": lambda x: signal.fftconvolve(x, x[:3]),
    "correlate": lambda x: signal.correlate(x, x[:3], "same"),
    "stft": lambda x: jnp.abs(signal.stft(x, nperseg=4, detrend="linear")[2]) ** 2,
    "dct": lambda x: fft.dct(x, norm="ortho") ** 2,
    "coordinates": lambda x: ndimage.map_coordinates(x**2, [0.5 + x], 1, "mirror"),
    "grid": lambda x: interpolate.RegularGridInterpolator((jnp.arange(6.0),), x**2)(1 + x),
}  # fmt: skip


@pytest.mark.parametrize("name", rotating([(n,) for n in SCALARS], lambda _: ""))
def test_derivatives_transforms_and_jit(name) -> None:
    x = np.array([0.13, 0.31, 0.72, 0.44, 0.93, 0.27])
    step = 1e-6
    with pl.enable_x64(True):
        function = lambda x: jnp.sum(SCALARS[name](x) * jnp.cos(jnp.arange(SCALARS[name](x).size)).reshape(SCALARS[name](x).shape))  # fmt: skip
        value, gradient = pl.jit(pl.value_and_grad(function))(x)
        shifted = x + step * np.concatenate([np.eye(6), -np.eye(6), np.zeros((1, 6))])
        values = np.asarray(pl.jit(pl.vmap(function))(shifted))
        np.testing.assert_allclose(values[-1], value, 1e-10)
        np.testing.assert_allclose(function(x), value, 1e-10)
        differences = (values[:6] - values[6:12]) / (2 * step)
        np.testing.assert_allclose(gradient, differences, 1e-5, 1e-7)


@pytest.mark.parametrize("window", ["kaiser", "gaussian", ("gaussian",)])
def test_a_window_without_its_parameter_is_refused(window: object) -> None:
    with pytest.raises(pl.errors.ArgumentValueError, match=r"the window \w+ needs a parameter"):
        periodic_window(window, 8)
