"""The incomplete gamma functions, their derivatives by the parameter and those of gamma samples, and the incomplete
beta function.

P(a, x) is computed by its power series for small x, Q(a, x) = 1 - P(a, x) by its continued fraction for
large x; derivatives by `a` differentiate the terms of either (DLMF, sections 8.7 and 8.9; Moore, Algorithm
AS 187, Applied Statistics 31, 1982; Figurnov, Mohamed and Mnih, Implicit Reparameterization Gradients, 2018).
Both need O(√a) steps where x is near a; for large a its uniform asymptotic expansion (DLMF, section 8.12) takes their place.
The incomplete beta function is computed by the even part of its continued fraction (DLMF
8.17.22), which converges fast for x < (a + 1) / (a + b + 2); elsewhere I(a, b, x) = 1 - I(b, a, 1 - x). Large a and b have an expansion, too.
"""

from __future__ import annotations

import math

import numpy as np

from .formulas import (
    MAX_STEPS,
    Iteration,
    Term,
    digamma,
    erfc,
    exp,
    is_nan,
    lgamma,
    log,
    log1p,
    maximum,
    minimum,
    polynomial,
    select,
    sqrt,
    square,
)

# Prefactors, without the cancellation of a log x - x - lgamma(a) for large a --------------------------

# Terms of Stirling's series: B₂ₖ / (2k (2k - 1)), k = 1, 2, … (DLMF 5.11.1).
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_MIN_FOR_SERIES = 16.0


def stirling_error(a: Term) -> Term:
    """lgamma(a) - ((a - 1/2) log a - a + log(2π)/2), which is about 1/(12 a)."""
    inverse = 1 / a
    series = inverse * polynomial(square(inverse), _STIRLING)
    leading = (a - 0.5) * log(a) - (a - math.log(2 * math.pi) / 2)
    return select(a < _MIN_FOR_SERIES, lgamma(a) - leading, series)


def deviance(a: Term, m: Term, difference: Term) -> Term:
    """a log(a / m) + m - a, accurate for m near a; `difference` is m - a.

    With r = (m - a) / (m + a), log(m / a) = 2 (r + r³/3 + r⁵/5 + …) and m / a = (1 + r) / (1 - r) (DLMF 4.6.6).
    """
    r = difference / (m + a)
    tail = polynomial(square(r), [1 / (2 * k + 3) for k in range(9)])
    near = 2 * (a * square(r)) * (1 / (1 - r) - r * tail)
    ratio = m / a
    is_number = (ratio > 0) & (ratio < np.inf)
    far = difference - a * select(is_number, log(ratio), log(m) - log(a))
    return select(abs(r) < 0.1, near, far)


def log_gamma_power(a: Term, x: Term) -> Term:
    """log(xᵃ e⁻ˣ / Γ(a))."""
    scale = 0.5 * log(a * (1 / (2 * math.pi)))
    return scale - stirling_error(a) - deviance(a, x, x - a)


def gamma_density(a: Term, x: Term) -> Term:
    """xᵃ⁻¹ e⁻ˣ / Γ(a), the derivative of P(a, x) by x; at the edges by logarithms, so that its derivatives are no zeros."""
    inside = is_regular_gamma(a, x)
    [a_in, x_in], [a_out, x_out] = _split(inside, a, x)
    power = select(a_out == 1, 0.0, (a_out - 1) * log(x_out))
    return select(
        inside, exp(log_gamma_power(a_in, x_in)) / x_in, exp((power - x_out) - lgamma(a_out))
    )


def beta_density(a: Term, b: Term, x: Term) -> Term:
    """xᵃ⁻¹ (1 - x)ᵇ⁻¹ / B(a, b), the derivative of I(a, b, x) by x; at the edges as `gamma_density`."""
    inside = is_regular_beta(a, b, x)
    [a_in, b_in, x_in], [a_out, b_out, x_out] = _split(inside, a, b, x)
    y_in = 1 - x_in
    value = exp(log_beta_power(a_in, b_in, x_in, y_in)) / (x_in * y_in)
    powers = select(b_out == 1, 0.0, (b_out - 1) * log1p(-x_out))
    powers = powers + select(a_out == 1, 0.0, (a_out - 1) * log(x_out))
    log_beta = lgamma(a_out) + lgamma(b_out) - lgamma(a_out + b_out)
    return select(inside, value, exp(powers - log_beta))


