"""The wrapped Cauchy distribution."""

from __future__ import annotations

import math

from pellucid._machine.primitives.formulas import Term, log, log1p, sin, square

from .distributions import Distribution


def _logpdf(x: Term, c: Term) -> Term:
    return (
        log1p(-square(c))
        - math.log(2 * math.pi)
        - log(square(1 - c) + 4 * c * square(sin(0.5 * x)))
    )


_DISTRIBUTION = Distribution(
    __name__, "the wrapped Cauchy distribution", "c", optional="", support=(0, 2 * math.pi),
    valid=lambda c: (c > 0) & (c < 1), logpdf=_logpdf,
)  # fmt: skip

logpdf, pdf = _DISTRIBUTION.functions("logpdf pdf")

__all__ = ["logpdf", "pdf"]
