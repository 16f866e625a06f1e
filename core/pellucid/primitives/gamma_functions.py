"""The incomplete gamma functions, their derivative by the parameter, and that of gamma samples.

P(a, x) is computed by its power series for small x, Q(a, x) = 1 - P(a, x) by its continued fraction for
large x; derivatives by `a` differentiate the terms of either (DLMF, sections 8.7 and 8.9; Moore, Algorithm
AS 187, Applied Statistics 31, 1982; Figurnov, Mohamed and Mnih, Implicit Reparameterization Gradients, 2018).
Both need O(√a) steps where x is near a.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid.base import dtypes
from pellucid.primitives.arithmetic import (
    abs as absolute,
    add,
    div,
    log,
    max as maximum,
    mul,
    neg,
    square,
    sub,
)
from pellucid.primitives.families import constant_like, full_as
from pellucid.primitives.gamma import digamma, lgamma
from pellucid.primitives.iteration import MOST_STEPS, Iteration
from pellucid.primitives.logical import bitwise_and, bitwise_or, eq, gt, lt, ne, select
from pellucid.primitives.transcendental import exp
from pellucid.tracing.values import type_of


def polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """The value at `x` of the polynomial with `coefficients`, the constant first, by Horner's rule."""
    value = full_as(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        value = add(mul(value, x), constant_like(x, c))
    return value


# Prefactors, without the cancellation of a log x - x - lgamma(a) for large a --------------------------

# Terms of Stirling's series: B₂ₖ / (2k (2k - 1)), k = 1, 2, … (DLMF 5.11.1).
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_LARGE = 16.0


def stirling_error(a: Any) -> Any:
    """lgamma(a) - ((a - 1/2) log a - a + log(2π)/2), which is about 1/(12 a)."""
    inverse = div(constant_like(a, 1), a)
    series = mul(inverse, polynomial(square(inverse), _STIRLING))
    leading = sub(
        mul(sub(a, constant_like(a, 0.5)), log(a)),
        sub(a, constant_like(a, math.log(2 * math.pi) / 2)),
    )
    return select(lt(a, constant_like(a, _LARGE)), sub(lgamma(a), leading), series)


def deviance(a: Any, m: Any, difference: Any) -> Any:
    """a log(a / m) + m - a, accurate for m near a; `difference` is m - a.

    With r = (m - a) / (m + a), log(m / a) = 2 (r + r³/3 + r⁵/5 + …) and m / a = (1 + r) / (1 - r) (DLMF 4.6.6).
    """
    one, two = constant_like(a, 1), constant_like(a, 2)
    r = div(difference, add(m, a))
    tail = polynomial(square(r), [1 / (2 * k + 3) for k in range(9)])
    near = mul(mul(two, mul(a, square(r))), sub(div(one, sub(one, r)), mul(r, tail)))
    far = sub(difference, mul(a, log(div(m, a))))
    return select(lt(absolute(r), constant_like(a, 0.1)), near, far)


def log_power(a: Any, x: Any) -> Any:
    """log(xᵃ e⁻ˣ / Γ(a))."""
    scale = mul(constant_like(a, 0.5), log(mul(a, constant_like(a, 1 / (2 * math.pi)))))
    return sub(sub(scale, stirling_error(a)), deviance(a, x, sub(x, a)))


def precision(x: Any) -> Any:
    """The relative spacing of numbers of the dtype of `x`."""
    return constant_like(x, dtypes.finfo(type_of(x).dtype).eps)


# Where which method applies -------------------------------------------------------------------------


def beyond(a: Any, x: Any) -> Any:
    """Where the continued fraction is used, the power series elsewhere."""
    return bitwise_and(gt(x, constant_like(x, 1)), gt(x, a))


def regular(a: Any, x: Any) -> Any:
    """Where a > 0 and x > 0 are finite, so that there is something to compute."""
    zero, infinity = constant_like(x, 0), constant_like(x, np.inf)
    return bitwise_and(
        bitwise_and(gt(a, zero), gt(x, zero)), bitwise_and(lt(a, infinity), lt(x, infinity))
    )


def undefined(a: Any, x: Any) -> Any:
    """Where an argument is negative or NaN, or both are zero."""
    zero = constant_like(x, 0)
    negative = bitwise_or(lt(a, zero), lt(x, zero))
    both_zero = bitwise_and(eq(a, zero), eq(x, zero))
    nan = bitwise_or(ne(a, a), ne(x, x))
    return bitwise_or(bitwise_or(negative, both_zero), nan)


# Iteration ------------------------------------------------------------------------------------------
#
# One state serves both methods, and derivatives: (active, n, a, x, s, ds, p, dp, q, dq). For the series, s is
# the sum, p the last term; for the continued fraction by Lentz's method, modified by Thompson and Barnett
# (Press et al., Numerical Recipes, 3rd ed., section 5.2), s is the fraction, p and q its two ratios.
# ds, dp, dq are derivatives by a.


def start(a: Any, x: Any) -> list[Any]:
    """The state before the first step."""
    zero, one = full_as(x, 0), full_as(x, 1)
    far = beyond(a, x)
    # The fraction is 1 / (b₀ + c₁ / (b₁ + …)) with bₙ = x + 2n + 1 - a, cₙ = n (a - n).
    b = sub(add(x, one), a)
    d = div(one, b)
    dd = square(d)
    tiny = full_as(x, 1 / dtypes.finfo(type_of(x).dtype).tiny)
    s = select(far, d, one)
    ds = select(far, dd, zero)
    p, dp = select(far, tiny, one), zero
    return [regular(a, x), constant_like(x, 1), a, x, s, ds, p, dp, d, dd]


def step(
    active: Any, n: Any, a: Any, x: Any, s: Any, ds: Any, p: Any, dp: Any, q: Any, dq: Any
) -> list[Any]:
    """One more term of the series, or one more level of the continued fraction."""
    far = beyond(a, x)
    one = constant_like(x, 1)
    # Series: pₙ = pₙ₋₁ x / (a + n).
    below = add(a, n)
    ratio = div(x, below)
    term = mul(p, ratio)
    dterm = sub(mul(dp, ratio), div(term, below))
    # Continued fraction: q = 1 / (b + c q), p = b + c / p, s = s p q.
    b = sub(add(x, add(mul(constant_like(x, 2), n), one)), a)
    c = mul(n, sub(a, n))
    under = add(b, mul(c, q))
    under = select(
        eq(under, constant_like(x, 0)), full_as(x, dtypes.finfo(type_of(x).dtype).tiny), under
    )
    dunder = add(sub(mul(n, q), one), mul(c, dq))
    new_q = div(one, under)
    new_dq = neg(mul(dunder, square(new_q)))
    new_p = add(b, div(c, p))
    new_dp = sub(sub(div(n, p), one), div(mul(c, div(dp, p)), p))
    factor = mul(new_p, new_q)
    dfactor = add(mul(new_dp, new_q), mul(new_p, new_dq))
    new_s = select(far, mul(s, factor), add(s, term))
    new_ds = select(far, add(mul(ds, factor), mul(s, dfactor)), add(ds, dterm))
    # What is left of the series is at most a geometric one; of the fraction, about what the last level changed.
    tail = select(far, full_as(x, 0.25), div(x, sub(below, x)))
    moved = gt(mul(absolute(sub(new_s, s)), tail), mul(absolute(new_s), precision(x)))
    scale = add(absolute(new_ds), absolute(new_s))
    turned = gt(mul(absolute(sub(new_ds, ds)), tail), mul(scale, precision(x)))
    unfinished = bitwise_and(bitwise_or(moved, turned), lt(n, constant_like(n, MOST_STEPS)))

    def kept(new: Any, old: Any) -> Any:
        return select(active, new, old)

    return [
        bitwise_and(active, unfinished), add(n, constant_like(n, 1)), a, x, kept(new_s, s), kept(new_ds, ds),
        kept(select(far, new_p, term), p), kept(select(far, new_dp, dterm), dp), kept(new_q, q), kept(new_dq, dq),
    ]  # fmt: skip


# Results --------------------------------------------------------------------------------------------


def tails(a: Any, x: Any, s: Any) -> tuple[Any, Any]:
    """(P(a, x), Q(a, x)) from the sum or fraction `s`."""
    one = constant_like(x, 1)
    weight = exp(log_power(a, x))
    near = mul(div(weight, a), s)  # P = xᵃ e⁻ˣ / Γ(a + 1) · Σ
    far = mul(weight, s)  # Q = xᵃ e⁻ˣ / Γ(a) · K
    is_far = beyond(a, x)
    return select(is_far, sub(one, far), near), select(is_far, far, sub(one, near))


def at_edges(a: Any, x: Any, value: Any, at_zero: float, at_infinity: float) -> Any:
    """`value` where it was computed; its limits for x = 0 or a = ∞, and for x = ∞ or a = 0; or NaN."""
    zero, infinity = constant_like(x, 0), constant_like(x, np.inf)
    limit = select(
        bitwise_or(eq(x, infinity), eq(a, zero)),
        full_as(value, at_infinity),
        full_as(value, at_zero),
    )
    limit = select(undefined(a, x), full_as(value, np.nan), limit)
    return select(regular(a, x), value, limit)


def finish_igamma(a: Any, x: Any, *state: Any) -> Any:
    """P(a, x)."""
    *_, s, _, _, _, _, _ = state
    return at_edges(a, x, maximum(tails(a, x, s)[0], constant_like(x, 0)), 0, 1)


def finish_igammac(a: Any, x: Any, *state: Any) -> Any:
    """Q(a, x)."""
    *_, s, _, _, _, _, _ = state
    return at_edges(a, x, maximum(tails(a, x, s)[1], constant_like(x, 0)), 1, 0)


def slope(a: Any, x: Any, state: Any) -> Any:
    """Derivative by a of the sum times xᵃ / Γ(a + 1), or of the fraction times xᵃ / Γ(a), over that power."""
    *_, s, ds, _, _, _, _ = state
    of_power = sub(log(x), digamma(select(beyond(a, x), a, add(a, constant_like(a, 1)))))
    return add(ds, mul(s, of_power))


def finish_igamma_grad_a(a: Any, x: Any, *state: Any) -> Any:
    """∂P/∂a."""
    weight = exp(log_power(a, x))
    weight = select(beyond(a, x), neg(weight), div(weight, a))
    value = at_edges(a, x, mul(weight, slope(a, x, state)), 0, 0)
    return select(eq(a, constant_like(a, 0)), full_as(value, np.nan), value)


def finish_random_gamma_grad(a: Any, x: Any, *state: Any) -> Any:
    """dx/da = -(∂P/∂a) / (∂P/∂x), where ∂P/∂x = xᵃ⁻¹ e⁻ˣ / Γ(a) cancels against the prefactors."""
    part = slope(a, x, state)
    value = mul(x, select(beyond(a, x), part, neg(div(part, a))))
    zero = constant_like(x, 0)
    at_origin = bitwise_and(eq(x, zero), gt(a, zero))
    limit = select(at_origin, full_as(value, 0), full_as(value, np.nan))
    return select(regular(a, x), value, limit)


lower_igamma = Iteration(start, step, finish_igamma)
lower_igammac = Iteration(start, step, finish_igammac)
lower_igamma_grad_a = Iteration(start, step, finish_igamma_grad_a)
lower_random_gamma_grad = Iteration(start, step, finish_random_gamma_grad)