def _split(inside: Term, *terms: Term) -> tuple[list[Term], list[Term]]:
    """(`terms` with 1/2 outside of the mask, `terms` with 1/2 inside of it).

    Each of two formulas gets harmless numbers where the other one counts, so that its derivative is no NaN there.
    """
    return [select(inside, t, 0.5) for t in terms], [select(inside, 0.5, t) for t in terms]


# Domains of the methods -----------------------------------------------------------------------------


def beyond(a: Term, x: Term) -> Term:
    """Mask: where the continued fraction is used; elsewhere the power series is."""
    return (x > 1) & (x > a)


def is_regular_gamma(a: Term, x: Term) -> Term:
    """Mask: where a > 0 and x > 0 are finite; elsewhere the result is a limit or NaN."""
    return ((a > 0) & (x > 0)) & ((a < np.inf) & (x < np.inf))


def is_undefined_gamma(a: Term, x: Term) -> Term:
    """Mask: where an argument is negative or NaN, or both are zero."""
    return (a < 0) | (x < 0) | ((a == 0) & (x == 0)) | (is_nan(a) | is_nan(x))


_MIN_OF_EXPANSION = {32: 1e5, 64: 1e6}
# Coefficients of powers of η in the expansion: of c₀, and the first ones of c₁ (Temme, SIAM J. Math. Anal. 10, 1979).
_TEMME = (-1 / 3, 1 / 12, -2 / 135, 1 / 864, 1 / 2835, -139 / 777600)
_TEMME_NEXT = (-1 / 540, -1 / 288, 1 / 378)


def is_large(a: Term) -> Term:
    """Mask: where the asymptotic expansion is used."""
    return a > _MIN_OF_EXPANSION[a.limits.bits]


def expansion(a: Term, x: Term) -> tuple[Term, Term]:
    """(square root of the deviance, with the sign of x - a; η, clipped to ±0.1, as terms beyond underflow)."""
    root = sqrt(deviance(a, x, x - a))
    root = select(x < a, -root, root)
    eta = root * sqrt(2 / a)
    return root, minimum(maximum(eta, x.constant(-0.1)), x.constant(0.1))


def expanded_tails(a: Term, x: Term) -> tuple[Term, Term]:
    """(P(a, x), Q(a, x)) for large a (DLMF 8.12.3, 8.12.4, 8.12.7)."""
    root, eta = expansion(a, x)
    rest = polynomial(eta, _TEMME) + polynomial(eta, _TEMME_NEXT) / a
    rest = rest * exp(-square(root)) / sqrt(2 * math.pi * a)
    return 0.5 * erfc(-root) - rest, 0.5 * erfc(root) + rest


def expanded_slope(a: Term, x: Term) -> Term:
    """-∂P/∂a over exp(-deviance) / √(2πa), for large a: the derivative of the expansion, by terms."""
    _, eta = expansion(a, x)
    away = (x - a) / a
    logarithm = select(abs(away) < 0.5, log1p(away), log(x / a))
    by_eta = 1 / select(eta == 0, 1.0, eta)
    leading = select(eta == 0, 1.0, logarithm * by_eta)
    by_eta = select(eta == 0, 1.0, away * by_eta)
    first = polynomial(eta, _TEMME)
    slope = polynomial(eta, [k * c for k, c in enumerate(_TEMME)][1:])
    return leading + logarithm * first - (0.5 * first + slope * by_eta) / a


# Iteration ------------------------------------------------------------------------------------------
#
# One state serves both methods, and derivatives: (active, n, a, x, s, ds, p, dp, q, dq). For the series, s is
# the sum, p the last term; for the continued fraction by Lentz's method, modified by Thompson and Barnett
# (Press et al., Numerical Recipes, 3rd ed., section 5.2), s is the fraction, p and q its two ratios.
# ds, dp, dq are derivatives by a.


