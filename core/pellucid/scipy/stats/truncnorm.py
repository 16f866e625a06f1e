"""The truncated normal distribution."""

from __future__ import annotations

import math

import numpy as np

from pellucid._machine.primitives.formulas import Term, log1p, select, square
from pellucid.scipy.special.normal import log_ndtr_of, ndtr_of

from .distributions import Distribution, log1mexp


def _log_mass(a: Term, b: Term) -> Term:
    """The logarithm of the normal distribution's probability between a and b, from the tail that has its digits."""
    is_right = a > 0
    low, high = select(is_right, -b, a), select(is_right, -a, b)
    log_low, log_high = log_ndtr_of(low), log_ndtr_of(high)
    empty = low >= high
    difference = select(empty, 1.0, log_high - select(log_low == -np.inf, log_high - 1000, log_low))
    tail = log_high + log1mexp(difference)
    middle = log1p(-(ndtr_of(select(high > 0, low, -1.0)) + ndtr_of(select(high > 0, -high, -1.0))))
    return select(empty, -np.inf, select(high > 0, middle, tail))


_DISTRIBUTION = Distribution(
    __name__, "the normal distribution between `loc + a scale` and `loc + b scale`", "a b",
    support=lambda a, b: (a, b), inside=lambda a, b: a, valid=lambda a, b: a < b,
    logpdf=lambda z, a, b: -0.5 * square(z) - 0.5 * math.log(2 * math.pi) - _log_mass(a, b),
    logcdf=lambda z, a, b: _log_mass(a, z) - _log_mass(a, b),
    logsf=lambda z, a, b: _log_mass(z, b) - _log_mass(a, b),
)  # fmt: skip

cdf, logcdf, logpdf, logsf, pdf, sf = _DISTRIBUTION.functions("cdf logcdf logpdf logsf pdf sf")

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]
