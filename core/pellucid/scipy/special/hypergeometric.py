"""Hypergeometric functions of real arguments."""

from __future__ import annotations

import numpy as np

from pellucid._machine.base import public_functions
from pellucid._machine.primitives.formulas import (
    Term,
    exp,
    is_nan,
    maximum,
    minimum,
    nearest,
    power,
    select,
)
from pellucid.numpy.partials import with_partials

from .gamma_functions import gammaln_of, gammasgn_of
from .real_functions import is_whole, looped, numerically_exact, real_function


def _power_series(upper: list[Term], lower: Term, x: Term, first: Term | float = 1.0) -> Term:
    """Σ Π (aᵢ)ₖ / (c)ₖ xᵏ / k! times `first`, until a term no longer counts; NaN if that takes more than 20 000 terms."""

    def step(k: Term, term: Term, total: Term) -> list[Term]:
        factor = x / ((lower + (k - 1)) * k)
        for a in upper:
            factor = factor * (a + (k - 1))
        term = term * factor
        # Terms decrease from where the ratio of two is below 1.
        counts = abs(term) > 0.125 * float(x.limits.eps) * abs(total + term)
        return [(counts | (abs(factor) > 0.999999)) & (term != 0), term, total + term]

    start = first * x.filled(1)
    active, _, total = looped(step, [~is_nan(x * lower * upper[0]), start, start])
    return select(active, np.nan, total)


def _gamma_ratio(top: list[Term], bottom: list[Term]) -> Term:
    """Π Γ(top) / Π Γ(bottom), zero at poles of the denominator."""
    sign, size, pole = top[0].filled(1), top[0].filled(0), top[0].filled(0) > 0
    for x in top:
        sign, size = sign * gammasgn_of(x), size + gammaln_of(x)
    for x in bottom:
        is_pole = (x <= 0) & is_whole(x)
        safe = select(is_pole, 1.0, x)
        sign, size, pole = sign * gammasgn_of(safe), size - gammaln_of(safe), pole | is_pole
    return select(pole, 0.0, sign * exp(size))


def _is_polynomial(a: Term) -> Term:
    return (a <= 0) & is_whole(a)


# Kummer's function --------------------------------------------------------------------------------------

_MIN_ASYMPTOTIC = 60.0
_ASYMPTOTIC_TERMS = 24


def _asymptotic(a: Term, b: Term, x: Term) -> Term:
    """Σ (a)ₖ (a - b + 1)ₖ / k! xᵏ for small `x`, up to its smallest term (DLMF 13.7.2)."""
    term, total, size = x.filled(1), x.filled(1), x.filled(np.inf)
    for k in range(1, _ASYMPTOTIC_TERMS):
        term = term * ((a + (k - 1)) * (a - b + k) / k * x)
        decreases = abs(term) < size
        size = select(decreases, abs(term), 0.0)
        total = total + select(decreases, term, 0.0)
    return total


def _hyp1f1(a: Term, b: Term, x: Term) -> Term:
    """M(a, b, x): power series for x ≥ 0, Kummer's transformation for x < 0 (DLMF 13.2.39), asymptotic series for
    large |x|.
    """
    turned = (x < 0) & ~_is_polynomial(a)
    a_, x_ = select(turned, b - a, a), select(turned, -x, x)
    root = exp(select(turned, 0.5 * x, 0.0))  # applied twice, because sums may overflow
    wide = _MIN_ASYMPTOTIC + 2 * (a * a + b * b)
    is_far = (abs(x) > wide) & ~_is_polynomial(a) & ~_is_polynomial(b - a)
    near = root * _power_series([a_], b, select(is_far, 1.0, x_), root)
    size = maximum(abs(x), wide)
    left = _gamma_ratio([b], [b - a]) * power(size, -a) * _asymptotic(a, b, 1 / size)
    half = exp(0.5 * minimum(x, x.constant(2e4)))
    right = _gamma_ratio([b], [a]) * power(size, a - b) * _asymptotic(b - a, b, 1 / size)
    value = select(is_far, select(x < 0, left, half * right * half), near)
    pole = _is_polynomial(b) & ~(_is_polynomial(a) & (a >= b))
    return select(
        is_nan(a + b + x), np.nan, select((x == 0) | (a == 0), 1.0, select(pole, np.inf, value))
    )


