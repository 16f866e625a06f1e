"""The negative binomial distribution."""

from __future__ import annotations

import numpy as np

from pellucid._machine.primitives.formulas import log
from pellucid.scipy.special.gamma_functions import betaln_of

from .distributions import Distribution, xlog1py

_DISTRIBUTION = Distribution(
    __name__, "the negative binomial distribution: failures before `n` successes of probability `p`", "n p",
    optional="loc", support=(0, np.inf), inside=0.0, valid=lambda n, p: (n > 0) & (p > 0) & (p <= 1),
    logpmf=lambda k, n, p: -log(k + n) - betaln_of(n, k + 1) + n * log(p) + xlog1py(k, -p),
)  # fmt: skip

logpmf, pmf = _DISTRIBUTION.functions("logpmf pmf")

__all__ = ["logpmf", "pmf"]
