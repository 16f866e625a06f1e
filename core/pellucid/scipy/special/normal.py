"""Error functions of real arguments, and the normal distribution's."""

from __future__ import annotations

import math

import numpy as np

from pellucid._machine.base import ArgumentValueError, ArrayLike, public_functions
from pellucid._machine.primitives import error_functions
from pellucid._machine.primitives.formulas import (
    Term,
    exp,
    log,
    log1p,
    minimum,
    select,
    sqrt,
    square,
)
from pellucid._machine.xla.arrays import Array
from pellucid.numpy.partials import with_partials

from . import coefficients as tables
from .real_functions import exp_square, of_unit, real_function, series

_ROOT_2 = math.sqrt(2)
_2_BY_ROOT_PI = 2 / math.sqrt(math.pi)
_ROOT_2_BY_PI = math.sqrt(2 / math.pi)
_LAST_TAIL = 28.0
"""Largest r with which exp(-r²) is a probability above 0 in float64."""

# Formulas -------------------------------------------------------------------------------------------


@with_partials(lambda y, x: _2_BY_ROOT_PI * exp_square(x, -1))
def erf_of(x: Term) -> Term:
    """The error function."""
    return Term(error_functions.erf(x.value))


@with_partials(lambda y, x: 2 * x * y - _2_BY_ROOT_PI)
def erfcx_of(x: Term) -> Term:
    """exp(x²) erfc(x), by a series in (x - 4) / (x + 4) (Shepherd and Laframboise, Math. Comp. 36, 1981)."""
    positive = abs(x)
    value = of_unit(2 - 16 / (positive + 4), tables.ERFCX) / (1 + 2 * positive)
    return select(x < 0, 2 * exp_square(x, 1) - value, value)


@with_partials(lambda y, x: -_2_BY_ROOT_PI * exp_square(x, -1))
def erfc_of(x: Term) -> Term:
    """1 - erf(x)."""
    return select(x < 0.5, 1 - erf_of(x), exp_square(x, -1) * erfcx_of(abs(x)))


@with_partials(lambda y, x: 1 - 2 * x * y)
def dawsn_of(x: Term) -> Term:
    """Dawson's integral exp(-x²) ∫ exp(t²) dt from 0 to x: by series of its differences from x and 1/(2x), in between
    of its product with 2x + 1/x.
    """
    s = square(x)
    inverse = 1 / x
    v = minimum(square(inverse), s.constant(0.125))
    small = x - x * (s * series(minimum(s, s.constant(1)), 0, 1, tables.DAWSON_SMALL))
    near = series(minimum(s, s.constant(8)), 0.25, 8, tables.DAWSON_NEAR) / (2 * x + inverse)
    limit = 0.5 * inverse
    far = limit + limit * (v * series(v, 0, 0.125, tables.DAWSON_FAR))
    return select(s < 1, small, select(s < 8, near, far))


def _quantile(middle: Term, tail: Term) -> Term:
    """The absolute value of the normal quantile at 1/2 + `middle`; `tail` = 1/2 - |middle| is the probability beyond."""
    central = abs(middle) * series(square(middle), 0, 0.425**2, tables.NORMAL_MIDDLE)
    r = sqrt(-log(tail))
    v = 1 / r
    near = r * series(v, 1 / 5, 1 / 1.6, tables.NORMAL_TAIL)
    far = r * series(v, 1 / _LAST_TAIL, 1 / 5, tables.NORMAL_FAR_TAIL)
    value = select(abs(middle) <= 0.425, central, select(r <= 5, near, far))
    return select(tail == 0, np.inf, value)


@with_partials(lambda y, x: exp_square(y, 1) * (1 / _2_BY_ROOT_PI))
def erfinv_of(x: Term) -> Term:
    """The inverse of the error function."""
    size = _quantile(0.5 * x, 0.5 * (1 - abs(x))) * (1 / _ROOT_2)
    small = abs(x) < math.sqrt(float(x.limits.eps)) / 4
    size = select(small, abs(x) * (1 / _2_BY_ROOT_PI), size)
    return select(x < 0, -size, select(x == 0, x, size))