def start_gamma(a: Term, x: Term) -> list[Term]:
    """The state before the first step."""
    zero, one = x.filled(0), x.filled(1)
    far = beyond(a, x)
    # The fraction is 1 / (b₀ + c₁ / (b₁ + …)) with bₙ = x + 2n + 1 - a, cₙ = n (a - n).
    d = one / (x + one - a)
    dd = square(d)
    p = select(far, 1 / x.limits.tiny, one)
    return [
        is_regular_gamma(a, x) & ~is_large(a), x.constant(1), a, x, select(far, d, one), select(far, dd, zero), p, zero, d, dd,
    ]  # fmt: skip


def step_gamma(
    active: Term, n: Term, a: Term, x: Term, s: Term, ds: Term, p: Term, dp: Term, q: Term, dq: Term
) -> list[Term]:
    """One more term of the series, or one more level of the continued fraction."""
    far, limits = beyond(a, x), x.limits
    # Series: pₙ = pₙ₋₁ x / (a + n).
    below = a + n
    ratio = x / below
    term = p * ratio
    dterm = dp * ratio - term / below
    # Continued fraction: q = 1 / (b + c q), p = b + c / p, s = s p q.
    b = x + (2 * n + 1) - a
    c = n * (a - n)
    under = b + c * q
    under = select(under == 0, limits.tiny, under)
    dunder = n * q - 1 + c * dq
    new_q = 1 / under
    new_dq = -(dunder * square(new_q))
    new_p = b + c / p
    new_dp = n / p - 1 - c * (dp / p) / p
    factor = new_p * new_q
    dfactor = new_dp * new_q + new_p * new_dq
    new_s = select(far, s * factor, s + term)
    new_ds = select(far, ds * factor + s * dfactor, ds + dterm)
    # The remaining terms sum to at most a geometric series; the fraction still changes by about its last change.
    tail = select(far, 0.25, x / (below - x))
    moved = abs(new_s - s) * tail > abs(new_s) * limits.eps
    scale = abs(new_ds) + abs(new_s)
    turned = abs(new_ds - ds) * tail > scale * limits.eps
    unfinished = (moved | turned) & (n < MAX_STEPS)
    old_and_new = (
        (s, new_s), (ds, new_ds), (p, select(far, new_p, term)), (dp, select(far, new_dp, dterm)), (q, new_q),
        (dq, new_dq),
    )  # fmt: skip
    return [
        active & unfinished,
        n + 1,
        a,
        x,
        *(select(active, new, old) for old, new in old_and_new),
    ]


# Results --------------------------------------------------------------------------------------------


def tails(a: Term, x: Term, s: Term) -> tuple[Term, Term]:
    """(P(a, x), Q(a, x)) from the sum or fraction `s`."""
    weight = exp(log_gamma_power(a, x))
    near = weight / a * s  # P = xᵃ e⁻ˣ / Γ(a + 1) · Σ
    far = weight * s  # Q = xᵃ e⁻ˣ / Γ(a) · K
    is_far = beyond(a, x)
    lower, upper = expanded_tails(a, x)
    return (
        select(is_large(a), lower, select(is_far, 1 - far, near)),
        select(is_large(a), upper, select(is_far, far, 1 - near)),
    )


def with_limits(a: Term, x: Term, value: Term, at_zero: float, at_infinity: float) -> Term:
    """`value` where it was computed; its limits for x = 0 or a = ∞, and for x = ∞ or a = 0; or NaN."""
    limit = select((x == np.inf) | (a == 0), at_infinity, value.filled(at_zero))
    limit = select(is_undefined_gamma(a, x), np.nan, limit)
    return select(is_regular_gamma(a, x), value, limit)


def finish_igamma(a: Term, x: Term, *state: Term) -> Term:
    """P(a, x)."""
    return with_limits(a, x, maximum(tails(a, x, state[4])[0], x.constant(0)), 0, 1)


