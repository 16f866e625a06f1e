"""The gamma function and what is built of it: its logarithm, derivatives, the beta function, zeta functions."""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import numpy as np

import pellucid.numpy as jnp
from pellucid._machine.base import (
    ArgumentValueError,
    ArrayLike,
    UnsupportedError,
    dtypes,
    public_functions,
)
from pellucid._machine.primitives import formulas, special
from pellucid._machine.primitives.families import scalar
from pellucid._machine.primitives.formulas import (
    Term,
    exp,
    is_nan,
    log,
    log1p,
    maximum,
    power,
    select,
    tan,
)
from pellucid._machine.xla.arrays import Array
from pellucid.numpy.partials import with_partials
from pellucid.numpy.promotion import aval_of, known_int

from . import coefficients as tables
from .complex_functions import complex_gamma, complex_loggamma
from .real_functions import (
    is_whole,
    looped,
    numerically_exact,
    real_function,
    series,
    sin_pi,
    undifferentiable,
)

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_LAST_PRODUCT = 24
"""Largest argument whose gamma function is computed as a product, which is exact for whole numbers."""

_LAST_FINITE = {32: 34, 64: 170}
"""Maps the bits of a dtype to a whole number whose gamma function doesn't overflow."""


@functools.cache
def bernoulli_numbers(n: int) -> tuple[Fraction, ...]:
    """B₀, …, Bₙ, with B₁ = -1/2, by their recurrence (DLMF 24.5.3)."""
    numbers = [Fraction(1)]
    for m in range(1, n + 1):
        if m > 1 and m % 2:
            numbers.append(Fraction(0))
            continue
        total = sum((math.comb(m + 1, k) * b for k, b in enumerate(numbers) if b), Fraction(0))
        numbers.append(-total / (m + 1))
    return tuple(numbers)


# B₂ₖ / (2k (2k - 1)) of Stirling's series, B₂ₖ / 2k of the digamma function's, B₂ₖ / (2k)! of Euler and Maclaurin's.
_EVEN = [(2 * k, float(b)) for k, b in enumerate(bernoulli_numbers(24)[2::2], 1)]
_STIRLING = [b / (n * (n - 1)) for n, b in _EVEN[:9]]
_DIGAMMA = [b / n for n, b in _EVEN[:9]]
_EULER_MACLAURIN = [b / math.factorial(n) for n, b in _EVEN]

# Gamma function ---------------------------------------------------------------------------------------


def stirling_error(x: Term) -> Term:
    """log Γ(x) less (x - 1/2) log x - x + log(2π)/2, for x ≥ 8 (DLMF 5.11.1)."""
    inverse = 1 / x
    return inverse * formulas.polynomial(formulas.square(inverse), _STIRLING)


@with_partials(lambda y, x: digamma_of(x))
def gammaln_of(x: Term) -> Term:
    """log |Γ(x)|: series around its zeros 1 and 2 and up to 8, Stirling's beyond, reflection of negative numbers."""
    positive = select(x < -0.5, -x, x)
    t = select(positive < 0.5, positive, positive - 1)
    one = 0 - t * -series(t, -0.5, 0.5, tables.LGAMMA_ONE)  # positive zero at 1
    one = select(positive < 0.5, one - log(abs(positive)), one)
    two = (positive - 2) * series(positive, 1.5, 3, tables.LGAMMA_TWO)
    five = (positive - 2) * series(positive, 3, 8, tables.LGAMMA_FIVE)
    large = maximum(positive, x.constant(8))
    far = (large - 0.5) * (log(large) - 1) + (_HALF_LOG_2PI - 0.5) + stirling_error(large)
    value = select(positive < 3, two, select(positive < 8, five, far))
    value = select(positive < 1.5, one, value)
    value = select(positive == np.inf, np.inf, value)
    reflected = math.log(math.pi) - log(positive * abs(sin_pi(positive))) - value
    whole = (x < 0) & is_whole(x)
    return select(x < -0.5, select(whole, np.inf, reflected), value)


