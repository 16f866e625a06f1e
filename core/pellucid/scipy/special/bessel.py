"""Bessel functions of whole order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import pellucid.numpy as jnp
from pellucid._machine.base import ArgumentValueError, ArrayLike, library_code, public_functions
from pellucid._machine.higher_order.custom_jvp import custom_jvp
from pellucid._machine.higher_order.loops import scan
from pellucid._machine.primitives import special
from pellucid._machine.primitives.formulas import Term
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array
from pellucid.numpy.compiled import numpy_function
from pellucid.numpy.modified_bessel import i0_of, i1_of
from pellucid.numpy.promotion import known_int

from .real_functions import promoted_reals, real_function

# Modified functions -----------------------------------------------------------------------------------


@real_function
def i0(x: Term) -> Term:
    """Modified Bessel function of the first kind of order 0.

    The result has the shape of `x`, and its dtype if that is floating-point, else the default floating dtype.
    Raises: DtypeError for complex numbers and PRNG keys, ArgumentTypeError for lists and strings.
    Source: DLMF 10.25.

    >>> print(f"{float(i0(1.0)):.4f}")
    1.2661
    """
    return i0_of(x)


@real_function
def i0e(x: Term) -> Term:
    """Modified Bessel function of the first kind of order 0, times `exp(-|x|)`.

    The result has the shape of `x`, and its dtype if that is floating-point, else the default floating dtype.
    Raises: DtypeError for complex numbers and PRNG keys, ArgumentTypeError for lists and strings.
    Source: DLMF 10.25.2.

    >>> print(f"{float(i0e(1.0)):.4f}")
    0.4658
    """
    return Term(special.bessel_i0e(x.value))


@real_function
def i1(x: Term) -> Term:
    """Modified Bessel function of the first kind of order 1.

    The result has the shape of `x`, and its dtype if that is floating-point, else the default floating dtype.
    Raises: DtypeError for complex numbers and PRNG keys, ArgumentTypeError for lists and strings.
    Source: DLMF 10.25.2.

    >>> print(f"{float(i1(1.0)):.5f}")
    0.56516
    """
    return i1_of(x)


@real_function
def i1e(x: Term) -> Term:
    """Modified Bessel function of the first kind of order 1, times `exp(-|x|)`.

    The result has the shape of `x`, and its dtype if that is floating-point, else the default floating dtype.
    Raises: DtypeError for complex numbers and PRNG keys, ArgumentTypeError for lists and strings.
    Source: DLMF 10.25.2.

    >>> print(f"{float(i1e(1.0)):.5f}")
    0.20791
    """
    return Term(special.bessel_i1e(x.value))


# Functions of the first kind --------------------------------------------------------------------------

_LARGE = 30.0
"""Argument beyond which Hankel's expansions of orders 0 and 1 have all digits of float64."""
_HANKEL_TERMS = 24


def _backward(z: Array, v: int, n_iter: int) -> Array:
    """J₀(z), …, Jᵥ(z) by Miller's method (DLMF 3.6), on the ratios Jₖ / Jₖ₋₁, which don't overflow."""
    most = max(v, _LARGE)
    start = max(n_iter, math.ceil(most + 12 * most ** (1 / 3) + 12))
    # About the rounding error of a denominator that is 0 exactly, which it replaces.
    tiny = np.asarray(np.finfo(z.dtype).eps / 1024, z.dtype)[()]

    def step(state: Any, k: Any) -> Any:
        ratio, total = state  # Jₖ₊₁ / Jₖ, and the sum of Jⱼ / Jₖ over even j > k
        below = 2 * k / z - ratio
        ratio = 1 / jnp.where(below == 0, tiny, below)
        is_even = (k % 2 == 0).astype(z.dtype)
        return (ratio, ratio * (is_even + total)), ratio

    orders = np.arange(start, 0, -1, dtype=z.dtype)
    zeros = jnp.zeros_like(z)
    (_, total), ratios = scan(step, (zeros, zeros), jnp.asarray(orders))
    first = 1 / (1 + 2 * total)[None]
    return jnp.cumprod(jnp.concatenate([first, ratios[::-1][:v]]), 0)