def finish_igammac(a: Term, x: Term, *state: Term) -> Term:
    """Q(a, x)."""
    return with_limits(a, x, maximum(tails(a, x, state[4])[1], x.constant(0)), 1, 0)


def slope(a: Term, x: Term, state: tuple[Term, ...]) -> Term:
    """Derivative by a of the sum times xᵃ / Γ(a + 1), or of the fraction times xᵃ / Γ(a), over that power."""
    s, ds = state[4:6]
    return ds + s * (log(x) - digamma(select(beyond(a, x), a, a + 1)))


def finish_igamma_grad_a(a: Term, x: Term, *state: Term) -> Term:
    """∂P/∂a."""
    weight = exp(log_gamma_power(a, x))
    weight = select(beyond(a, x), -weight, weight / a)
    value = weight * slope(a, x, state)
    large = -expanded_slope(a, x) * exp(-deviance(a, x, x - a)) / sqrt(2 * math.pi * a)
    value = with_limits(a, x, select(is_large(a), large, value), 0, 0)
    return select(a == 0, np.nan, value)


def finish_random_gamma_grad(a: Term, x: Term, *state: Term) -> Term:
    """dx/da = -(∂P/∂a) / (∂P/∂x), where ∂P/∂x = xᵃ⁻¹ e⁻ˣ / Γ(a) cancels against the prefactors."""
    part = slope(a, x, state)
    value = x * select(beyond(a, x), part, -(part / a))
    large = x / a * exp(stirling_error(a)) * expanded_slope(a, x)
    value = select(is_large(a), large, value)
    limit = select((x == 0) & (a > 0), 0, value.filled(np.nan))
    return select(is_regular_gamma(a, x), value, limit)


lower_igamma = Iteration(start_gamma, step_gamma, finish_igamma)
lower_igammac = Iteration(start_gamma, step_gamma, finish_igammac)
lower_igamma_grad_a = Iteration(start_gamma, step_gamma, finish_igamma_grad_a)
lower_random_gamma_grad = Iteration(start_gamma, step_gamma, finish_random_gamma_grad)


def log_beta_power(a: Term, b: Term, x: Term, y: Term) -> Term:
    """log(xᵃ yᵇ / B(a, b)) with y = 1 - x, without the cancellation of logarithms of gamma functions.

    With n = a + b it is log √(ab / 2πn), minus n times the divergence of (a/n, b/n) from (x, y), plus errors
    of Stirling's formula (Loader, Fast and Accurate Computation of Binomial Probabilities, 2000).
    """
    n = a + b
    away = b * x - a * y  # n x - a
    divergence = deviance(a, n * x, away) + deviance(b, n * y, -away)
    scale = 0.5 * log(a / n * (b * (1 / (2 * math.pi))))
    errors = stirling_error(n) - (stirling_error(a) + stirling_error(b))
    return scale + errors - divergence


def mirror_if_slow(a: Term, b: Term, x: Term) -> tuple[Term, Term, Term, Term, Term]:
    """(whether, a, b, x, 1 - x), where `a`, `b` and `x`, 1 - `x` change places if the fraction would be slow."""
    y = 1 - x
    slow = x * (a + b + 2) >= a + 1
    return slow, select(slow, b, a), select(slow, a, b), select(slow, y, x), select(slow, x, y)


def is_regular_beta(a: Term, b: Term, x: Term) -> Term:
    """Mask: where a > 0 and b > 0 are finite and 0 < x < 1; elsewhere the result is a limit or NaN. Subnormal a and b are 0,
    as they are where processors flush them.
    """
    tiny = a.limits.tiny
    return (x > 0) & (x < 1) & ((a >= tiny) & (a < np.inf)) & ((b >= tiny) & (b < np.inf))


def is_undefined_beta(a: Term, b: Term, x: Term) -> Term:
    """Mask: where parameters are negative, both zero or both infinite, or x is outside of [0, 1]."""
    result = (x < 0) | (x > 1)
    for n in (a, b, x):
        result = result | ((n < 0) | is_nan(n))
    tiny = a.limits.tiny
    return result | ((a < tiny) & (b < tiny)) | ((a == np.inf) & (b == np.inf))


