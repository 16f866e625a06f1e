"""Pareto's distribution."""

from __future__ import annotations

import numpy as np

from pellucid._machine.primitives.formulas import expm1, log, power

from .distributions import Distribution, all_positive, log1mexp

_DISTRIBUTION = Distribution(
    __name__, "Pareto's distribution with exponent `b`", "b", support=(1, np.inf), inside=2.0, valid=all_positive,
    logpdf=lambda z, b: log(b) - (b + 1) * log(z), cdf=lambda z, b: -expm1(-b * log(z)), sf=lambda z, b: power(z, -b),
    logcdf=lambda z, b: log1mexp(b * log(z)), logsf=lambda z, b: -b * log(z), ppf=lambda q, b: power(1 - q, -1 / b),
)  # fmt: skip

cdf, logcdf, logpdf, logsf, pdf, ppf, sf = _DISTRIBUTION.functions(
    "cdf logcdf logpdf logsf pdf ppf sf"
)

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