@with_partials(
    numerically_exact(_hyp1f1, 0),
    numerically_exact(_hyp1f1, 1),
    lambda y, a, b, x: a / b * hyp1f1_of(a + 1, b + 1, x),  # pyright: ignore[reportGeneralTypeIssues]
)
def hyp1f1_of(a: Term, b: Term, x: Term) -> Term:
    """M(a, b, x)."""
    return _hyp1f1(a, b, x)


# Gauss's function ---------------------------------------------------------------------------------------

_MAX_DIRECT = 0.9
"""Largest argument of the power series where a transformation to 1 - x exists."""


def _gauss(a: Term, b: Term, c: Term, x: Term) -> Term:
    """F(a, b; c; x) for 0 ≤ x < 1: its series, or two in 1 - x (DLMF 15.8.4) unless c - a - b is whole."""
    s = c - a - b
    is_degenerate = abs(s - nearest(s)) < 1e-2
    terminates = _is_polynomial(a) | _is_polynomial(b)
    is_far = (x > _MAX_DIRECT) & ~is_degenerate & ~terminates
    s = select(is_degenerate, 0.5, s)
    y = select(is_far, 1 - x, 0.5)
    direct = _power_series([a, b], c, select(is_far, 0.5, x))
    first = _gamma_ratio([c, s], [c - a, c - b]) * _power_series([a, b], 1 - s, y)
    second = _gamma_ratio([c, -s], [a, b]) * _power_series([c - a, c - b], 1 + s, y)
    return select(is_far, first + power(y, s) * second, direct)


def _hyp2f1(a: Term, b: Term, c: Term, x: Term) -> Term:
    """F(a, b; c; x); for x < 0 by Pfaff's transformation to 0 < x / (x - 1) < 1 (DLMF 15.8.1)."""
    terminates = _is_polynomial(a) | _is_polynomial(b)
    turned = (x < 0) & ~terminates
    other = select(turned, x / (x - 1), x)
    inside = select((other < 1) | terminates, other, 0.5)
    scale = power(select(turned, 1 - x, 1.0), -a)
    value = scale * _gauss(a, select(turned, c - b, b), c, inside)
    s = c - a - b
    at_one = select(s > 0, _gamma_ratio([c, select(s > 0, s, 1.0)], [c - a, c - b]), np.inf)
    value = select((x == 1) & ~terminates, at_one, value)
    value = select((x > 1) & ~terminates, np.inf, value)
    cut = (_is_polynomial(a) & (a >= c)) | (_is_polynomial(b) & (b >= c))
    value = select(_is_polynomial(c) & ~cut, np.inf, value)
    return select(is_nan(a + b + c + x), np.nan, select((x == 0) | (a == 0) | (b == 0), 1.0, value))


@with_partials(
    numerically_exact(_hyp2f1, 0),
    numerically_exact(_hyp2f1, 1),
    numerically_exact(_hyp2f1, 2),
    lambda y, a, b, c, x: a * b / c * hyp2f1_of(a + 1, b + 1, c + 1, x),  # pyright: ignore[reportGeneralTypeIssues]
)
def hyp2f1_of(a: Term, b: Term, c: Term, x: Term) -> Term:
    """F(a, b; c; x)."""
    return _hyp2f1(a, b, c, x)


@real_function
def hyp1f1(a: Term, b: Term, x: Term) -> Term:
    """Kummer's confluent hypergeometric function M(a, b, x).

    The result has the shape to which the arguments broadcast, and the floating-point dtype to which they promote.
    Raises: DtypeError for complex numbers and PRNG keys, ShapeError for shapes that do not fit, ArgumentTypeError for
    lists and strings.
    Source: DLMF 13.2.2.

    >>> print(f"{float(hyp1f1(1.0, 2.0, 1.0)):.5f}")
    1.71828
    """
    return hyp1f1_of(a, b, x)


@real_function
def hyp2f1(a: Term, b: Term, c: Term, x: Term) -> Term:
    """Gauss's hypergeometric function F(a, b; c; x); ∞ for `x` above 1 unless it is a polynomial.

    NaN where its series needs more than 20 000 terms: `x` above 0.998 with a whole `c - a - b`. Source: DLMF 15.2.1.

    The result has the shape to which the arguments broadcast, and the floating-point dtype to which they promote.
    Raises: DtypeError for complex numbers and PRNG keys, ShapeError for shapes that do not fit, ArgumentTypeError for
    lists and strings.

    >>> print(f"{float(hyp2f1(1.0, 1.0, 2.0, 0.5)):.5f}")
    1.38629
    """
    return hyp2f1_of(a, b, c, x)


__all__ = ["hyp1f1", "hyp2f1"]

public_functions(__all__, globals())
