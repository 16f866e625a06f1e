"""Error functions: the integral of a Gaussian function, its complement and its inverse."""

from __future__ import annotations

import math

from pellucid._machine.base import ArrayLike
from pellucid._machine.lowering.faults import ERF_AS_CALL
from pellucid._machine.tracing import bind1
from pellucid._machine.xla import Array

from .arithmetic import mul, neg, square
from .families import constant_like, real_transcendental
from .transcendental import exp


def erf(x: ArrayLike) -> Array:
    """Error function of `x`, element by element: 2/√π times the integral of exp(-t²) from 0 to `x`.

    Takes floating-point elements; the result has the shape and dtype of `x`.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings.
    Source: DLMF 7.2.1.

    >>> erf(np.float32(0))
    Array(0., dtype=float32)
    """
    return bind1(erf_p, x)


def erfc(x: ArrayLike) -> Array:
    """`1 - erf(x)`, element by element, accurate for large `x`.

    Takes floating-point elements; the result has the shape and dtype of `x`.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings.
    Source: DLMF 7.2.2.

    >>> erfc(np.float32(0))
    Array(1., dtype=float32)
    """
    return bind1(erfc_p, x)


def erf_inv(x: ArrayLike) -> Array:
    """The number whose error function is `x`, element by element; NaN if there is none.

    Takes floating-point elements; the result has the shape and dtype of `x`.
    Raises: DtypeError for other elements, ArgumentTypeError for lists and strings.
    Source: DLMF, section 7.17.

    >>> erf_inv(np.float32(0))
    Array(0., dtype=float32)
    """
    return bind1(erf_inv_p, x)


def _gaussian(t, x, factor: float):
    return mul(constant_like(x, factor), mul(t, exp(neg(square(x)))))


def _lower_erf(ctx, operands, params):
    result = ctx.op1("chlo.erf", ctx.avals_out[0], operands)
    ctx.shard_alike(ERF_AS_CALL, *operands, result)
    return result


erf_p = real_transcendental(
    "erf", _lower_erf, lambda t, y, x: _gaussian(t, x, 2 / math.sqrt(math.pi))
)
erfc_p = real_transcendental(
    "erfc", "chlo.erfc", lambda t, y, x: _gaussian(t, x, -2 / math.sqrt(math.pi))
)
erf_inv_p = real_transcendental(
    "erf_inv",
    "chlo.erf_inv",
    lambda t, y, x: mul(constant_like(x, math.sqrt(math.pi) / 2), mul(t, exp(square(y)))),
)
