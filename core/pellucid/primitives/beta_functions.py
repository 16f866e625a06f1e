"""The regularized incomplete beta function, by its continued fraction (DLMF 8.17.22).

The fraction converges fast for x < (a + 1) / (a + b + 2); elsewhere I(a, b, x) = 1 - I(b, a, 1 - x).
"""

from __future__ import annotations

import math

import numpy as np

from .formulas import Term, exp, is_nan, log, select
from .gamma_functions import deviance, stirling_error
from .iteration import MAX_STEPS, Iteration


def log_power(a: Term, b: Term, x: Term, y: Term) -> Term:
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


def mirrored(a: Term, b: Term, x: Term) -> tuple[Term, Term, Term, Term, Term]:
    """(whether, a, b, x, 1 - x), where `a`, `b` and `x`, 1 - `x` change places if the fraction would be slow."""
    y = 1 - x
    slow = x * (a + b + 2) > a + 1
    return slow, select(slow, b, a), select(slow, a, b), select(slow, y, x), select(slow, x, y)


def regular(a: Term, b: Term, x: Term) -> Term:
    """Where a > 0 and b > 0 are finite and 0 < x < 1, so that there is something to compute."""
    return (x > 0) & (x < 1) & ((a > 0) & (a < np.inf)) & ((b > 0) & (b < np.inf))


def undefined(a: Term, b: Term, x: Term) -> Term:
    """Where parameters are negative, both zero or both infinite, or x is not from 0 to 1."""
    result = (x < 0) | (x > 1)
    for n in (a, b, x):
        result = result | ((n < 0) | is_nan(n))
    for limit in (0, np.inf):
        result = result | ((a == limit) & (b == limit))
    return result


def start(a: Term, b: Term, x: Term) -> list[Term]:
    """The state (active, m, a, b, x, p, q, s): ratios p, q and value s of Lentz's modified method.

    Source: Press et al., Numerical Recipes, 3rd ed., sections 5.2 and 6.4.
    """
    active = regular(a, b, x)
    _, a, b, x, _ = mirrored(a, b, x)
    q = 1 / away_from_zero(1 - (a + b) * x / (a + 1))
    return [active, x.constant(1), a, b, x, x.filled(1), q, q]


def step(active: Term, m: Term, a: Term, b: Term, x: Term, p: Term, q: Term, s: Term) -> list[Term]:
    """Two more levels of the continued fraction."""
    twice = a + 2 * m
    even = m * (b - m) * x / ((twice - 1) * twice)
    odd = -((a + m) * (a + b + m) * x / (twice * (twice + 1)))
    new_p, new_q, new_s = p, q, s
    for c in (even, odd):
        new_q = 1 / away_from_zero(1 + c * new_q)
        new_p = away_from_zero(1 + c / new_p)
        factor = new_p * new_q
        new_s = new_s * factor
    unfinished = (abs(factor - 1) > 4 * x.limits.eps) & (m < MAX_STEPS)
    ratios = [select(active, new, old) for new, old in ((new_p, p), (new_q, q), (new_s, s))]
    return [active & unfinished, m + 1, a, b, x, *ratios]


def away_from_zero(x: Term) -> Term:
    """`x` with the smallest normal number in place of zeros."""
    return select(x == 0, x.limits.tiny, x)


def finish(a: Term, b: Term, x: Term, *state: Term) -> Term:
    """I(a, b, x) from the fraction, its limits, or NaN."""
    slow, a_, b_, x_, y_ = mirrored(a, b, x)
    part = exp(log_power(a_, b_, x_, y_)) / a_ * state[-1]
    value = select(slow, 1 - part, part)
    at_one = ((x == 1) | ((a == 0) | (b == np.inf))) & (x != 0)
    limit = select(at_one, 1, x.filled(0))
    limit = select(undefined(a, b, x), np.nan, limit)
    return select(regular(a, b, x), value, limit)


lower_regularized_incomplete_beta = Iteration(start, step, finish)
