"""Associated Legendre functions and spherical harmonics."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import pellucid.numpy as jnp
from pellucid._machine.base import (
    ArgumentTypeError,
    ArrayLike,
    ShapeError,
    UnsupportedError,
    public_functions,
)
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array
from pellucid.numpy.compiled import numpy_function
from pellucid.numpy.promotion import aval_of, broadcast_arrays, known_int

from .real_functions import promoted_reals


def _legendre(z: Array, sine: Array, m_max: int, n_max: int, is_normalized: bool) -> Array:
    """Pₙᵐ(z) [m_max + 1, n_max + 1, …] for m ≤ n, zeros elsewhere, by recurrence in n (DLMF 14.10.3).

    `sine` is √(1 - z²). Normalized functions are multiplied by √((2n + 1) (n - m)! / (4π (n + m)!)).
    """
    dtype, ndim = z.dtype, z.ndim
    m = np.arange(m_max + 1.0)
    column = lambda x: np.asarray(x, dtype).reshape(-1, *[1] * ndim)
    first = math.sqrt(0.25 / math.pi) if is_normalized else 1.0
    diagonal = jnp.full_like(z, first)
    rows: list[Any] = []
    for n in range(n_max + 1):
        if n:
            factor = math.sqrt((2 * n + 1) / (2 * n)) if is_normalized else 2 * n - 1
            diagonal = diagonal * sine * -factor
        row = jnp.where(column(m == n) != 0, diagonal, jnp.zeros_like(z))
        inside = np.where(m < n, 1.0, 0.0)
        if n:
            if is_normalized:
                scale = np.sqrt(inside * (4 * n * n - 1) / np.where(m < n, n * n - m * m, 1))
                before = (
                    np.sqrt(np.maximum((n - 1) ** 2 - m * m, 0) / max(4 * (n - 1) ** 2 - 1, 1))
                    * scale
                )
            else:
                below = np.where(m < n, n - m, 1)
                scale, before = inside * (2 * n - 1) / below, inside * (n - 1 + m) / below
            row = row + column(scale) * (z * rows[-1])
            if n > 1:
                row = row - column(before) * rows[-2]
        rows.append(row)
    return jnp.stack(rows, 1)


@numpy_function(static=("m", "n", "is_normalized"))
def _values(z: Any, m: int, n: int, is_normalized: bool) -> Array:
    [z] = promoted_reals("lpmn_values", z)
    return _legendre(z, jnp.sqrt((1 - z) * (1 + z)), m, n, is_normalized)


def _degrees(name: str, m: Any, n: Any, z: Any) -> tuple[int, int]:
    aval = aval_of(f"scipy.special.{name}", z)
    if aval.ndim != 1:
        raise ShapeError(f"scipy.special.{name} needs a vector z.", got=aval.text())
    return known_int(f"scipy.special.{name}", "m", m), known_int(f"scipy.special.{name}", "n", n)


def lpmn_values(m: int, n: int, z: ArrayLike, is_normalized: bool) -> Array:
    """Associated Legendre functions Pₙᵐ(z) of orders up to `m`, degrees up to `n`: an array [m + 1, n + 1, size of z].

    They have the sign (-1)ᵐ; NaN outside of [-1, 1] where m > 0. With `is_normalized` they are those of spherical
    harmonics. Source: DLMF 14.6. Raises: ShapeError unless `z` is a vector.

    >>> lpmn_values(1, 1, jnp.array([0.5]), False)[..., 0]
    Array([[ 1.       ,  0.5      ],
           [ 0.       , -0.8660254]], dtype=float32)
    """
    m, n = _degrees("lpmn_values", m, n, z)
    return _values(z, m, n, bool(is_normalized))


@numpy_function(static=("m", "n"))
def _with_derivatives(z: Any, m: int, n: int) -> tuple[Array, Array]:
    [z] = promoted_reals("lpmn", z)
    values = _legendre(z, jnp.sqrt((1 - z) * (1 + z)), m, n, False)
    orders, degrees = np.arange(m + 1.0)[:, None, None], np.arange(n + 1.0)[None, :, None]
    inside = orders <= degrees
    before = jnp.concatenate([jnp.zeros_like(values[:, :1]), values[:, :-1]], 1)
    square = (1 - z) * (1 + z)
    slopes = (
        (degrees + orders).astype(z.dtype) * before - degrees.astype(z.dtype) * (z * values)
    ) / square
    # Limits at 1 and -1: of order 0, ∞ of order 1, of order 2, 0 of higher orders.
    product = degrees * (degrees + 1)
    ends = np.select(
        [orders == 0, orders == 1, orders == 2],
        [product / 2, np.where(degrees > 0, np.inf, 0), -(degrees - 1) * product * (degrees + 2) / 4], 0.0,
    )  # fmt: skip
    parity = np.where((degrees + orders) % 2 == 0, -1.0, 1.0)
    limits = jnp.where(z < 0, (ends * parity).astype(z.dtype), ends.astype(z.dtype))
    slopes = jnp.where(jnp.abs(z) == 1, limits, slopes)
    return values, jnp.where(inside, slopes, 0.0)


def lpmn(m: int, n: int, z: ArrayLike) -> tuple[Array, Array]:
    """`lpmn_values(m, n, z, False)`, and the derivatives by `z` in an array of the same shape.

    `z` is a vector [k]; both results have shape [m + 1, n + 1, k] and a floating-point dtype.
    Raises: ShapeError for a `z` of another rank, DtypeError for complex numbers, ArgumentValueError for negative `n`,
    TypeError for an `m` or `n` that isn't an integer, ArgumentTypeError for lists and strings.

    >>> values, slopes = lpmn(1, 1, jnp.array([0.5]))
    >>> slopes[..., 0].round(3)
    Array([[0.   , 1.   ],
           [0.   , 0.577]], dtype=float32)
    """
    m, n = _degrees("lpmn", m, n, z)
    return _with_derivatives(z, m, n)


@numpy_function(static="n_max")
def _harmonics(n: Array, m: Array, theta: Any, phi: Any, n_max: int) -> Array:
    theta, phi = promoted_reals("sph_harm_y", theta, phi)
    n, m, theta, phi = broadcast_arrays("sph_harm_y", n, m, theta, phi)
    shape = type_of(theta).shape
    n, m, theta, phi = (jnp.ravel(x) for x in (n, m, theta, phi))
    # As in SciPy, polar angles beyond [0, π] are used by their cosine.
    table = _legendre(jnp.cos(theta), jnp.abs(jnp.sin(theta)), n_max, n_max, True)
    order = jnp.abs(m)
    values = table[jnp.clip(order, 0, n_max), jnp.clip(n, 0, n_max), np.arange(theta.size)]
    values = jnp.where((m < 0) & (m % 2 == 1), -values, values)
    values = jnp.where((order > n) | (n < 0), 0.0, jnp.where(n > n_max, np.nan, values))
    angle = m.astype(phi.dtype) * phi
    return (values * jnp.cos(angle) + 1j * (values * jnp.sin(angle))).reshape(shape)


def sph_harm_y(
    n: ArrayLike,
    m: ArrayLike,
    theta: ArrayLike,
    phi: ArrayLike,
    diff_n: int | None = None,
    n_max: int | None = None,
) -> Array:
    """Spherical harmonics of degrees `n` and orders `m` (integers) at polar angles `theta` and azimuths `phi`.

    Arguments are broadcast; results are complex, 0 for |m| > n. `n_max` is the largest degree, which must be stated
    where `n` is traced; degrees above it give NaN. Source: DLMF 14.30.1, with Condon and Shortley's sign.
    Raises: UnsupportedError for `diff_n` (use `jvp`), ArgumentTypeError for `n` or `m` that aren't integers.

    Their shape is that to which the arguments broadcast, their dtype complex64, or complex128 for angles of 64 bits.

    >>> print(f"{complex(sph_harm_y(0, 0, 0.5, 0.3)):.4f}")
    0.2821+0.0000j
    """
    if diff_n is not None:
        raise UnsupportedError(
            "scipy.special.sph_harm_y has no diff_n.", got=f"got {diff_n!r}", do="Use `jvp`."
        )
    for name, x in (("n", n), ("m", m)):
        if aval_of("scipy.special.sph_harm_y", x).dtype.kind not in "iu":
            raise ArgumentTypeError(
                "scipy.special.sph_harm_y needs integers n and m.", got=f"{name}: {type_of(x).text()}"
            )  # fmt: skip
    highest = (
        int(jnp.max(jnp.asarray(n), initial=0))
        if n_max is None
        else known_int("scipy.special.sph_harm_y", "n_max", n_max)
    )
    return _harmonics(jnp.asarray(n), jnp.asarray(m), theta, phi, highest)


__all__ = ["lpmn", "lpmn_values", "sph_harm_y"]

public_functions(__all__, globals())
