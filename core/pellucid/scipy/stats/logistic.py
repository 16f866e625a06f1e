"""The logistic distribution."""

from __future__ import annotations

from pellucid._machine.primitives.formulas import exp, log1p
from pellucid.scipy.special.entropies import expit_of, logit_of

from .distributions import Distribution

_DISTRIBUTION = Distribution(
    __name__, "the logistic distribution",
    logpdf=lambda z: -abs(z) - 2 * log1p(exp(-abs(z))), cdf=expit_of, sf=lambda z: expit_of(-z),
    ppf=logit_of, isf=lambda q: -logit_of(q),
)  # fmt: skip

cdf, isf, logpdf, pdf, ppf, sf = _DISTRIBUTION.functions(
    "cdf isf logpdf pdf ppf sf", ppf="x", isf="x"
)

__all__ = ["cdf", "isf", "logpdf", "pdf", "ppf", "sf"]
