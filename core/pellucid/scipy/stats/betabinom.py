"""The beta-binomial distribution."""

from __future__ import annotations

from pellucid.scipy.special.gamma_functions import betaln_of

from .distributions import Distribution, all_positive, log_choices

_DISTRIBUTION = Distribution(
    __name__, "the binomial distribution of `n` trials whose probability is a beta variable", "n a b", optional="loc",
    support=lambda n, a, b: (0, n), inside=0.0, valid=lambda n, a, b: (n >= 0) & all_positive(a, b),
    logpmf=lambda k, n, a, b: log_choices(n, k) + betaln_of(k + a, n - k + b) - betaln_of(a, b),
)  # fmt: skip

logpmf, pmf = _DISTRIBUTION.functions("logpmf pmf")

__all__ = ["logpmf", "pmf"]
