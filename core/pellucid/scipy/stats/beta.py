"""The beta distribution."""

from __future__ import annotations

from pellucid.scipy.special.gamma_functions import betaln_of

from .distributions import Distribution, all_positive, beta_below, xlog1py, xlogy

_DISTRIBUTION = Distribution(
    __name__, "the beta distribution", "a b", support=(0, 1), valid=all_positive,
    logpdf=lambda z, a, b: xlogy(a - 1, z) + xlog1py(b - 1, -z) - betaln_of(a, b),
    cdf=lambda z, a, b: beta_below(a, b, z), sf=lambda z, a, b: beta_below(b, a, 1 - z),
)  # fmt: skip

cdf, logcdf, logpdf, logsf, pdf, sf = _DISTRIBUTION.functions("cdf logcdf logpdf logsf pdf sf")

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]
