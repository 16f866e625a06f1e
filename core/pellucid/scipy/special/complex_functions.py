"""Special functions of complex numbers: Faddeeva's function, and the logarithm of the gamma function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import pellucid.numpy as jnp
from pellucid._machine.base import ArrayLike, library_code, public_functions
from pellucid._machine.higher_order.custom_jvp import custom_jvp
from pellucid._machine.primitives.conversion import complex as complex_of
from pellucid._machine.primitives.formulas import (
    Term,
    cos,
    exp,
    floor,
    maximum,
    select,
    sin,
    square,
)
from pellucid._machine.tracing import type_of
from pellucid._machine.xla.arrays import Array
from pellucid.numpy.compiled import numpy_function
from pellucid.numpy.promotion import promote_dtypes_inexact

from .normal import erfcx_of
from .real_functions import real_function

_ROOT_PI = math.sqrt(math.pi)

# Faddeeva's function ----------------------------------------------------------------------------------

_LAST_NODE = 11
_STEP = math.sqrt(math.pi / (_LAST_NODE + 1))


def _upper_right(x: Term, y: Term) -> tuple[Term, Term]:
    """w(x + iy) for x, y ≥ 0 by the trapezoidal or midpoint rule with the residues of its poles.

    Source: Al Azah and Chandler-Wilde, Computation of the Complex Error Function Using Modified Trapezoidal Rules, SIAM
    J. Numer. Anal. 59, 2021: whichever rule has no node close to x, and no residue for large y.
    """
    h = _STEP
    phase = x * (1 / h)
    phase = phase - floor(phase)
    above = (y >= x) & (y >= math.pi / h)
    at_nodes = (y < x) & (phase >= 0.25) & (phase <= 0.75)
    real, imag = x.filled(0), x.filled(0)
    for k in range(_LAST_NODE + 1):
        node, middle = k * h, (k + 0.5) * h
        t = select(at_nodes, node, x.filled(middle))
        weight = select(
            at_nodes,
            math.exp(-node * node) * (0.5 if k == 0 else 1),
            x.filled(math.exp(-middle * middle)),
        )
        before, after = x - t, x + t
        scale_before, scale_after = (
            weight / (square(before) + square(y)),
            weight / (square(after) + square(y)),
        )
        real = real + (scale_before + scale_after)
        imag = imag + (before * scale_before + after * scale_after)
    real, imag = y * real * (h / math.pi), imag * (h / math.pi)
    # Residue: 2 exp(-z²) / (1 ± exp(-2πiz/h)), both multiplied by exp(-2πy/h).
    decay = exp(y * (-2 * math.pi / h))
    sign = select(at_nodes, -1.0, x.filled(1))
    turn = 2 * math.pi * phase
    below_real, below_imag = decay + sign * cos(turn), -(sign * sin(turn))
    size = 2 * exp((y - x) * (y + x) - y * (2 * math.pi / h))
    angle = -2 * (x * y)
    top_real, top_imag = size * cos(angle), size * sin(angle)
    norm = square(below_real) + square(below_imag)
    pole_real = (top_real * below_real + top_imag * below_imag) / norm
    pole_imag = (top_imag * below_real - top_real * below_imag) / norm
    real = select(above, real, real + pole_real)
    imag = select(above, imag, imag + pole_imag)
    # Far away i / (√π z), without overflow.
    largest = maximum(x, y)
    u, v = x / largest, y / largest
    scale = 1 / (_ROOT_PI * largest * (square(u) + square(v)))
    far = largest > 1 / math.sqrt(float(x.limits.eps))
    real, imag = select(far, v * scale, real), select(far, u * scale, imag)
    real = select(x == 0, erfcx_of(y), real)
    imag = select(x == 0, 0.0, imag)
    real = select(y == 0, exp(-square(x)), real)
    infinite = largest == np.inf
    return select(infinite, 0.0, real), select(infinite, 0.0, imag)


@custom_jvp
def _wofz(z: Array) -> Array:
    x, y = Term(jnp.real(z)), Term(jnp.imag(z))
    real, imag = _upper_right(abs(x), abs(y))
    upper = complex_of(real.value, select(x < 0, -imag, imag).value)
    # w(z) = 2 exp(-z²) - w(-z) below the real axis.
    size, angle = 2 * exp((y - x) * (y + x)), -2 * (x * y)
    turned = complex_of((size * cos(angle)).value, (size * sin(angle)).value)
    return jnp.where((y < 0).value, turned - jnp.conj(upper), upper)


_wofz.defjvps(library_code(lambda t, w, z: t * (2j / _ROOT_PI - 2 * z * w).astype(w.dtype)))


@numpy_function
def wofz(z: ArrayLike) -> Array:
    """Faddeeva's function exp(-z²) erfc(-iz); complex also for real `z`.

    The result has the shape of `z`, and complex64, or complex128 for arguments of 64 bits.
    Raises: DtypeError for PRNG keys, ArgumentTypeError for lists and strings.
    Source: DLMF 7.2.3.

    >>> print(f"{complex(wofz(1.0)):.4f}")
    0.3679+0.6072j
    """
    [z] = promote_dtypes_inexact("scipy.special.wofz", z)
    dtype = (
        np.promote_types(np.complex64, type_of(z).dtype)
        if type_of(z).dtype.kind in "cf"
        else np.complex64
    )
    return _wofz(jnp.asarray(z).astype(dtype))


def _complex_erfcx(z: Array) -> Array:
    return _wofz(complex_of(-jnp.imag(z), jnp.real(z)))


@real_function(complex=_complex_erfcx)
def erfcx(x: Term) -> Term:
    """Scaled complementary error function exp(x²) erfc(x), also of complex numbers.

    The result has the shape of `x`, and its dtype if that is floating-point or complex, else the default floating
    dtype.
    Raises: DtypeError for PRNG keys, ArgumentTypeError for lists and strings.
    Source: DLMF 7.2.3.

    >>> print(f"{float(erfcx(100.0)):.6f}")
    0.005642
    """
    return erfcx_of(x)


# Gamma function -----------------------------------------------------------------------------------------


def _zeta_less_one(k: int) -> float:
    """ζ(k) - 1: terms below 60 and Euler and Maclaurin's formula for the others (DLMF 25.2.9)."""
    edge = 60.0**-k
    tail = edge * (60 / (k - 1) + 0.5 + k / 720 - k * (k + 1) * (k + 2) / (720 * 60**3))
    return math.fsum([*(float(j) ** -k for j in range(2, 60)), tail])