@with_partials(lambda y, x: y * digamma_of(x))
def gamma_of(x: Term) -> Term:
    """Γ(x): a series on [1, 2] and its recurrence, Stirling's formula beyond 24, reflection of negative numbers."""
    positive = abs(x)
    m = formulas.floor(formulas.minimum(positive, x.constant(_LAST_PRODUCT)))
    rest = positive - m
    product = select(rest == 0, 1.0, series(rest, 0, 1, tables.GAMMA))
    for j in range(1, _LAST_PRODUCT):
        product = product * select(m > j, positive - j, 1.0)
    near = select(m == 0, product / positive, product)
    large = maximum(positive, x.constant(8))
    root = power(large, 0.5 * large - 0.25) * math.sqrt(math.sqrt(2 * math.pi))
    far = root * exp(-large) * root * exp(stirling_error(large))
    value = select(
        positive < _LAST_PRODUCT,
        near,
        select(positive > _LAST_FINITE[x.limits.bits] + 2, np.inf, far),
    )
    # Multiplied in an order in which nothing underflows.
    reflected = -(math.pi / sin_pi(x)) / value / x
    reflected = select(is_whole(x), np.nan, reflected)
    value = select(x < 0, reflected, value)
    return select(x == 0, 1 / x, select(is_nan(x), np.nan, value))


@with_partials(lambda y, x: polygamma_of(x.filled(1), x))
def digamma_of(x: Term) -> Term:
    """ψ(x): series divided by the distance to its zero, its asymptotic series beyond 10 (DLMF 5.11.2), reflection."""
    positive = select(x < 0, 1 - x, x)
    t = select(positive < 1, positive + 1, positive)
    away = (t - tables.PSI_ZERO[0]) - tables.PSI_ZERO[1]
    near = away * series(t, 1, 3, tables.DIGAMMA_NEAR)
    near = select(positive < 1, near - 1 / positive, near)
    middle = away * series(t, 3, 10, tables.DIGAMMA_FAR)
    large = maximum(t, x.constant(10))
    inverse = formulas.square(1 / large)
    far = log(large) - 0.5 / large - inverse * formulas.polynomial(inverse, _DIGAMMA)
    value = select(t <= 3, near, select(t <= 10, middle, far))
    value = select(positive == np.inf, np.inf, value)
    reflected = value - math.pi / tan(math.pi * (x - formulas.nearest(x)))
    value = select(x < 0, select(is_whole(x), np.nan, reflected), value)
    return select(x == 0, -1 / x, value)


def gammasgn_of(x: Term) -> Term:
    """The sign of Γ(x), NaN at its poles."""
    half = 0.5 * formulas.floor(x)
    negative = select(half == formulas.floor(half), 1.0, x.filled(-1))
    negative = select(is_whole(x), np.nan, negative)
    at_zero = select(1 / x < 0, -1.0, x.filled(1))
    return select(is_nan(x), np.nan, select(x == 0, at_zero, select(x < 0, negative, 1.0)))


# Zeta and polygamma functions ---------------------------------------------------------------------------

_MIN_OF_TAIL = 10.0


def _zeta(s: Term, q: Term) -> Term:
    """Σ (q + k)⁻ˢ by Euler and Maclaurin's formula (DLMF 25.11.28) once q + k ≥ max(10, s), or nothing more counts."""
    limit = maximum(s, s.constant(_MIN_OF_TAIL))

    def rest(total: Term, w: Term) -> tuple[Term, Term, Term]:
        edge = power(w, -s)
        integral = edge * (w / (s - 1))
        return (
            edge,
            integral,
            (w < 1) | (abs(integral) + edge > 0.125 * float(s.limits.eps) * total),
        )

    def step(k: Term, total: Term, w: Term) -> list[Term]:
        total, w = total + power(w, -s), w + 1
        return [(w < limit) & rest(total, w)[2], total, w]

    _, total, w = looped(step, [q < limit, s.filled(0), q])
    edge, integral, counts = rest(total, w)
    tail = integral + 0.5 * edge
    factor, inverse = s * edge / w, 1 / formulas.square(w)
    for k, c in enumerate(_EULER_MACLAURIN):
        tail = tail + c * factor
        factor = factor * ((s + (2 * k + 1)) * (s + (2 * k + 2)) * inverse)
    value = select(counts, total + tail, total)
    return select((w < limit) & counts, np.nan, select(w == np.inf, 0.0, value))


def _hurwitz(s: Term, q: Term) -> Term:
    value = select(
        s == np.inf, select(q > 1, 0.0, select(q == 1, 1.0, q.filled(np.inf))), _zeta(s, q)
    )
    pole = (q <= 0) & is_whole(q)
    value = select(pole | (s == 1), np.inf, value)
    return select((s < 1) | is_nan(s) | is_nan(q), np.nan, value)


