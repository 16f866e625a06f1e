"""Student's t distribution."""

from __future__ import annotations

import math

import numpy as np

from pellucid._machine.primitives.formulas import Term, log, log1p, select, square
from pellucid.scipy.special.gamma_functions import betaln_of

from .distributions import Distribution, all_positive


def _logpdf(z: Term, df: Term) -> Term:
    finite = select(df == np.inf, 1.0, df)
    value = -0.5 * ((finite + 1) * log1p(square(z) / finite) + log(finite)) - betaln_of(
        z.filled(0.5), 0.5 * finite
    )
    return select(df == np.inf, -0.5 * square(z) - 0.5 * math.log(2 * math.pi), value)


_DISTRIBUTION = Distribution(
    __name__,
    "Student's t distribution with `df` degrees of freedom",
    "df",
    valid=all_positive,
    logpdf=_logpdf,
)

logpdf, pdf = _DISTRIBUTION.functions("logpdf pdf")

__all__ = ["logpdf", "pdf"]
