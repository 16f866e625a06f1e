"""The geometric distribution."""

from __future__ import annotations

import numpy as np

from pellucid._machine.primitives.formulas import log

from .distributions import Distribution, xlog1py

_DISTRIBUTION = Distribution(
    __name__, "the geometric distribution: trials up to the first success of probability `p`", "p", optional="loc",
    support=(1, np.inf), inside=1.0, valid=lambda p: (p > 0) & (p <= 1),
    logpmf=lambda k, p: xlog1py(k - 1, -p) + log(p),
)  # fmt: skip

logpmf, pmf = _DISTRIBUTION.functions("logpmf pmf")

__all__ = ["logpmf", "pmf"]