@with_partials(
    numerically_exact(_hurwitz, 0),
    lambda y, s, q: -s * zeta_of(s + 1, q),  # pyright: ignore[reportGeneralTypeIssues]
)
def zeta_of(s: Term, q: Term) -> Term:
    """Hurwitz's zeta function."""
    return _hurwitz(s, q)


@with_partials(undifferentiable("polygamma", "n"), lambda y, n, x: polygamma_of(n + 1, x))  # pyright: ignore[reportGeneralTypeIssues]
def polygamma_of(n: Term, x: Term) -> Term:
    """The derivative of order n of ψ (DLMF 5.15.2, 25.11.12)."""
    half = 0.5 * n
    sign = select(half == formulas.floor(half), -1.0, x.filled(1))
    order = maximum(n, n.constant(1))
    return select(n == 0, digamma_of(x), sign * gamma_of(order + 1) * zeta_of(order + 1, x))


def _riemann(s: Term) -> Term:
    """ζ(s), below 0 by reflection (DLMF 25.4.1)."""
    right = select(s < 0, 1 - s, s)
    value = _zeta(right, s.filled(1))
    value = select(right == 1, np.inf, select(right == np.inf, 1.0, value))
    reflected = 2 * power(s.filled(2 * math.pi), s - 1) * sin_pi(0.5 * s) * gamma_of(right) * value
    return select(s < 0, reflected, value)


riemann_of = with_partials(numerically_exact(_riemann, 0))(_riemann)

# Beta function ------------------------------------------------------------------------------------------


def _psi_difference(x: Term, y: Term) -> Term:
    """ψ(x) - ψ(y); at poles of both its limit for arguments at one distance from them, by reflection."""
    are_poles = _are_poles(x, y)
    one, other = select(are_poles, 1 - x, x), select(are_poles, 1 - y, y)
    return digamma_of(one) - digamma_of(other)


def _are_poles(x: Term, y: Term) -> Term:
    return (x <= 0) & is_whole(x) & (y <= 0) & is_whole(y)


def _slope_of_betaln(value: Term, x: Term, total: Term) -> Term:
    """The derivative of log |B(x, total - x)| by `x`; NaN where the `value`, or that of B, is infinite and both are poles."""
    is_none = _are_poles(x, total) & (abs(value) == np.inf)
    return select(is_none, np.nan, _psi_difference(x, total))


@with_partials(
    lambda y, a, b: _slope_of_betaln(y, a, a + b), lambda y, a, b: _slope_of_betaln(y, b, a + b)
)
def betaln_of(a: Term, b: Term) -> Term:
    """log |B(a, b)|."""
    one, other, _, is_infinite = _beside_poles(a, b)
    return select(is_infinite, np.inf, _betaln(one, other))


def _beside_poles(a: Term, b: Term) -> tuple[Term, Term, Term, Term]:
    """(one, other, sign, is_infinite): B(a, b) is sign * B(one, other), or sign * inf.

    If `a` is 0, -1, -2, …, B(a, b) is (-1)ᵇ B(1 - a - b, b) for b = 1, …, -a, as in SciPy, and infinite otherwise.
    """
    is_first, is_second = (a <= 0) & is_whole(a), (b <= 0) & is_whole(b)
    pole, rest = select(is_first, a, b), select(is_first, b, a)
    total = 1 - pole - rest
    is_pole = (is_first | is_second) & ~is_nan(rest)
    is_finite = is_pole & is_whole(rest) & (rest > 0) & (total > 0)
    half = 0.5 * rest
    sign = select(is_whole(half), 1.0, a.filled(-1))
    sign = select(is_finite | (is_first & is_second), sign, 1.0)
    one, other = select(is_finite, total, a), select(is_finite, rest, b)
    return one, other, sign, is_pole & ~is_finite


