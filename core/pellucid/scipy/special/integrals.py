"""Exponential, sine, cosine and Fresnel integrals, and the dilogarithm."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pellucid._machine.base import public_functions
from pellucid._machine.primitives import formulas
from pellucid._machine.primitives.formulas import (
    Term,
    cos,
    digamma,
    exp,
    lgamma,
    log,
    log1p,
    maximum,
    minimum,
    polynomial,
    select,
    sin,
    square,
)
from pellucid.numpy.partials import removable, with_partials

from . import coefficients as tables
from .real_functions import (
    is_finite,
    is_whole,
    looped,
    of_unit,
    real_function,
    series,
    split,
    undifferentiable,
)

_EULER = float(np.euler_gamma)


def beside(x: Term, zero: tuple[float, float]) -> Term:
    """`x` minus a number stated as the sum of two."""
    return (x - zero[0]) - zero[1]


def log_ratio(x: Term, zero: tuple[float, float]) -> Term:
    """log(x / zero), without cancellation where they are close."""
    away = beside(x, zero) * (1 / sum(zero))
    return select(abs(away) < 0.5, log1p(away), log(x) - math.log(sum(zero)))


# Exponential integrals --------------------------------------------------------------------------------


@with_partials(lambda y, x: select(x < 0, np.nan, -exp(-x) / x))
def exp1_of(x: Term) -> Term:
    """E₁(x) for x ≥ 0, by series of its entire part and of x exp(x) E₁(x)."""
    near = x * series(minimum(x, x.constant(1)), 0, 1, tables.E1_NEAR) - (log(x) + _EULER)
    far = exp(-x) * of_unit(2 - 16 / (maximum(x, x.constant(1)) + 3), tables.E1_FAR) / x
    value = select(x <= 1, near, far)
    return select(x == np.inf, 0.0, select(x < 0, np.nan, value))


@with_partials(lambda y, x: exp(x) / x)
def expi_of(x: Term) -> Term:
    """Ei(x): beside its zero as log(x / x₀) and a multiple of x - x₀ (Cody and Thacher, Math. Comp. 23, 1969)."""
    near = exp(0.5 * x) * series(minimum(x, x.constant(6)), 0, 6, tables.EI_NEAR)
    near = log_ratio(x, tables.EI_ZERO) + beside(x, tables.EI_ZERO) * near
    v = 1 / x
    middle = series(v, 1 / 18, 1 / 6, tables.EI_MIDDLE)
    far = series(v, 0, 1 / 18, tables.EI_FAR)
    half = exp(0.5 * x)  # its square may overflow where the result does not
    large = half * (select(x < 18, middle, far) / x) * half
    value = select(x < 6, near, large)
    value = select(x < 0, -exp1_of(abs(x)), value)
    return select(half == np.inf, np.inf, value)


def _expn_slope(y: Term, n: Term, x: Term) -> Term:
    """-Eₙ₋₁(x), the derivative of Eₙ(x); in closed form for n = 0."""
    below = exp(-x) * (1 / x + 1 / square(x))
    return -select(n == 0, below, expn_of(maximum(n - 1, n.filled(0)), x))


@with_partials(undifferentiable("expn", "n"), _expn_slope)
def expn_of(n: Term, x: Term) -> Term:
    """Eₙ(x) for whole n: a power series for x ≤ 1 (DLMF 8.19.8), a continued fraction beyond (DLMF 8.19.17)."""
    is_far, one, order = x > 1, x.filled(1), n - 1
    half = 0.5 * order
    sign = 1 - 4 * abs(half - formulas.nearest(half))
    safe = maximum(n, one)
    middle = sign * exp(order * log(x) - lgamma(safe)) * (digamma(safe) - log(x))
    d = 1 / (x + n)
    state = [one, select(order == 0, 0.0, -1 / order), d, d, d]

    def step(k: Term, power: Term, total: Term, d: Term, term: Term, fraction: Term) -> list[Term]:
        power = power * (-x / k)
        total = total + select(order == k, 0.0, power / (k - order))
        factor = k * (order + k) * d
        d = 1 / (x + n + 2 * k - factor)
        term = term * factor * d
        changed = term > 0.1 * fraction * x.limits.eps
        return [(is_far & changed) | ((x <= 1) & (k < 20)), power, total, d, term, fraction + term]

    active = (x > 0) & is_finite(x) & (n > 0)
    _, _, total, _, _, fraction = looped(step, [active, *state])
    value = select(is_far, exp(-x) * fraction, middle - total)
    first, power = exp1_of(x), exp(-x)
    value = select((n == 2) & (x < 2), power - x * first, value)
    value = select(n == 0, power / x, select(n == 1, first, value))
    at_zero = select(n > 1, 1 / order, np.inf)
    value = select(x == 0, at_zero, select(x == np.inf, 0.0, value))
    defined = (x >= 0) & (n >= 0) & is_whole(n)
    return select(defined, value, np.nan)


# Sine and cosine integrals ----------------------------------------------------------------------------

_MIDDLE = 2.0
_NEAR = 5.0


def _sici_far(x: Term) -> tuple[Term, Term]:
    """The auxiliary functions f and g for x ≥ 5 (DLMF 6.2.17, 6.2.18)."""
    inverse = 1 / maximum(x, x.constant(_NEAR))
    v = square(inverse)
    f = inverse * series(v, 0, _NEAR**-2, tables.SICI_F)
    return f, v * series(v, 0, _NEAR**-2, tables.SICI_G)


_SINC = [(-1) ** k / math.factorial(2 * k + 1) for k in range(8)]


def _sinc(x: Term) -> Term:
    """sin(x) / x, by its series at 0."""
    return removable(x, lambda x: sin(x) / x, 0.5, lambda x: polynomial(square(x), _SINC))


@with_partials(lambda y, x: _sinc(x))
def si_of(x: Term) -> Term:
    """Si(x)."""
    size = abs(x)
    f, g = _sici_far(size)
    near = x * series(minimum(square(x), x.constant(_NEAR**2)), 0, _NEAR**2, tables.SI_NEAR)
    far = 0.5 * math.pi - (f * cos(size) + g * sin(size))
    far = select(size == np.inf, 0.5 * math.pi, far)
    return select(size <= _NEAR, near, select(x < 0, -far, far))


@with_partials(lambda y, x: cos(x) / x)
def ci_of(x: Term) -> Term:
    """Ci(|x|), up to 5 with its zeros as factors or in a logarithm."""
    size = abs(x)
    f, g = _sici_far(size)
    t = minimum(square(size), x.constant(_MIDDLE**2))
    away = beside(size, tables.CI_ZERO) * (size + sum(tables.CI_ZERO))
    near = log_ratio(size, tables.CI_ZERO) + away * series(t, 0, _MIDDLE**2, tables.CI_NEAR)
    middle = minimum(maximum(size, x.constant(_MIDDLE)), x.constant(_NEAR))
    middle = beside(size, tables.CI_SECOND_ZERO) * series(middle, _MIDDLE, _NEAR, tables.CI_MIDDLE)
    far = select(x == np.inf, 0.0, f * sin(size) - g * cos(size))
    return select(size <= _MIDDLE, near, select(size <= _NEAR, middle, far))


# Fresnel integrals ------------------------------------------------------------------------------------

_FRESNEL_NEAR = 1.6
_FRESNEL_FAR = 2.25


def _quarter_square(x: Term) -> Term:
    """x² / 2 less a multiple of 2, exactly: half turns of the Fresnel integrals' angle."""
    high, low = split(x)
    total = 0.5 * square(high)
    rest = low * (x + high) * 0.5
    total = total - 2 * formulas.nearest(0.5 * total)
    total = total + (rest - 2 * formulas.nearest(0.5 * rest))
    # Numbers this large are multiples of 2; their squares may overflow.
    return select((abs(x) > 4 / float(x.limits.eps)) & is_finite(x), 0.0, total)


