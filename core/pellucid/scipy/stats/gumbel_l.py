"""The Gumbel distribution of minima."""

from __future__ import annotations

from pellucid._machine.primitives.formulas import exp, expm1, log, log1p

from .distributions import Distribution, log1mexp

_DISTRIBUTION = Distribution(
    __name__, "the Gumbel distribution of minima",
    logpdf=lambda z: z - exp(z), cdf=lambda z: -expm1(-exp(z)), sf=lambda z: exp(-exp(z)),
    logcdf=lambda z: log1mexp(exp(z)), logsf=lambda z: -exp(z), ppf=lambda q: log(-log1p(-q)),
)  # fmt: skip

cdf, logcdf, logpdf, logsf, pdf, ppf, sf = _DISTRIBUTION.functions(
    "cdf logcdf logpdf logsf pdf ppf sf", ppf="p"
)

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