def _betaln(a: Term, b: Term) -> Term:
    """log |B(a, b)|, of negative arguments by reflection (DLMF 5.5.3) from that of positive ones, which loses no digits."""
    low, high, total = formulas.minimum(a, b), maximum(a, b), a + b
    is_reflected, is_below, are_both = low < 0, total < 0, high < 0
    one = select(is_reflected, select(is_below & ~are_both, 1 - total, 1 - low), low)
    other = select(is_reflected, select(are_both, 1 - high, select(is_below, high, total)), high)
    value = _positive_betaln(one, other)
    sine, sine_of_total = log(abs(sin_pi(low))), log(abs(sin_pi(total)))
    log_pi = math.log(math.pi)
    # Where a < 0 < b, by the sign of a + b; then where both are negative.
    above = (log_pi - sine) - log(high) - value
    below = value + (sine_of_total - sine)
    both = (log_pi + sine_of_total - sine - log(abs(sin_pi(high)))) - log(1 - total) - value
    reflected = select(are_both, both, select(is_below, below, above))
    return select((a * b == 0) & (total >= 0), np.inf, select(is_reflected, reflected, value))


def _positive_betaln(a: Term, b: Term) -> Term:
    """log B(a, b) where neither is negative."""
    is_small = maximum(a, b) < 8
    return select(is_small, log(_gamma_ratio(a, b)), _large_betaln(a, b))


def _large_betaln(a: Term, b: Term) -> Term:
    """log B(a, b) where one of a, b > 0 is at least 8, by differences of Stirling's series (DLMF 5.11.1)."""
    low, high = formulas.minimum(a, b), maximum(a, b)
    total = low + high
    tail = log1p(-low / total)
    errors = stirling_error(high) - stirling_error(total)
    one = gammaln_of(low) + (errors + (high - 0.5) * tail - low * (log(total) - 1))
    both = (
        (low - 0.5) * log(low / total) + (high * tail - 0.5 * log(high))
        + (errors + stirling_error(maximum(low, a.constant(8))) + _HALF_LOG_2PI)
    )  # fmt: skip
    value = select(low < 8, one, both)
    return select(high == np.inf, -np.inf, value)


def _gamma_ratio(a: Term, b: Term) -> Term:
    """Γ(a) Γ(b) / Γ(a + b)."""
    return gamma_of(b) / gamma_of(a + b) * gamma_of(a)


@with_partials(
    lambda y, a, b: y * _slope_of_betaln(y, a, a + b),
    lambda y, a, b: y * _slope_of_betaln(y, b, a + b),
)
def beta_of(a: Term, b: Term) -> Term:
    """B(a, b)."""
    a, b, sign_beside_poles, is_infinite = _beside_poles(a, b)
    sign = gammasgn_of(a) * gammasgn_of(b) * gammasgn_of(a + b)
    limit = _LAST_FINITE[a.limits.bits]
    is_small = (abs(a) < limit) & (abs(b) < limit) & (abs(a + b) < limit)
    value = select(is_small, _gamma_ratio(a, b), sign * exp(_betaln(a, b)))
    is_zero = (a + b <= 0) & is_whole(a + b) & ~is_whole(a) & ~is_whole(b)  # 1 / Γ(a + b) is 0
    value = select(is_zero, 0.0, value)
    return sign_beside_poles * select(is_infinite, np.inf, value)


@with_partials(lambda y, z, m: y * _psi_difference(z + m, z), lambda y, z, m: y * digamma_of(z + m))
def poch_of(z: Term, m: Term) -> Term:
    """Γ(z + m) / Γ(z)."""
    is_pole, is_zero_over = (z <= 0) & is_whole(z), (z + m <= 0) & is_whole(z + m)
    both = is_pole & is_zero_over & is_whole(m)  # Γ(z + m) / Γ(z) = (-1)ᵐ Γ(1 - z) / Γ(1 - z - m)
    top, bottom = select(both, 1 - z, z + m), select(both, 1 - z - m, z)
    half = 0.5 * m
    sign = select(
        both & (half != formulas.floor(half)), -1.0, gammasgn_of(top) * gammasgn_of(bottom)
    )
    limit = _LAST_FINITE[z.limits.bits]
    is_small = (abs(top) < limit) & (abs(bottom) < limit)
    signless = select(both, sign, sign.filled(1)) * gamma_of(top) / gamma_of(bottom)
    n, base = abs(m), select(m > 0, bottom, top)
    logarithm = gammaln_of(n) - _betaln(base, n)  # Γ(base + n) / Γ(base) = Γ(n) / B(base, n)
    value = select(is_small, signless, sign * exp(select(m > 0, logarithm, -logarithm)))
    value = select(is_pole & ~both, 0.0, select(is_zero_over & ~is_pole, np.inf, value))
    return select(m == 0, 1.0, value)