def _fresnel_far(x: Term) -> tuple[Term, Term, Term, Term]:
    """(f, g, sine, cosine) at x ≥ 1.6, from which S and C follow (DLMF 7.5.3, 7.5.4)."""
    inverse = 1 / maximum(x, x.constant(_FRESNEL_NEAR))
    v = square(square(inverse))
    split_at = _FRESNEL_FAR**-4

    def auxiliary(middle: Any, far: Any) -> Term:
        near = series(v, split_at, _FRESNEL_NEAR**-4, middle)
        return select(v > split_at, near, series(v, 0, split_at, far))

    f = inverse * auxiliary(tables.FRESNEL_F_MIDDLE, tables.FRESNEL_F_FAR) * (1 / math.pi)
    g = auxiliary(tables.FRESNEL_G_MIDDLE, tables.FRESNEL_G_FAR) * (1 / math.pi**2)
    angle = math.pi * _quarter_square(x)
    return f, g * inverse * square(inverse), sin(angle), cos(angle)


def _fresnel(x: Term, near: Term, far: Term) -> Term:
    """`near` for |x| up to 1.6, beyond it `far` with the sign of `x`."""
    far = select(abs(x) == np.inf, 0.5, far)
    return select(abs(x) <= _FRESNEL_NEAR, near, select(x < 0, -far, far))


def _fourth_power(x: Term) -> Term:
    return minimum(square(square(x)), x.constant(_FRESNEL_NEAR**4))


@with_partials(lambda y, x: sin(math.pi * _quarter_square(x)))
def fresnel_s_of(x: Term) -> Term:
    """S(x), the integral of sin(πt²/2)."""
    f, g, sine, cosine = _fresnel_far(abs(x))
    near = x * square(x) * series(_fourth_power(x), 0, _FRESNEL_NEAR**4, tables.FRESNEL_S)
    return _fresnel(x, near, 0.5 - (f * cosine + g * sine))


@with_partials(lambda y, x: cos(math.pi * _quarter_square(x)))
def fresnel_c_of(x: Term) -> Term:
    """C(x), the integral of cos(πt²/2)."""
    f, g, sine, cosine = _fresnel_far(abs(x))
    near = x * series(_fourth_power(x), 0, _FRESNEL_NEAR**4, tables.FRESNEL_C)
    return _fresnel(x, near, 0.5 + (f * sine - g * cosine))


