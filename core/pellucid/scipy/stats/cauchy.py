"""The Cauchy distribution."""

from __future__ import annotations

import math

from pellucid._machine.primitives.formulas import (
    Term,
    atan2,
    log,
    log1p,
    maximum,
    minimum,
    select,
    square,
    tan,
)

from .distributions import Distribution


def _logpdf(z: Term) -> Term:
    size = maximum(abs(z), z.constant(1))
    far = 2 * log(size) + log1p(1 / square(size))
    return -math.log(math.pi) - select(
        abs(z) > 1, far, log1p(square(minimum(abs(z), z.constant(1))))
    )


def _cdf(z: Term) -> Term:
    return atan2(z.filled(1), -z) * (1 / math.pi)


def _ppf(q: Term) -> Term:
    """The quantile tan(π(q - 1/2)); towards both ends by the cotangent of the smaller probability."""
    tail = select(q < 0.5, q, 1 - q)
    far = 1 / tan(math.pi * tail)
    return select(abs(q - 0.5) < 0.25, tan(math.pi * (q - 0.5)), select(q < 0.5, -far, far))


_DISTRIBUTION = Distribution(
    __name__, "the Cauchy distribution",
    logpdf=_logpdf, cdf=_cdf, sf=lambda z: _cdf(-z), ppf=_ppf, isf=lambda q: -_ppf(q),
)  # fmt: skip

cdf, isf, logcdf, logpdf, logsf, pdf, ppf, sf = _DISTRIBUTION.functions(
    "cdf isf logcdf logpdf logsf pdf ppf sf"
)

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
