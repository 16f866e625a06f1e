"""The uniform distribution."""

from __future__ import annotations

from .distributions import Distribution

_DISTRIBUTION = Distribution(
    __name__, "the uniform distribution from `loc` to `loc + scale`", support=(0, 1),
    logpdf=lambda z: z.filled(0), cdf=lambda z: z, ppf=lambda q: q,
)  # fmt: skip

cdf, logpdf, pdf, ppf = _DISTRIBUTION.functions("cdf logpdf pdf ppf")

__all__ = ["cdf", "logpdf", "pdf", "ppf"]