@with_partials(lambda y, p: exp_square(y, 0.5) * math.sqrt(2 * math.pi))
def ndtri_of(p: Term) -> Term:
    """The inverse of the normal distribution function."""
    size = _quantile(p - 0.5, select(p < 0.5, p, 1 - p))
    return select(p < 0.5, -size, size)


@with_partials(lambda y, x: exp_square(x, -0.5) * (0.5 * _ROOT_2_BY_PI))
def ndtr_of(x: Term) -> Term:
    """The normal distribution function."""
    return select(x < -1, _normal_tail(x), 0.5 + 0.5 * erf_of(x * (1 / _ROOT_2)))


def _normal_tail(x: Term) -> Term:
    """The probability of a normal number beyond |x|; by erfcx, which is less sensitive than erfc to its argument's
    rounding.
    """
    return 0.5 * exp_square(x, -0.5) * erfcx_of(abs(x) * (1 / _ROOT_2))


@with_partials(lambda y, x: select(y == 0, 0.0, -y * (x + y)))
def _inverse_mills_ratio(x: Term) -> Term:
    """The normal density over the distribution function."""
    return _ROOT_2_BY_PI / erfcx_of(x * (-1 / _ROOT_2))


@with_partials(lambda y, x: _inverse_mills_ratio(x))
def log_ndtr_of(x: Term) -> Term:
    """The logarithm of the normal distribution function."""
    z = select(x < 0, x * (-1 / _ROOT_2), 0.0)
    below = log(0.5 * erfcx_of(z)) - 0.5 * square(x)
    return select(x < 0, below, log1p(-_normal_tail(x)))


# Owen's function --------------------------------------------------------------------------------------


def _owens_quadrature(h: Term, a: Term) -> Term:
    """T(h, a) for 0 ≤ a ≤ 1 by Gauss's quadrature, up to where the integrand vanishes."""
    cut, count = (6.2, 14) if h.limits.bits == 32 else (8.9, 28)
    nodes, weights = np.polynomial.legendre.leggauss(count)
    top = minimum(a, cut / h)
    total = h.filled(0)
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        t = top * node
        total = total + float(weight) * exp(-0.5 * square(h * t)) / (1 + square(t))
    return select(h == np.inf, 0.0, top * total * exp_square(h, -0.5) * (0.5 / math.pi))


@with_partials(
    lambda y, h, a: exp_square(h, -0.5) * erf_of(a * h * (1 / _ROOT_2)) * (-0.25 * _ROOT_2_BY_PI),
    lambda y, h, a: exp(-0.5 * square(h) * (1 + square(a))) / (1 + square(a)) * (0.5 / math.pi),
)
def owens_t_of(h: Term, a: Term) -> Term:
    """T(h, a), for |a| > 1 by T(ah, 1/a) (Patefield and Tandy, J. Stat. Software 5, 2000, equation 2.3)."""
    size, slope = abs(h), abs(a)
    is_steep = slope > 1
    other = select(slope == np.inf, np.inf, size * slope)
    other = select(size == 0, 0.0, other)
    inner = _owens_quadrature(select(is_steep, other, size), select(is_steep, 1 / slope, slope))
    beyond, beyond_other = 0.5 * erfc_of(size * (1 / _ROOT_2)), 0.5 * erfc_of(other * (1 / _ROOT_2))
    steep = 0.5 * (beyond + beyond_other) - beyond * beyond_other - inner
    value = select(is_steep, steep, inner)
    return select(a < 0, -value, value)


# Public functions -------------------------------------------------------------------------------------


@real_function
def erf(x: Term) -> Term:
    """Error function: 2/√π times the integral of exp(-t²) from 0 to `x`.

    The result has the shape of `x`, and its dtype if that is floating-point, else the default floating dtype.
    Raises: DtypeError for complex numbers and PRNG keys, ArgumentTypeError for lists and strings.
    Source: DLMF 7.2.1.

    >>> erf(jnp.array([0.0, 1.0]))
    Array([0.        , 0.84270084], dtype=float32)
    """
    return erf_of(x)


@real_function
def erfc(x: Term) -> Term:
    """`1 - erf(x)`, with all digits where it is small.

    The result has the shape of `x`, and its dtype if that is floating-point, else the default floating dtype.
    Raises: DtypeError for complex numbers and PRNG keys, ArgumentTypeError for lists and strings.
    Source: DLMF 7.2.2.

    >>> print(f"{float(erfc(9.0)):.4e}")
    4.1370e-37
    """
    return erfc_of(x)


