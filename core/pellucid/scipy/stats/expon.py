"""The exponential distribution."""

from __future__ import annotations

import numpy as np

from pellucid._machine.primitives.formulas import exp, expm1, log1p

from .distributions import Distribution, log1mexp

_DISTRIBUTION = Distribution(
    __name__, "the exponential distribution with mean `scale` that begins at `loc`", support=(0, np.inf),
    logpdf=lambda z: -z, cdf=lambda z: -expm1(-z), sf=lambda z: exp(-z), logcdf=log1mexp, logsf=lambda z: -z,
    ppf=lambda q: -log1p(-q),
)  # fmt: skip

cdf, logcdf, logpdf, logsf, pdf, ppf, sf = _DISTRIBUTION.functions(
    "cdf logcdf logpdf logsf pdf ppf sf"
)

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]