# Public functions -------------------------------------------------------------------------------------


@real_function(complex=complex_gamma)
def gamma(x: Term) -> Term:
    """Gamma function, also of complex numbers; NaN at negative whole numbers.

    The result has the shape of `x`, and its dtype if that is floating-point or complex, else the default floating
    dtype.
    Raises: DtypeError for PRNG keys, ArgumentTypeError for lists and strings.
    Source: DLMF 5.2.1.

    >>> gamma(jnp.array([0.5, 5.0]))
    Array([ 1.7724538, 24.       ], dtype=float32)
    """
    return gamma_of(x)


@real_function
def gammaln(x: Term) -> Term:
    """Logarithm of the absolute value of the gamma function.

    The result has the shape of `x`, and its dtype if that is floating-point, else the default floating dtype.
    Raises: DtypeError for complex numbers and PRNG keys, ArgumentTypeError for lists and strings.
    Source: DLMF 5.2.1.

    >>> gammaln(jnp.array([2.0, 5.0]))
    Array([0.       , 3.1780536], dtype=float32)
    """
    return gammaln_of(x)


@real_function(complex=complex_loggamma)
def loggamma(x: Term) -> Term:
    """Logarithm of the gamma function, continued from the positive numbers; NaN for negative real `x`.

    The result has the shape of `x`, and its dtype if that is floating-point or complex, else the default floating
    dtype.
    Raises: DtypeError for PRNG keys, ArgumentTypeError for lists and strings.
    Source: DLMF 5.11; Hare, Computing the Principal Branch of log-Gamma, 1997.

    >>> print(f"{complex(loggamma(1 + 1j)):.4f}")
    -0.6509-0.3016j
    """
    return select(x < 0, np.nan, gammaln_of(x))


@real_function
def gammasgn(x: Term) -> Term:
    """Sign of the gamma function: 1 or -1; NaN at its poles but 0, where that of `x` counts.

    The result has the shape of `x`, and its dtype if that is floating-point, else the default floating dtype.
    Raises: DtypeError for complex numbers and PRNG keys, ArgumentTypeError for lists and strings.

    >>> gammasgn(jnp.array([-0.5, 0.5]))
    Array([-1.,  1.], dtype=float32)
    """
    return gammasgn_of(x)


@real_function
def digamma(x: Term) -> Term:
    """Derivative of the logarithm of the gamma function.

    The result has the shape of `x`, and its dtype if that is floating-point, else the default floating dtype.
    Raises: DtypeError for complex numbers and PRNG keys, ArgumentTypeError for lists and strings.
    Source: DLMF 5.2.2.

    >>> digamma(jnp.array([1.0, 2.0]))
    Array([-0.5772157 ,  0.42278433], dtype=float32)
    """
    return digamma_of(x)


@real_function
def _polygamma(n: Term, x: Term) -> Term:
    return polygamma_of(n, x)


def polygamma(n: ArrayLike, x: ArrayLike) -> Array:
    """Derivative of order `n` of the digamma function at `x`; `n` are integers of at least 0.

    There is no derivative by `n`. Raises: ArgumentValueError for `n` that aren't integers.

    The result has the shape to which the arguments broadcast, and the dtype of `x` if that is floating-point, else the
    default floating dtype. Raises, too: DtypeError for complex numbers, ShapeError for shapes that do not fit,
    ArgumentTypeError for lists and strings.
    Source: DLMF 5.15.

    >>> polygamma(1, jnp.array([1.0]))
    Array([1.644934], dtype=float32)
    """
    aval = aval_of("scipy.special.polygamma", n)
    if aval.dtype.kind not in "iu":
        raise ArgumentValueError(
            "scipy.special.polygamma needs whole orders.", got=f"n: {aval.text()}"
        )
    return _polygamma(n, x)


@real_function(called="zeta")
def _hurwitz_zeta(x: Term, q: Term) -> Term:
    return zeta_of(x, q)


@real_function(called="zeta")
def _riemann_zeta(x: Term) -> Term:
    return riemann_of(x)


