"""Exponentials, logarithms, trigonometric and hyperbolic functions."""

from __future__ import annotations

from typing import Any

from pellucid.primitives.arithmetic import mul, neg
from pellucid.primitives.families import COMPLEX, FLOATING, Elementwise
from pellucid.tracing.trace import bind1


def sin(x: Any) -> Any:
    """Sine of `x`, an angle in radians, element by element.

    Source: StableHLO specification, `sine`.

    >>> sin(np.float32(0))
    Array(0., dtype=float32)
    """
    return bind1(sin_p, x)


sin_p = Elementwise("sin", accepts=FLOATING | COMPLEX, hlo="sine", tangents=(lambda t, y, x: mul(t, cos(x)),))


def cos(x: Any) -> Any:
    """Cosine of `x`, an angle in radians, element by element.

    Source: StableHLO specification, `cosine`.

    >>> cos(np.float32(0))
    Array(1., dtype=float32)
    """
    return bind1(cos_p, x)


cos_p = Elementwise(
    "cos", accepts=FLOATING | COMPLEX, hlo="cosine", tangents=(lambda t, y, x: neg(mul(t, sin(x))),)
)


def exp(x: Any) -> Any:
    """Exponential of `x`, element by element.

    Source: StableHLO specification, `exponential`.

    >>> exp(np.float32(0))
    Array(1., dtype=float32)
    """
    return bind1(exp_p, x)


exp_p = Elementwise("exp", accepts=FLOATING | COMPLEX, hlo="exponential", tangents=(lambda t, y, x: mul(t, y),))
