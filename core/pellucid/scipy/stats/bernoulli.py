"""The Bernoulli distribution."""

from __future__ import annotations

import numpy as np

from pellucid._machine.primitives.formulas import log, log1p, select

from .distributions import Distribution, is_probability

_DISTRIBUTION = Distribution(
    __name__,
    "the Bernoulli distribution",
    "p",
    support=(0, 1),
    inside=0.0,
    valid=is_probability,
    optional="loc",
    logpmf=lambda k, p: select(k == 0, log1p(-p), log(p)),
)
_WITHOUT_LOCATION = Distribution(
    __name__,
    "the Bernoulli distribution",
    "p",
    support=(0, np.inf),
    inside=0.0,
    valid=is_probability,
    optional="",
    logpmf=lambda k, p: select(k == 0, log1p(-p), log(p)),
    cdf=lambda k, p: select(k < 1, 1 - p, 1.0),
    ppf=lambda q, p: select(q <= 1 - p, 0.0, q.filled(1)),
)

logpmf, pmf = _DISTRIBUTION.functions("logpmf pmf")
cdf, ppf = _WITHOUT_LOCATION.functions("cdf ppf")

__all__ = ["cdf", "logpmf", "pmf", "ppf"]
