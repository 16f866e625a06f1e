"""The Laplace distribution."""

from __future__ import annotations

import math

from pellucid._machine.primitives.formulas import Term, exp, select

from .distributions import Distribution


def _cdf(z: Term) -> Term:
    tail = 0.5 * exp(-abs(z))
    return select(z < 0, tail, 1 - tail)


_DISTRIBUTION = Distribution(
    __name__, "the Laplace distribution", logpdf=lambda z: -abs(z) - math.log(2), cdf=_cdf
)

cdf, logpdf, pdf = _DISTRIBUTION.functions("cdf logpdf pdf")

__all__ = ["cdf", "logpdf", "pdf"]