_ZETAS = [_zeta_less_one(k) for k in range(2, 29)]
"""ζ(k) - 1 for k = 2, 3, …"""
_STIRLING = (
    1 / 12,
    -1 / 360,
    1 / 1260,
    -1 / 1680,
    1 / 1188,
    -691 / 360360,
    1 / 156,
    -3617 / 122400,
)
_SHIFT = 8


def _horner(x: Array, coefficients: Any) -> Array:
    value = jnp.full_like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        value = value * x + c
    return value


def _beside_one(t: Array) -> Array:
    """log Γ(1 + t) for |t| ≤ 1/2 (DLMF 5.7.3)."""
    signed = [(-1) ** k * c / k for k, c in enumerate(_ZETAS, 2)]
    return t * (1 - float(np.euler_gamma)) - jnp.log1p(t) + t * t * _horner(t, signed)


def _right_half(z: Array) -> Array:
    """log Γ(z) for Re z ≥ 1/2."""
    product = sum((jnp.log(z + k) for k in range(1, _SHIFT)), start=jnp.log(z))
    large = jnp.abs(jnp.imag(z)) + jnp.real(z) > _SHIFT
    w = jnp.where(large, z, z + _SHIFT)
    stirling = (w - 0.5) * (jnp.log(w) - 1) + (0.5 * math.log(2 * math.pi) - 0.5)
    stirling = stirling + _horner(1 / (w * w), _STIRLING) / w
    value = jnp.where(large, stirling, stirling - product)
    value = jnp.where(
        jnp.abs(z - 2) <= 0.5,
        _beside_one(jnp.where(jnp.abs(z - 2) <= 0.5, z - 2, 0)) + jnp.log(z - 1),
        value,
    )
    return jnp.where(
        jnp.abs(z - 1) <= 0.5, _beside_one(jnp.where(jnp.abs(z - 1) <= 0.5, z - 1, 0)), value
    )


def _complex_digamma(z: Array) -> Array:
    """ψ(z) by its recurrence and asymptotic series (DLMF 5.11.2), reflected for Re z < 1/2 (DLMF 5.5.4)."""
    left = jnp.real(z) < 0.5
    right = jnp.where(left, 1 - z, z)
    total = sum((1 / (right + k) for k in range(1, _SHIFT)), start=1 / right)
    w = right + _SHIFT
    series = [(2 * k + 1) * c for k, c in enumerate(_STIRLING)]
    value = jnp.log(w) - 0.5 / w - _horner(1 / (w * w), series) / (w * w) - total
    return jnp.where(left, value - math.pi / jnp.tan(math.pi * z), value)


@custom_jvp
def complex_loggamma(z: Any) -> Array:
    """log Γ(z), for Re z < 1/2 by reflection in the upper half-plane, where log sin(πz) has a branch without cuts."""
    is_lower = jnp.signbit(jnp.imag(z))
    left = jnp.real(z) < 0.5
    value = _right_half(jnp.where(left, 1 - z, z))
    upper = jnp.where(is_lower, jnp.conj(z), z)
    near = upper - jnp.round(jnp.real(upper))  # has the same exponential, with more digits
    sine = jnp.log1p(-jnp.exp(2j * math.pi * near)) - 1j * math.pi * (upper - 0.5) - math.log(2)
    sine = sine.astype(z.dtype)
    reflected = math.log(math.pi) - jnp.where(is_lower, jnp.conj(sine), sine) - value
    return jnp.where(left, reflected, value)


complex_loggamma.defjvps(library_code(lambda t, y, z: t * _complex_digamma(z)))


def complex_gamma(z: ArrayLike) -> Array:
    """Γ(z) of complex numbers."""
    return jnp.exp(complex_loggamma(z))


__all__ = ["erfcx", "wofz"]

public_functions(__all__, globals())
