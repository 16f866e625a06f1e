"""The logarithm of the gamma function and its derivatives, and the Hurwitz zeta function."""

from __future__ import annotations

from typing import Any

from pellucid.base import MissingRule
from pellucid.tracing import bind1

from .arithmetic import add, mul, neg
from .families import constant_like, real_transcendental


def no_derivative(function: str, argument: str) -> Any:
    """The tangent rule of an argument by which there is no known derivative: it raises MissingRule."""

    def tangent(*_: Any) -> Any:
        raise MissingRule(
            f"{function} can't be differentiated by its argument {argument}.",
            do=f"Use `lax.stop_gradient({argument})` if it is to count as a constant.",
        )

    return tangent


def lgamma(x: Any) -> Any:
    """Logarithm of the absolute value of the gamma function of `x`, element by element.

    >>> print(f"{float(lgamma(np.float32(5))):.4f}")
    3.1781
    """
    return bind1(lgamma_p, x)


def digamma(x: Any) -> Any:
    """Derivative of the logarithm of the gamma function at `x`, element by element.

    >>> print(f"{float(digamma(np.float32(2))):.4f}")
    0.4228
    """
    return bind1(digamma_p, x)


def polygamma(m: Any, x: Any) -> Any:
    """Derivative of order `m + 1` of the logarithm of the gamma function at `x`, element by element.

    `m` has the dtype of `x`; there is no derivative by it.

    >>> print(f"{float(polygamma(np.float32(0), np.float32(2))):.4f}")
    0.4228
    """
    return bind1(polygamma_p, m, x)


def zeta(x: Any, q: Any) -> Any:
    """Hurwitz zeta function, the sum of 1 / (q + k)ˣ over k = 0, 1, …, element by element.

    There is no derivative by `x`.

    >>> print(f"{float(zeta(np.float32(2), np.float32(1))):.4f}")
    1.6449
    """
    return bind1(zeta_p, x, q)


lgamma_p = real_transcendental("lgamma", "chlo.lgamma", lambda t, y, x: mul(t, digamma(x)))
digamma_p = real_transcendental(
    "digamma", "chlo.digamma", lambda t, y, x: mul(t, polygamma(constant_like(x, 1), x))
)
polygamma_p = real_transcendental(
    "polygamma",
    "chlo.polygamma",
    no_derivative("polygamma", "m"),
    lambda t, y, m, x: mul(t, polygamma(add(m, constant_like(m, 1)), x)),
)
zeta_p = real_transcendental(
    "zeta",
    "chlo.zeta",
    no_derivative("zeta", "x"),
    lambda t, y, x, q: mul(t, neg(mul(x, zeta(add(x, constant_like(x, 1)), q)))),
)