def _hankel(order: int, z: Array) -> Array:
    """J of order 0 or 1 by Hankel's expansion for large positive `z` (DLMF 10.17.3)."""
    coefficients = [1.0]
    for k in range(1, _HANKEL_TERMS):
        coefficients.append(coefficients[-1] * (4 * order**2 - (2 * k - 1) ** 2) / (8 * k))
    signs = [1, 1, -1, -1]
    inverse = 1 / z
    parts = [jnp.zeros_like(z), jnp.zeros_like(z)]
    for k in reversed(range(_HANKEL_TERMS)):
        parts[k % 2] = parts[k % 2] * (inverse * inverse) + signs[k % 4] * coefficients[k]
    even, odd = parts[0], parts[1] * inverse
    # cos(z - φ) and sin(z - φ) for φ = π/4 + order π/2, without rounding z - φ.
    sine, cosine = jnp.sin(z), jnp.cos(z)
    plus, minus = sine + cosine, sine - cosine
    waves = (plus, minus) if order == 0 else (minus, -plus)
    return jnp.sqrt(inverse / math.pi) * (waves[0] * even - waves[1] * odd)


def _forward(z: Array, v: int) -> Array:
    """J₀(z), …, Jᵥ(z) for z > v by their recurrence (DLMF 10.6.1)."""
    values = [_hankel(0, z), _hankel(1, z)]
    for k in range(1, v):
        values.append(2 * k / z * values[k] - values[k - 1])
    return jnp.stack(values[: v + 1])


def _all_orders(z: Array, v: int, n_iter: int) -> Array:
    """J₀(z), …, Jᵥ(z), as an array [v + 1, …], with their derivatives."""

    @custom_jvp
    def function(z: Any) -> Any:
        size = jnp.abs(z)
        limit = max(float(v), _LARGE)
        is_large = size > limit
        near = _backward(jnp.where(is_large, limit, size), v, n_iter)
        far = _forward(jnp.where(is_large, size, limit), v)
        values = jnp.where(is_large, far, near)
        orders = np.arange(v + 1).reshape(-1, *[1] * z.ndim)
        odd = jnp.where(orders % 2 == 1, -values, values)
        values = jnp.where(z < 0, odd, values)
        return jnp.where(jnp.isinf(z), 0.0, values)

    def tangent(t: Any, y: Any, z: Any) -> Any:
        more = _all_orders(z, v + 1, n_iter)
        before = jnp.concatenate([-more[1:2], more[:v]])
        return t * (before - more[1:]) / 2

    function.defjvps(library_code(tangent))
    return function(z)


@numpy_function(static=("v", "n_iter"))
def _bessel_jn(z: Any, v: int, n_iter: int) -> Array:
    [z] = promoted_reals("bessel_jn", z)
    dtype = type_of(z).dtype
    wide = jnp.asarray(z).astype(
        np.promote_types(dtype, np.float32) if dtype.kind == "f" else np.float32
    )
    return _all_orders(wide, v, n_iter).astype(dtype)


def bessel_jn(z: ArrayLike, *, v: int, n_iter: int = 50) -> Array:
    """Bessel functions of the first kind of orders 0 to `v`: J₀(z), …, Jᵥ(z), an array [v + 1, *z.shape].

    `n_iter` is the least order at which the backward recurrence starts; it starts higher where that is too low.
    Source: DLMF 10.2. Raises: ArgumentValueError for a negative `v`.

    >>> bessel_jn(jnp.array([0.0, 1.0]), v=1)
    Array([[1.       , 0.7651977],
           [0.       , 0.4400506]], dtype=float32)
    """
    v, n_iter = (
        known_int("scipy.special.bessel_jn", "v", v),
        known_int("scipy.special.bessel_jn", "n_iter", n_iter),
    )
    if v < 0:
        raise ArgumentValueError(
            "scipy.special.bessel_jn needs an order of at least 0.", got=f"v: {v}"
        )
    return _bessel_jn(z, v, n_iter)


__all__ = ["bessel_jn", "i0", "i0e", "i1", "i1e"]

public_functions(__all__, globals())
