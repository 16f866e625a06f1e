"""The binomial distribution."""

from __future__ import annotations

from .distributions import Distribution, is_probability, log_choices, xlog1py, xlogy

_DISTRIBUTION = Distribution(
    __name__, "the binomial distribution of `n` trials with probability `p`", "n p", optional="loc",
    support=lambda n, p: (0, n), inside=0.0, valid=lambda n, p: (n >= 0) & is_probability(p),
    logpmf=lambda k, n, p: log_choices(n, k) + xlogy(k, p) + xlog1py(n - k, -p),
)  # fmt: skip

logpmf, pmf = _DISTRIBUTION.functions("logpmf pmf")

__all__ = ["logpmf", "pmf"]