@real_function
def erfinv(x: Term) -> Term:
    """The number whose error function is `x`; NaN if there is none.

    The result has the shape of `x`, and its dtype if that is floating-point, else the default floating dtype.
    Raises: DtypeError for complex numbers and PRNG keys, ArgumentTypeError for lists and strings.
    Source: DLMF 7.17.1.

    >>> erfinv(jnp.array([0.0, 0.5]))
    Array([0.       , 0.4769363], dtype=float32)
    """
    return erfinv_of(x)


@real_function
def dawsn(x: Term) -> Term:
    """Dawson's integral: exp(-x²) times the integral of exp(t²) from 0 to `x`.

    The result has the shape of `x`, and its dtype if that is floating-point, else the default floating dtype.
    Raises: DtypeError for complex numbers and PRNG keys, ArgumentTypeError for lists and strings.
    Source: DLMF 7.2.5.

    >>> dawsn(jnp.array([0.0, 1.0]))
    Array([0.       , 0.5380795], dtype=float32)
    """
    return dawsn_of(x)


@real_function(takes_sequences=True)
def ndtr(x: Term) -> Term:
    """Distribution function of the normal distribution: the probability of a number of at most `x`.

    The result has the shape of `x`, and its dtype if that is floating-point, else the default floating dtype.
    Raises: DtypeError for complex numbers and PRNG keys, ArgumentTypeError for strings.
    Source: DLMF 7.20(iii).

    >>> ndtr(jnp.array([-1.0, 0.0]))
    Array([0.15865526, 0.5       ], dtype=float32)
    """
    return ndtr_of(x)


@real_function(takes_sequences=True)
def _log_ndtr(x: Term) -> Term:
    return log_ndtr_of(x)


def log_ndtr(x: ArrayLike, series_order: int = 3) -> Array:
    """Logarithm of `ndtr(x)`, also where that is 0 or 1.

    `series_order` has no effect: no asymptotic series is cut.
    Raises: ArgumentValueError for a negative `series_order`, as the reference does.

    The result has the shape of `x`, and its dtype if that is floating-point, else the default floating dtype. Raises,
    too: DtypeError for complex numbers and PRNG keys, ArgumentTypeError for strings.
    Source: DLMF 7.20(iii).

    >>> log_ndtr(jnp.array([-20.0, 0.0]))
    Array([-203.91716  ,   -0.6931472], dtype=float32)
    """
    if series_order < 0:
        raise ArgumentValueError(
            "scipy.special.log_ndtr needs a series_order of at least 0.", got=f"got {series_order}"
        )
    return _log_ndtr(x)


@real_function
def ndtri(p: Term) -> Term:
    """Quantile of the normal distribution: the number whose `ndtr` is `p`; NaN outside of [0, 1].

    The result has the shape of `p`, and its dtype if that is floating-point, else the default floating dtype.
    Raises: DtypeError for complex numbers and PRNG keys, ArgumentTypeError for lists and strings.
    Source: DLMF 7.20(iii), 7.17.1.

    >>> ndtri(jnp.array([0.025, 0.5]))
    Array([-1.959964,  0.      ], dtype=float32)
    """
    return ndtri_of(p)


@real_function
def owens_t(h: Term, a: Term) -> Term:
    """Owen's T function: the integral of exp(-h²(1 + t²)/2) / (1 + t²) from 0 to `a`, over 2π.

    The result has the shape to which the arguments broadcast, and the floating-point dtype to which they promote.
    Raises: DtypeError for complex numbers and PRNG keys, ShapeError for shapes that do not fit, ArgumentTypeError for
    lists and strings.
    Source: Owen, Tables for Computing Bivariate Normal Probabilities, 1956.

    >>> owens_t(jnp.array([0.0, 1.0]), 1.0)
    Array([0.12499999, 0.06674188], dtype=float32)
    """
    return owens_t_of(h, a)


__all__ = [
    "dawsn", "erf", "erfc", "erfinv", "log_ndtr", "ndtr", "ndtri", "owens_t",
]  # fmt: skip

public_functions(__all__, globals())
