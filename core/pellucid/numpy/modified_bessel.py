"""Modified Bessel functions of the first kind and of orders 0 and 1, with derivatives of any order."""

from __future__ import annotations

import math

import numpy as np

from pellucid._machine.primitives import special
from pellucid._machine.primitives.formulas import Term, exp, polynomial, select, square

from .partials import removable, with_partials

_SHIFT = 5.0
"""Shift of an exponent: exp(|x| - 5) is finite for all |x| at which a modified Bessel function is."""


def _unscale(x: Term, scaled: Term) -> Term:
    """exp(|x|) * `scaled`, without the overflow of the first factor."""
    size = abs(x)
    is_large = size > 2 * _SHIFT  # `size - _SHIFT` is exact there
    factor = select(is_large, scaled * math.exp(_SHIFT), scaled)
    value = exp(select(is_large, size - _SHIFT, size)) * factor
    return select(abs(x) == np.inf, x * scaled.filled(1), value)


@with_partials(lambda y, x: i1_of(x))  # pyright: ignore[reportGeneralTypeIssues]
def i0_of(x: Term) -> Term:
    """I₀(x)."""
    return abs(_unscale(x, Term(special.bessel_i0e(x.value))))


_I1_BY_X = [0.5 / (4**k * math.factorial(k) * math.factorial(k + 1)) for k in range(9)]


def _i1_by_x(x: Term) -> Term:
    """I₁(x) / x, by its series at 0."""
    near = lambda x: polynomial(square(x), _I1_BY_X)
    return removable(x, lambda x: i1_of(x) / x, 0.5, near)


@with_partials(lambda y, x: i0_of(x) - _i1_by_x(x))  # pyright: ignore[reportGeneralTypeIssues]
def i1_of(x: Term) -> Term:
    """I₁(x)."""
    return _unscale(x, Term(special.bessel_i1e(x.value)))