# The dilogarithm --------------------------------------------------------------------------------------


@with_partials(lambda y, x: _log_by_one_less(x))
def spence_of(x: Term) -> Term:
    """Li₂(1 - x), by its series around 1 and reflections to there (DLMF 25.12.4, 25.12.6)."""
    y = select(x > 1.5, 1 / x, x)
    is_small = y < 0.5
    w = select(is_small, -y, y - 1)
    core = (0 - w) * series(w, -0.5, 0.5, tables.SPENCE)
    product = select(y == 0, 0.0, log(y) * log1p(-y))
    value = select(is_small, math.pi**2 / 6 - product - core, core)
    value = select(x > 1.5, -0.5 * square(log(x)) - value, value)
    return select(x == np.inf, -np.inf, select(x < 0, np.nan, value))


_LOG_SERIES = [(-1) ** (k + 1) / (k + 1) for k in range(18)]


def _log_by_one_less(x: Term) -> Term:
    """log(x) / (1 - x), by its series at 1."""
    near = lambda w: polynomial(w, _LOG_SERIES)
    return removable(x - 1, lambda w: -log(x) / w, 0.1, near)


# Public functions -------------------------------------------------------------------------------------


@real_function
def exp1(x: Term) -> Term:
    """Exponential integral E₁: the integral of exp(-t) / t from `x` to ∞; NaN for negative `x`.

    The result has the shape of `x`, and its dtype if that is floating-point, else the default floating dtype.
    Raises: DtypeError for complex numbers and PRNG keys, ArgumentTypeError for lists and strings.
    Source: DLMF 6.2.1.

    >>> exp1(jnp.array([0.5, 1.0]))
    Array([0.55977356, 0.2193839 ], dtype=float32)
    """
    return exp1_of(x)


@real_function
def expi(x: Term) -> Term:
    """Exponential integral Ei: the principal value of the integral of exp(t) / t from -∞ to `x`.

    The result has the shape of `x`, and its dtype if that is floating-point, else the default floating dtype.
    Raises: DtypeError for complex numbers and PRNG keys, ArgumentTypeError for lists and strings.
    Source: DLMF 6.2.5.

    >>> expi(jnp.array([-1.0, 1.0]))
    Array([-0.2193839,  1.8951176], dtype=float32)
    """
    return expi_of(x)


@real_function(takes_sequences=True)
def expn(n: Term, x: Term) -> Term:
    """Generalized exponential integral Eₙ: the integral of exp(-xt) / tⁿ from 1 to ∞, for whole `n` of at least 0.

    NaN for other `n` and for negative `x`. There is no derivative by `n`. Source: DLMF 8.19.

    The result has the shape to which the arguments broadcast, and the floating-point dtype to which they promote.
    Raises: DtypeError for complex numbers and PRNG keys, ShapeError for shapes that do not fit, ArgumentTypeError for
    strings.

    >>> print(f"{float(expn(2, 1.0)):.5f}")
    0.14850
    """
    return expn_of(n, x)


@real_function
def sici(x: Term) -> tuple[Term, Term]:
    """Sine and cosine integrals (Si, Ci): the integral of sin(t) / t from 0, and γ + log x + that of (cos(t) - 1) / t.

    For negative `x`, Ci is that of `-x`. Source: DLMF 6.2.9, 6.2.13.

    Both results have the shape of `x`, and its dtype if that is floating-point, else the default floating dtype.
    Raises: DtypeError for complex numbers and PRNG keys, ArgumentTypeError for lists and strings.

    >>> si, ci = sici(1.0)
    >>> print(f"{float(si):.5f} {float(ci):.5f}")
    0.94608 0.33740
    """
    return si_of(x), ci_of(x)


@real_function
def fresnel(x: Term) -> tuple[Term, Term]:
    """Fresnel integrals (S, C): those of sin(πt²/2) and cos(πt²/2) from 0 to `x`.

    Both results have the shape of `x`, and its dtype if that is floating-point, else the default floating dtype.
    Raises: DtypeError for complex numbers and PRNG keys, ArgumentTypeError for lists and strings.
    Source: DLMF 7.2.7, 7.2.8.

    >>> s, c = fresnel(1.0)
    >>> print(f"{float(s):.5f} {float(c):.5f}")
    0.43826 0.77989
    """
    return fresnel_s_of(x), fresnel_c_of(x)


@real_function(takes_sequences=True)
def spence(x: Term) -> Term:
    """Spence's function, the dilogarithm Li₂(1 - `x`): the integral of log(t) / (1 - t) from 1 to `x`; NaN below 0.

    The result has the shape of `x`, and its dtype if that is floating-point, else the default floating dtype.
    Raises: DtypeError for complex numbers and PRNG keys, ArgumentTypeError for strings.
    Source: DLMF 25.12.

    >>> spence(jnp.array([0.0, 1.0]))
    Array([1.644934, 0.      ], dtype=float32)
    """
    return spence_of(x)


__all__ = ["exp1", "expi", "expn", "fresnel", "sici", "spence"]

public_functions(__all__, globals())
