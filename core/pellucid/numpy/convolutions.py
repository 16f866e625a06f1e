"""Convolutions and correlations of vectors, covariances, correlation coefficients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    ArrayLike,
    DtypeError,
    DTypeLike,
    dtypes,
    public_functions,
)
from pellucid._machine.primitives.convolution import conv_general_dilated
from pellucid._machine.primitives.precision import PrecisionLike
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array

from .compiled import numpy_function
from .creation import asarray, full
from .elementwise import absolute, clip, sqrt
from .joining import concatenate
from .manipulation import atleast_2d, diagonal, expand_dims, flip
from .number_kinds import conjugate
from .products import matmul
from .promotion import aval_of, convert, promote_dtypes_inexact
from .reductions import static_dtype, sum
from .statistics import average

_MODES = ("full", "same", "valid")


def _check_operands(name: str, a: ArrayLike, v: ArrayLike, mode: str) -> None:
    avals = [aval_of(name, x, i) for i, x in enumerate((a, v))]
    if mode not in _MODES:
        raise ArgumentValueError(
            f"jnp.{name} has no such mode.",
            got=f"got {mode!r}",
            do=f"Use one of {', '.join(_MODES)}.",
        )
    if any(aval.ndim != 1 or not aval.size for aval in avals):
        raise ArgumentValueError(
            f"jnp.{name} needs two vectors with elements.",
            got=", ".join(aval.text() for aval in avals),
        )


@numpy_function(static=("name", "mode", "precision", "preferred", "flips"))
def _convolve(
    name: str,
    a: Any,
    v: Any,
    mode: str,
    precision: PrecisionLike,
    preferred: np.dtype | None,
    flips: bool,
) -> Any:
    """The convolution of vectors `a` and `v`; their correlation, with `v` conjugated, unless `flips`."""
    a, v = promote_dtypes_inexact(name, a, v)
    v = v if flips else conjugate(v)
    is_swapped = type_of(a).shape[0] < type_of(v).shape[0]
    a, v = (v, a) if is_swapped else (a, v)
    result = direct_convolution(a, v if flips else flip(v), mode, precision, preferred)
    return flip(result) if is_swapped and not flips else result


def window_of_mode(mode: str, size: int, kernel_size: int) -> tuple[int, int]:
    """(start, length) of the part that `mode` keeps of the full convolution of `size` and `kernel_size` elements
    along an axis.

    "same" keeps the middle `size` elements.
    """
    if mode == "full":
        return 0, size + kernel_size - 1
    if mode == "same":
        return (kernel_size - 1) // 2, size
    shorter = min(size, kernel_size)
    return shorter - 1, max(size, kernel_size) - shorter + 1


def direct_convolution(
    a: Array,
    v: Array,
    mode: str,
    precision: PrecisionLike = None,
    preferred: DTypeLike | None = None,
) -> Any:
    """Convolution of two arrays of one rank and dtype; with mode "same" the result has the shape of `a`."""
    shape, kernel_shape = type_of(a).shape, type_of(v).shape
    windows = [window_of_mode(mode, n, k) for n, k in zip(shape, kernel_shape, strict=True)]
    if math.prod(shape) < math.prod(kernel_shape):
        a, v, shape, kernel_shape = v, a, kernel_shape, shape
    padding = [
        (k - 1 - start, start + length - n)
        for (start, length), n, k in zip(windows, shape, kernel_shape, strict=True)
    ]
    return conv_general_dilated(
        a[None, None], flip(v)[None, None], (1,) * len(shape), padding, precision=precision,
        preferred_element_type=preferred,
    )[0, 0]  # fmt: skip


def convolve(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "full",
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Convolution of two vectors [n] and [m], floating.

    `mode`: "full" [n + m - 1], "same" [max(n, m)] its middle, "valid" [max - min + 1] where they overlap wholly.
    Raises: ArgumentValueError for arrays that are no vectors or empty.

    >>> convolve(jnp.array([1, 2, 3]), jnp.array([0, 1]))
    Array([0., 1., 2., 3.], dtype=float32)
    """
    _check_operands("convolve", a, v, mode)
    preferred = static_dtype("convolve", preferred_element_type)
    return _convolve("convolve", a, v, mode, precision, preferred, flips=True)


