"""The gamma distribution."""

from __future__ import annotations

import numpy as np

from pellucid.scipy.special.gamma_functions import gammaln_of

from .distributions import Distribution, all_positive, gamma_above, gamma_below, xlogy

_DISTRIBUTION = Distribution(
    __name__, "the gamma distribution of shape `a`", "a", support=(0, np.inf), valid=all_positive,
    logpdf=lambda z, a: xlogy(a - 1, z) - z - gammaln_of(a),
    cdf=gamma_below, sf=gamma_above,
)  # fmt: skip

cdf, logcdf, logpdf, logsf, pdf, sf = _DISTRIBUTION.functions("cdf logcdf logpdf logsf pdf sf")

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]
