"""The chi-squared distribution."""

from __future__ import annotations

import math

import numpy as np

from pellucid.scipy.special.gamma_functions import gammaln_of

from .distributions import Distribution, all_positive, gamma_above, gamma_below, xlogy

_DISTRIBUTION = Distribution(
    __name__, "the chi-squared distribution with `df` degrees of freedom", "df", support=(0, np.inf), valid=all_positive,
    logpdf=lambda z, df: xlogy(0.5 * df - 1, 0.5 * z) - 0.5 * z - gammaln_of(0.5 * df) - math.log(2),
    cdf=lambda z, df: gamma_below(0.5 * z, 0.5 * df), sf=lambda z, df: gamma_above(0.5 * z, 0.5 * df),
)  # fmt: skip

cdf, logcdf, logpdf, logsf, pdf, sf = _DISTRIBUTION.functions("cdf logcdf logpdf logsf pdf sf")

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]
