"""The Gumbel distribution of maxima."""

from __future__ import annotations

from pellucid._machine.primitives.formulas import exp, expm1, log

from .distributions import Distribution, log1mexp

_DISTRIBUTION = Distribution(
    __name__, "the Gumbel distribution of maxima",
    logpdf=lambda z: -z - exp(-z), cdf=lambda z: exp(-exp(-z)), sf=lambda z: -expm1(-exp(-z)),
    logcdf=lambda z: -exp(-z), logsf=lambda z: log1mexp(exp(-z)), ppf=lambda q: -log(-log(q)),
)  # fmt: skip

cdf, logcdf, logpdf, logsf, pdf, ppf, sf = _DISTRIBUTION.functions(
    "cdf logcdf logpdf logsf pdf ppf sf", ppf="p"
)

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
