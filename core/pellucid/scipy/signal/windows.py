"""Window functions, which weight the samples of segments, under SciPy's names."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from pellucid._machine.base import ArgumentValueError, public_functions

# A window of n elements is a function of phases 2 pi k / n.
_COSINES = {
    "boxcar": (1.0,), "hann": (0.5, 0.5), "hamming": (0.54, 0.46), "blackman": (0.42, 0.5, 0.08),
    "nuttall": (0.3635819, 0.4891775, 0.1365995, 0.0106411),
    "blackmanharris": (0.35875, 0.48829, 0.14128, 0.01168),
    "flattop": (0.21557895, 0.41663158, 0.277263158, 0.083578947, 0.006947368),
}  # fmt: skip
"""Coefficients of the cosines of multiples of the phase; their signs alternate."""


def _tukey(x: np.ndarray, alpha: float) -> np.ndarray:
    if alpha <= 0:
        return np.ones_like(x)
    rise = np.minimum((1 - np.abs(x)) / min(alpha, 1.0), 1.0)
    return 0.5 - 0.5 * np.cos(np.pi * rise)


_SHAPES: dict[str, tuple[Callable[..., np.ndarray], range]] = {
    "bartlett": (lambda x, n: 1 - np.abs(x), range(1)),
    "triang": (lambda x, n: 1 - np.abs(x) * n / (2 * (n // 2 + 1)), range(1)),
    "cosine": (lambda x, n: np.cos(np.pi / 2 * x * n / (n + 1)), range(1)),
    "kaiser": (
        lambda x, n, beta: np.i0(beta * np.sqrt(np.maximum(1 - x * x, 0))) / np.i0(beta),
        range(1, 2),
    ),
    "gaussian": (lambda x, n, std: np.exp(-0.5 * (x * n / 2 / std) ** 2), range(1, 2)),
    "tukey": (lambda x, n, alpha=0.5: _tukey(x, alpha), range(2)),
}
"""Maps name to (function of x in [-1, 1), of the number n of steps and of parameters; how many parameters it takes)."""
_ALIASES = {"box": "boxcar", "ones": "boxcar", "rect": "boxcar", "rectangular": "boxcar", "hanning": "hann", "black": "blackman"}  # fmt: skip


def periodic_window(window: Any, size: int) -> np.ndarray:
    """The window [size] of this name, without the last element of the symmetric one with `size + 1` elements.

    `window`: a name, a name with parameters, as ("gaussian", 2.0), or the `beta` of a Kaiser window.
    Raises: ArgumentValueError for an unknown window and for one without the parameter that it needs. Source of the
    coefficients: Harris (1978), Nuttall (1981), D'Antona and Ferrero (2006).

    >>> periodic_window("hann", 4)
    array([0. , 0.5, 1. , 0.5])
    """
    if isinstance(window, (int, float)):
        window = ("kaiser", window)
    name, *parameters = (window,) if isinstance(window, str) else window
    name = _ALIASES.get(name, name)
    steps = np.arange(size) / size
    if size == 1 and name in (*_COSINES, *_SHAPES):
        return np.ones(1)
    if name in _COSINES and not parameters:
        signs = itertools.cycle((1, -1))
        terms = [
            s * a * np.cos(2 * np.pi * i * steps)
            for i, (s, a) in enumerate(zip(signs, _COSINES[name], strict=False))
        ]
        return np.sum(terms, axis=0)
    if name in _SHAPES and not parameters and 0 not in _SHAPES[name][1]:
        raise ArgumentValueError(
            f"scipy.signal: the window {name} needs a parameter.", got=f"got {window!r}",
            do=f"For example ({name!r}, 2.0).",
        )  # fmt: skip
    if name not in _SHAPES or len(parameters) not in _SHAPES[name][1]:
        names = ", ".join(sorted((*_COSINES, *_SHAPES)))
        raise ArgumentValueError(
            "scipy.signal: there is no such window.", got=f"got {window!r}",
            do=f"Use one of {names}, or an array.",
        )  # fmt: skip
    return _SHAPES[name][0](2 * steps - 1, size, *parameters)


__all__ = ["periodic_window"]

public_functions(__all__, globals())