def correlate(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "valid",
    *,
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Cross-correlation of two vectors, sums of `a[k + i] * conj(v[i])`, floating. Modes are those of `convolve`.

    Raises: ArgumentValueError for arrays that are no vectors or empty.

    >>> correlate(jnp.array([1, 2, 3]), jnp.array([0, 1]))
    Array([2., 3.], dtype=float32)
    """
    _check_operands("correlate", a, v, mode)
    preferred = static_dtype("correlate", preferred_element_type)
    return _convolve("correlate", a, v, mode, precision, preferred, flips=False)


def cov(
    m: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Covariance matrix of the variables in the rows of `m` (columns, unless `rowvar`), and of `y` likewise.

    Divides by the number of observations less `ddof`, by default 1, or 0 with `bias`. `fweights` say how often each
    observation counts, `aweights` how much. Of one variable the result has no dimensions.
    Raises: ArgumentValueError for more than two dimensions, weights of another size, and `ddof` that isn't an integer.

    >>> cov(jnp.array([1.0, 2.0, 4.0]))
    Array(2.3333333, dtype=float32)
    """
    return _covariance(
        "cov", m, y, rowvar, (0 if bias else 1) if ddof is None else ddof, fweights, aweights, dtype
    )


def _covariance(
    caller: str,
    m: ArrayLike,
    y: ArrayLike | None,
    rowvar: bool,
    ddof: int = 1,
    fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None,
    dtype: DTypeLike | None = None,
) -> Any:
    for i, x in enumerate([m] if y is None else [m, y]):
        if aval_of(caller, x, i).ndim > 2:
            raise ArgumentValueError(
                f"jnp.{caller} needs vectors or matrices.", got=type_of(x).text()
            )
    if not isinstance(ddof, (int, np.integer)):
        raise ArgumentValueError(f"jnp.{caller} needs a whole number `ddof`.", got=f"got {ddof!r}")
    chosen = static_dtype(caller, dtype)
    if chosen is not None and not dtypes.issubdtype(chosen, np.inexact):
        raise DtypeError(
            f"jnp.{caller} needs a floating or complex dtype.", got=f"dtype: {chosen.name}"
        )
    static = bool(rowvar), int(ddof), chosen
    return _cov(caller, m, y, fweights, aweights, *static)


@numpy_function(static=("caller", "rowvar", "ddof", "dtype"))
def _cov(
    caller: str,
    m: ArrayLike,
    y: ArrayLike | None,
    fweights: ArrayLike | None,
    aweights: ArrayLike | None,
    rowvar: bool,
    ddof: int,
    dtype: np.dtype | None,
) -> Any:
    arrays = promote_dtypes_inexact(caller, *([m] if y is None else [m, y]))
    if dtype is not None:
        arrays = [convert(x, type_of(x), dtype) for x in arrays]
    rows = []
    for i, x in enumerate(arrays):
        x = atleast_2d(x)
        rows.append(x.T if not rowvar and type_of(x).shape[0] != 1 else x)
        if i and type_of(rows[0]).shape[1] != type_of(rows[1]).shape[1]:
            raise ArgumentValueError(
                f"jnp.{caller} needs as many observations of `y` as of `m`.",
                got=", ".join(type_of(each).text() for each in arrays),
            )
    x = rows[0] if y is None else concatenate(rows, axis=0)
    count, observations = type_of(x).shape
    if not count:
        return full((0, 0), 0, type_of(x).dtype)
    weights = _observation_weights(caller, fweights, aweights, observations)
    mean, total = average(x, axis=1, weights=weights, returned=True)
    total = total[0]
    if weights is None:
        divisor = total - ddof
    elif not ddof:
        divisor = total
    elif aweights is None:
        divisor = total - ddof
    else:
        divisor = total - ddof * sum(weights * asarray(aweights)) / total
    if not observations:
        return full((count, count), np.nan, type_of(x).dtype).squeeze()
    x = x - expand_dims(mean, 1)
    weighted = x if weights is None else x * weights
    result = matmul(x, conjugate(weighted.T)) / divisor
    return result.squeeze()


def _observation_weights(
    caller: str, fweights: ArrayLike | None, aweights: ArrayLike | None, observations: int
) -> Any:
    """The product of `fweights` and `aweights`; None if both are None."""
    weights = None
    for name, each in (("fweights", fweights), ("aweights", aweights)):
        if each is None:
            continue
        aval = aval_of(caller, each)
        if aval.shape != (observations,):
            raise ArgumentValueError(
                f"jnp.{caller} needs {name} for each of {observations} observations.",
                got=aval.text(),
            )
        if name == "fweights" and aval.dtype not in dtypes.KINDS["integral"]:
            raise ArgumentTypeError(f"jnp.{caller} needs integer fweights.", got=aval.text())
        each = absolute(each)
        weights = each if weights is None else weights * each
    return weights


def corrcoef(
    x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, dtype: DTypeLike | None = None
) -> Array:
    """Correlation coefficients of the variables in the rows of `x` and `y`; see `cov`. Parts lie within -1 and 1.

    Result: shape [n, n] for n variables, a scalar for one; floating or complex dtype.
    Raises: ArgumentTypeError for lists and other values that aren't arrays, ArgumentValueError for more than two
    dimensions and for other numbers of observations in `y`.

    >>> corrcoef(jnp.array([[1.0, 2.0], [2.0, 1.0]]))
    Array([[ 0.99999994, -0.99999994],
           [-0.99999994,  0.99999994]], dtype=float32)
    """
    return _correlations(_covariance("corrcoef", x, y, rowvar, dtype=dtype))


@numpy_function
def _correlations(result: Any) -> Any:
    """Correlation coefficients of variables with the covariances `result`."""
    if not type_of(result).ndim:
        return result / result
    deviations = sqrt(diagonal(result).real)
    result = result / expand_dims(deviations, 1) / deviations
    if type_of(result).dtype.kind == "c":
        re, im = clip(result.real, -1, 1), clip(result.imag, -1, 1)
        return re + 1j * im
    return clip(result, -1, 1)


__all__ = ["convolve", "correlate", "corrcoef", "cov"]

public_functions(__all__, globals())
