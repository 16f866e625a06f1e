"""Von Mises's distribution."""

from __future__ import annotations

import math

from pellucid._machine.primitives import special
from pellucid._machine.primitives.formulas import Term, log, sin, square

from .distributions import Distribution


def _logpdf(x: Term, kappa: Term) -> Term:
    scaled = Term(special.bessel_i0e(kappa.value))
    return -2 * kappa * square(sin(0.5 * x)) - log(2 * math.pi * scaled)


_DISTRIBUTION = Distribution(
    __name__, "von Mises's distribution with concentration `kappa`", "kappa", optional="",
    valid=lambda kappa: kappa >= 0, logpdf=_logpdf,
)  # fmt: skip

logpdf, pdf = _DISTRIBUTION.functions("logpdf pdf")

__all__ = ["logpdf", "pdf"]