def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Array:
    """Hurwitz zeta function, the sum of 1 / (q + k)ˣ over k = 0, 1, …; without `q` Riemann's.

    That of Hurwitz is NaN for `x` below 1. Source: DLMF 25.2, 25.11.

    The result has the shape to which the arguments broadcast, and the floating-point dtype to which they promote.
    Raises: DtypeError for complex numbers and PRNG keys, ShapeError for shapes that do not fit, ArgumentTypeError for
    lists and strings.

    >>> zeta(jnp.array([2.0, 4.0]), 1.0)
    Array([1.644934 , 1.0823233], dtype=float32)
    """
    return _riemann_zeta(x) if q is None else _hurwitz_zeta(x, q)


@real_function
def beta(a: Term, b: Term) -> Term:
    """Beta function Γ(a) Γ(b) / Γ(a + b).

    The result has the shape to which the arguments broadcast, and the floating-point dtype to which they promote.
    Raises: DtypeError for complex numbers and PRNG keys, ShapeError for shapes that do not fit, ArgumentTypeError for
    lists and strings.
    Source: DLMF 5.12.1.

    >>> print(f"{float(beta(2.0, 3.0)):.5f}")
    0.08333
    """
    return beta_of(a, b)


@real_function
def betaln(a: Term, b: Term) -> Term:
    """Logarithm of the absolute value of `beta(a, b)`.

    The result has the shape to which the arguments broadcast, and the floating-point dtype to which they promote.
    Raises: DtypeError for complex numbers and PRNG keys, ShapeError for shapes that do not fit, ArgumentTypeError for
    lists and strings.
    Source: DLMF 5.12.1.

    >>> print(f"{float(betaln(2.0, 3.0)):.5f}")
    -2.48491
    """
    return betaln_of(a, b)


@real_function
def betainc(a: Term, b: Term, x: Term) -> Term:
    """Regularized incomplete beta function; there is no derivative by `a` or `b`.

    Of I(a, b, x) and 1 - I(a, b, x) = I(b, a, 1 - x) the one on whose side of a / (a + b) `x` lies is computed, with errors
    of up to 6e-6 in single precision. Where the result is its complement and small, as for `b` near 0, only that is known of
    it: digits are lost, as 1 - I(b, a, 1 - x) loses them.
    The result has the shape to which the arguments broadcast, and the floating-point dtype to which they promote.
    Raises: DtypeError for complex numbers and PRNG keys, ShapeError for shapes that do not fit, ArgumentTypeError for
    lists and strings.
    Source: DLMF 8.17.2.

    >>> print(f"{float(betainc(1.0, 2.0, 0.5)):.4f}")
    0.7500
    """
    return Term(special.betainc(a.value, b.value, x.value))


@real_function
def gammainc(a: Term, x: Term) -> Term:
    """Regularized lower incomplete gamma function P(a, x).

    The result has the shape to which the arguments broadcast, and the floating-point dtype to which they promote.
    Raises: DtypeError for complex numbers and PRNG keys, ShapeError for shapes that do not fit, ArgumentTypeError for
    lists and strings.
    Source: DLMF 8.2.4.

    >>> print(f"{float(gammainc(1.0, 2.0)):.4f}")
    0.8647
    """
    return Term(special.igamma(a.value, x.value))


@real_function
def gammaincc(a: Term, x: Term) -> Term:
    """Regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x).

    The result has the shape to which the arguments broadcast, and the floating-point dtype to which they promote.
    Raises: DtypeError for complex numbers and PRNG keys, ShapeError for shapes that do not fit, ArgumentTypeError for
    lists and strings.
    Source: DLMF 8.2.4.

    >>> print(f"{float(gammaincc(1.0, 2.0)):.4f}")
    0.1353
    """
    return Term(special.igammac(a.value, x.value))


@real_function
def poch(z: Term, m: Term) -> Term:
    """Pochhammer's symbol Γ(z + m) / Γ(z), the rising factorial.

    The result has the shape to which the arguments broadcast, and the floating-point dtype to which they promote.
    Raises: DtypeError for complex numbers and PRNG keys, ShapeError for shapes that do not fit, ArgumentTypeError for
    lists and strings.
    Source: DLMF 5.2.5.

    >>> print(f"{float(poch(2.0, 3)):.1f}")
    24.0
    """
    return poch_of(z, m)


@real_function
def _factorial(n: Term) -> Term:
    return select(n < 0, 0.0, gamma_of(n + 1))


