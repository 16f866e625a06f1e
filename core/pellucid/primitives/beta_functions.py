"""The regularized incomplete beta function, by its continued fraction (DLMF 8.17.22).

The fraction converges fast for x < (a + 1) / (a + b + 2); elsewhere I(a, b, x) = 1 - I(b, a, 1 - x).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pellucid.base import dtypes
from pellucid.primitives.arithmetic import abs as absolute, add, div, log, mul, neg, sub
from pellucid.primitives.families import constant_like, full_as
from pellucid.primitives.gamma_functions import deviance, precision, stirling_error
from pellucid.primitives.iteration import MOST_STEPS, Iteration
from pellucid.primitives.logical import bitwise_and, bitwise_or, eq, gt, lt, ne, select
from pellucid.primitives.transcendental import exp
from pellucid.tracing.values import type_of


def log_power(a: Any, b: Any, x: Any, y: Any) -> Any:
    """log(xᵃ yᵇ / B(a, b)) with y = 1 - x, without the cancellation of logarithms of gamma functions.

    With n = a + b it is log √(ab / 2πn), minus n times the divergence of (a/n, b/n) from (x, y), plus errors
    of Stirling's formula (Loader, Fast and Accurate Computation of Binomial Probabilities, 2000).
    """
    n = add(a, b)
    away = sub(mul(b, x), mul(a, y))  # n x - a
    divergence = add(deviance(a, mul(n, x), away), deviance(b, mul(n, y), neg(away)))
    scale = mul(
        constant_like(a, 0.5), log(mul(div(a, n), mul(b, constant_like(a, 1 / (2 * math.pi)))))
    )
    errors = sub(stirling_error(n), add(stirling_error(a), stirling_error(b)))
    return sub(add(scale, errors), divergence)


def mirrored(a: Any, b: Any, x: Any) -> tuple[Any, Any, Any, Any, Any]:
    """(whether, a, b, x, 1 - x), where `a`, `b` and `x`, 1 - `x` change places if the fraction would be slow."""
    one = constant_like(x, 1)
    y = sub(one, x)
    slow = gt(mul(x, add(add(a, b), constant_like(x, 2))), add(a, one))
    return slow, select(slow, b, a), select(slow, a, b), select(slow, y, x), select(slow, x, y)


def regular(a: Any, b: Any, x: Any) -> Any:
    """Where a > 0 and b > 0 are finite and 0 < x < 1, so that there is something to compute."""
    zero, infinity = constant_like(x, 0), constant_like(x, np.inf)
    found = bitwise_and(gt(x, zero), lt(x, constant_like(x, 1)))
    for parameter in (a, b):
        found = bitwise_and(found, bitwise_and(gt(parameter, zero), lt(parameter, infinity)))
    return found


def undefined(a: Any, b: Any, x: Any) -> Any:
    """Where parameters are negative, both zero or both infinite, or x is not from 0 to 1."""
    zero, infinity = constant_like(x, 0), constant_like(x, np.inf)
    found = bitwise_or(lt(x, zero), gt(x, constant_like(x, 1)))
    for n in (a, b, x):
        found = bitwise_or(found, bitwise_or(lt(n, zero), ne(n, n)))
    for limit in (zero, infinity):
        found = bitwise_or(found, bitwise_and(eq(a, limit), eq(b, limit)))
    return found


def start(a: Any, b: Any, x: Any) -> list[Any]:
    """The state (active, m, a, b, x, p, q, s): ratios p, q and value s of Lentz's modified method.

    Source: Press et al., Numerical Recipes, 3rd ed., sections 5.2 and 6.4.
    """
    active = regular(a, b, x)
    _, a, b, x, _ = mirrored(a, b, x)
    one = constant_like(x, 1)
    q = div(one, away_from_zero(sub(one, div(mul(add(a, b), x), add(a, one)))))
    return [active, one, a, b, x, full_as(x, 1), q, q]


def step(active: Any, m: Any, a: Any, b: Any, x: Any, p: Any, q: Any, s: Any) -> list[Any]:
    """Two more levels of the continued fraction."""
    one = constant_like(x, 1)
    twice = add(a, mul(constant_like(x, 2), m))
    even = div(mul(mul(m, sub(b, m)), x), mul(sub(twice, one), twice))
    odd = neg(div(mul(mul(add(a, m), add(add(a, b), m)), x), mul(twice, add(twice, one))))
    new_p, new_q, new_s = p, q, s
    for c in (even, odd):
        new_q = div(one, away_from_zero(add(one, mul(c, new_q))))
        new_p = away_from_zero(add(one, div(c, new_p)))
        factor = mul(new_p, new_q)
        new_s = mul(new_s, factor)
    unfinished = bitwise_and(
        gt(absolute(sub(factor, one)), mul(precision(x), constant_like(x, 4))),
        lt(m, constant_like(m, MOST_STEPS)),
    )
    ratios = [select(active, new, old) for new, old in ((new_p, p), (new_q, q), (new_s, s))]
    return [bitwise_and(active, unfinished), add(m, one), a, b, x, *ratios]


def away_from_zero(x: Any) -> Any:
    """`x` with a very small number in place of zeros."""
    tiny = full_as(x, dtypes.finfo(type_of(x).dtype).tiny)
    return select(eq(x, constant_like(x, 0)), tiny, x)


def finish(a: Any, b: Any, x: Any, *state: Any) -> Any:
    """I(a, b, x) from the fraction, its limits, or NaN."""
    s = state[-1]
    zero, one, infinity = (constant_like(x, n) for n in (0, 1, np.inf))
    slow, a_, b_, x_, y_ = mirrored(a, b, x)
    part = mul(div(exp(log_power(a_, b_, x_, y_)), a_), s)
    value = select(slow, sub(one, part), part)
    at_one = bitwise_or(eq(x, one), bitwise_or(eq(a, zero), eq(b, infinity)))
    at_one = bitwise_and(at_one, ne(x, zero))
    limit = select(at_one, full_as(x, 1), full_as(x, 0))
    limit = select(undefined(a, b, x), full_as(x, np.nan), limit)
    return select(regular(a, b, x), value, limit)


lower_regularized_incomplete_beta = Iteration(start, step, finish)
