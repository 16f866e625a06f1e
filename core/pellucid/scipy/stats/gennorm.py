"""The generalized normal distribution."""

from __future__ import annotations

from pellucid._machine.primitives.formulas import Term, log, power, select
from pellucid.scipy.special.gamma_functions import gammaln_of

from .distributions import Distribution, all_positive, gamma_above


def _cdf(x: Term, beta: Term) -> Term:
    tail = 0.5 * gamma_above(power(abs(x), beta), 1 / beta)
    return select(x < 0, tail, 1 - tail)


_DISTRIBUTION = Distribution(
    __name__, "the generalized normal distribution with exponent `beta`", "beta", optional="", valid=all_positive,
    logpdf=lambda x, beta: log(0.5 * beta) - gammaln_of(1 / beta) - power(abs(x), beta), cdf=_cdf,
)  # fmt: skip

cdf, logpdf, pdf = _DISTRIBUTION.functions("cdf logpdf pdf")

__all__ = ["cdf", "logpdf", "pdf"]