def factorial(n: ArrayLike, exact: bool = False) -> Array:
    """`n!` as a floating-point number, Γ(n + 1) also between whole numbers; 0 for negative `n`.

    Raises: UnsupportedError for `exact`: arrays have no integers of any size.

    The result has the shape of `n`, and its dtype if that is floating-point, else the default floating dtype. Raises,
    too: DtypeError for complex numbers and PRNG keys, ArgumentTypeError for lists and strings.

    >>> factorial(jnp.array([0, 5]))
    Array([  1., 120.], dtype=float32)
    """
    if exact:
        raise UnsupportedError(
            "scipy.special.factorial has no exact integers.", do="Use `math.factorial` on Python integers."
        )  # fmt: skip
    return _factorial(n)


@real_function
def _comb(N: Term, k: Term) -> Term:
    value = 1 / ((N + 1) * beta_of(N - k + 1, k + 1))
    value = select(is_whole(N) & is_whole(k), formulas.nearest(value), value)
    return select((k < 0) | (k > N) | (N < 0), 0.0, value)


def comb(N: ArrayLike, k: ArrayLike, *, repetition: bool = False) -> Array:
    """Number of ways to choose `k` of `N` things, with `repetition` each any number of times; 0 outside 0 ≤ k ≤ N.

    The result has the shape to which the arguments broadcast, and the floating-point dtype to which they promote.
    Raises: DtypeError for complex numbers and PRNG keys, ShapeError for shapes that do not fit, ArgumentTypeError for
    lists and strings.
    Source: DLMF 1.2.1.

    >>> comb(5, 2)
    Array(10., dtype=float32, weak_type=True)
    """
    return _comb(jnp.add(N, k) - 1, k) if repetition else _comb(N, k)


def multigammaln(a: ArrayLike, d: int) -> Array:
    """Logarithm of the multivariate gamma function of dimension `d`, a Python integer of at least 0.

    The result has the shape of `a`, and its dtype if that is floating-point, else the default floating dtype. Raises,
    too: DtypeError for complex numbers, ArgumentTypeError for lists and strings.
    Source: DLMF 35.3.4. Raises: ArgumentValueError for another `d`.

    >>> print(f"{float(multigammaln(3.0, 2)):.4f}")
    1.5502
    """
    if d != int(d) or d < 0:
        raise ArgumentValueError(
            "scipy.special.multigammaln needs a whole number of dimensions.", got=f"d: {d}"
        )
    d = int(d)
    constant = d * (d - 1) / 4 * math.log(math.pi)
    terms = [gammaln(jnp.subtract(a, i / 2)) for i in range(d)]
    if not d:
        return jnp.zeros_like(gammaln(a))
    return functools.reduce(jnp.add, terms, scalar(constant, terms[0].dtype))


def bernoulli(n: int) -> Array:
    """The Bernoulli numbers B₀, …, Bₙ [n + 1], with B₁ = -1/2.

    The result has the default floating dtype. TypeError for an `n` that isn't an integer.
    Source: DLMF 24.2. Raises: ArgumentValueError for negative `n`.

    >>> bernoulli(2)
    Array([ 1.        , -0.5       ,  0.16666667], dtype=float32)
    """
    n = known_int("scipy.special.bernoulli", "n", n)
    if n < 0:
        raise ArgumentValueError("scipy.special.bernoulli needs n of at least 0.", got=f"n: {n}")
    values = np.zeros(n + 1)
    for k, number in enumerate(bernoulli_numbers(min(n, _LAST_FINITE_BERNOULLI))):
        values[k] = float(number)
    overflow = np.arange(_LAST_FINITE_BERNOULLI + 2, n + 1, 2)
    values[overflow] = np.where(overflow % 4 == 0, -np.inf, np.inf)
    with np.errstate(over="ignore"):  # float32 overflows at B₆₄
        return jnp.asarray(values.astype(dtypes.canonicalize(values.dtype)))


_LAST_FINITE_BERNOULLI = 258

__all__ = [
    "bernoulli", "beta", "betainc", "betaln", "comb", "digamma", "factorial", "gamma", "gammainc", "gammaincc", "gammaln",
    "gammasgn", "loggamma", "multigammaln", "poch", "polygamma", "zeta",
]  # fmt: skip

public_functions(__all__, globals())
