"""Window functions for spectra, and the Bessel function that one of them is made of."""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid._machine.base import ArgumentValueError, ArrayLike, dtypes, public_functions
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array

from .compiled import numpy_function
from .creation import arange, linspace, ones
from .elementwise import absolute, cos, sqrt
from .modified_bessel import i0_of
from .partials import evaluate_formula
from .promotion import aval_of, known_int, promote_dtypes_inexact


def _length(name: str, M: int) -> int:
    return max(known_int(name, "M", M), 0)


def _phases(count: int) -> Any:
    """`2 pi n / (count - 1)` for n from 0 to before `count`; None for a window of at most one element."""
    if count <= 1:
        return None
    dtype = dtypes.default_float_dtype()
    return arange(count, dtype=dtype) * np.asarray(2 * np.pi / (count - 1), dtype)[()]


def bartlett(M: int) -> Array:
    """Bartlett window [M]: a triangle that begins and ends with 0.

    Result: shape [M], empty for a negative `M`; the default floating dtype.
    Raises: ArgumentTypeError for a length that is no int.

    >>> bartlett(3)
    Array([0., 1., 0.], dtype=float32)
    """
    count = _length("bartlett", M)
    return ones((count,)) if count <= 1 else 1 - absolute(linspace(-1, 1, count))


def blackman(M: int) -> Array:
    """Blackman window [M]: `0.42 - 0.5 cos(2 pi n / (M - 1)) + 0.08 cos(4 pi n / (M - 1))`.

    Result: shape [M], empty for a negative `M`; the default floating dtype.
    Raises: ArgumentTypeError for a length that is no int.

    >>> blackman(1)
    Array([1.], dtype=float32)
    """
    phases = _phases(count := _length("blackman", M))
    if phases is None:
        return ones((count,))
    return 0.42 - 0.5 * cos(phases) + 0.08 * cos(2 * phases)


def hamming(M: int) -> Array:
    """Hamming window [M]: `0.54 - 0.46 cos(2 pi n / (M - 1))`.

    Result: shape [M], empty for a negative `M`; the default floating dtype.
    Raises: ArgumentTypeError for a length that is no int.

    >>> hamming(1)
    Array([1.], dtype=float32)
    """
    phases = _phases(count := _length("hamming", M))
    return ones((count,)) if phases is None else 0.54 - 0.46 * cos(phases)


def hanning(M: int) -> Array:
    """Hann window [M]: `0.5 - 0.5 cos(2 pi n / (M - 1))`.

    Result: shape [M], empty for a negative `M`; the default floating dtype.
    Raises: ArgumentTypeError for a length that is no int.

    >>> hanning(3)
    Array([0., 1., 0.], dtype=float32)
    """
    phases = _phases(count := _length("hanning", M))
    return ones((count,)) if phases is None else 0.5 * (1 - cos(phases))


def kaiser(M: int, beta: ArrayLike) -> Array:
    """Kaiser window [M] of shape `beta`: `i0(beta sqrt(1 - x²)) / i0(beta)` for x from -1 to 1.

    Result: shape [M], empty for a negative `M`; the default floating dtype.
    Raises: ArgumentTypeError for a length that is no int and for a `beta` that isn't an array, ArgumentValueError for a
    complex `beta`, ShapeError for one that doesn't broadcast to [M].

    >>> kaiser(1, 14)
    Array([1.], dtype=float32)
    """
    aval_of("kaiser", beta, 1)
    count = _length("kaiser", M)
    if count <= 1:
        return ones((count,))
    x = linspace(-1, 1, count)
    return i0(beta * sqrt(1 - x * x)) / i0(beta)


@numpy_function
def i0(x: ArrayLike) -> Array:
    """Modified Bessel function of the first kind of order 0, of real `x`.

    Result: shape of `x`; dtype of `x`, float32 for integers and bools (float64 for 64-bit ones). Source: DLMF 10.25.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ArgumentValueError for complex numbers,
    DtypeError for random keys.

    >>> i0(jnp.array([1.0]))
    Array([1.266066], dtype=float32)
    """
    if aval_of("i0", x).dtype.kind == "c":
        raise ArgumentValueError("jnp.i0 needs real numbers.", got=type_of(x).text())
    return evaluate_formula(i0_of, promote_dtypes_inexact("i0", x))


__all__ = ["bartlett", "blackman", "hamming", "hanning", "i0", "kaiser"]

public_functions(__all__, globals())