_MIN_OF_BETA_EXPANSION = {32: 1e5, 64: 1e8}


def is_large_beta(a: Term, b: Term) -> Term:
    """Mask: where the asymptotic expansion for large parameters is used."""
    return minimum(a, b) > _MIN_OF_BETA_EXPANSION[a.limits.bits]


def expanded_beta(a: Term, b: Term, x: Term) -> Term:
    """I(a, b, x) for large a and b (DLMF 8.18.9, c₀ by its powers of the distance from a / (a + b))."""
    part, y = a / (a + b), 1 - x
    other = b / (a + b)
    n = a + b
    away = n * (b / n * x - a / n * y)
    divergence = deviance(a, n * x, away) + deviance(b, n * y, -away)
    root = sqrt(divergence)
    root = select(away < 0, -root, root)
    spread = part * other
    first = ((other - part) / 3 - (x - part) * (1 / spread - 1) / 12) / sqrt(spread)
    return 0.5 * erfc(-root) + first * exp(-divergence) / sqrt(2 * math.pi * n)


def start_beta(a: Term, b: Term, x: Term) -> list[Term]:
    """The state (active, m, a, b, x, y, p, q, s): ratios p, q and value s of Lentz's modified method, for the even part of
    the continued fraction, whose terms need y = 1 - x only and not its rounded complement.

    Source: Press et al., Numerical Recipes, 3rd ed., sections 5.2 and 6.4; DiDonato and Morris, Algorithm 708, ACM
    Transactions on Mathematical Software 18 (1992), (9).
    """
    active = is_regular_beta(a, b, x) & ~is_large_beta(a, b)
    _, a, b, x, y = mirror_if_slow(a, b, x)
    first = away_from_zero(a / (a + 1) * (1 + (a * y - b * x)))
    return [active, x.constant(1), a, b, x, y, first, x.filled(0), first]


def step_beta(
    active: Term, m: Term, a: Term, b: Term, x: Term, y: Term, p: Term, q: Term, s: Term
) -> list[Term]:
    """One more level of the continued fraction."""
    # Whole numbers are added first, so that a small `a` keeps its digits.
    before, below = m - 1, a + (2 * m - 1)
    weight = m * (b - m) * x
    numerator = (a + before) / below * ((a + b + before) / below) * (weight * x)
    distance = 1 + (a * y - b * x)
    denominator = m + weight / below + (a + m) / (a + (2 * m + 1)) * (distance + m * (1 + y))
    new_q = 1 / away_from_zero(denominator + numerator * q)
    new_p = away_from_zero(denominator + numerator / p)
    factor = new_p * new_q
    unfinished = (abs(factor - 1) > 4 * x.limits.eps) & (m < MAX_STEPS)
    olds = ((new_p, p), (new_q, q), (s * factor, s))
    ratios = [select(active, new, old) for new, old in olds]
    return [active & unfinished, m + 1, a, b, x, y, *ratios]


def away_from_zero(x: Term) -> Term:
    """`x` with the smallest normal number in place of zeros."""
    return select(x == 0, x.limits.tiny, x)


def finish_beta(a: Term, b: Term, x: Term, *state: Term) -> Term:
    """I(a, b, x) from the fraction, its limits, or NaN."""
    slow, a_, b_, x_, y_ = mirror_if_slow(a, b, x)
    part = exp(log_beta_power(a_, b_, x_, y_)) / state[-1]
    part = select(part > 1, 1.0, part)  # rounding
    value = select(slow, 1 - part, part)
    value = select(is_large_beta(a, b), expanded_beta(a, b, x), value)
    at_one = ((x == 1) | ((a < a.limits.tiny) | (b == np.inf))) & (x != 0)
    limit = select(at_one, 1, x.filled(0))
    limit = select(is_undefined_beta(a, b, x), np.nan, limit)
    return select(is_regular_beta(a, b, x), value, limit)


lower_regularized_incomplete_beta = Iteration(start_beta, step_beta, finish_beta)
