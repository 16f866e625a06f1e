"""The normal distribution."""

from __future__ import annotations

import math

from pellucid._machine.primitives.formulas import square
from pellucid.scipy.special.normal import log_ndtr_of, ndtr_of, ndtri_of

from .distributions import Distribution

_DISTRIBUTION = Distribution(
    __name__, "the normal distribution with mean `loc` and standard deviation `scale`",
    logpdf=lambda z: -0.5 * square(z) - 0.5 * math.log(2 * math.pi),
    cdf=ndtr_of, sf=lambda z: ndtr_of(-z), logcdf=log_ndtr_of, logsf=lambda z: log_ndtr_of(-z),
    ppf=ndtri_of, isf=lambda q: -ndtri_of(q),
)  # fmt: skip

cdf, isf, logcdf, logpdf, logsf, pdf, ppf, sf = _DISTRIBUTION.functions(
    "cdf isf logcdf logpdf logsf pdf ppf sf"
)

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
