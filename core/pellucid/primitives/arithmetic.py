"""Arithmetic: sums, products, quotients, powers, roots, rounding."""

from __future__ import annotations

from typing import Any

from pellucid.primitives.families import NUMBER, Elementwise
from pellucid.tracing.trace import bind1


def neg(x: Any) -> Any:
    """Negative of `x`, element by element; integers wrap.

    Source: StableHLO specification, `negate`.

    >>> neg(np.float32(2))
    Array(-2., dtype=float32)
    """
    return bind1(neg_p, x)


neg_p = Elementwise(
    "neg", accepts=NUMBER, hlo="negate", tangents=(lambda t, y, x: neg(t),), transposes=(lambda c, x: neg(c),)
)


def add(x: Any, y: Any) -> Any:
    """Sum of `x` and `y`, element by element; operands have one dtype, and one shape or are scalars.

    Source: StableHLO specification, `add`.

    >>> add(np.float32(1), np.float32(2))
    Array(3., dtype=float32)
    """
    return bind1(add_p, x, y)


add_p = Elementwise(
    "add", accepts=NUMBER, hlo="add",
    tangents=(lambda t, z, x, y: t, lambda t, z, x, y: t),
    transposes=(lambda c, x, y: c, lambda c, x, y: c),
)  # fmt: skip


def sub(x: Any, y: Any) -> Any:
    """Difference `x - y`, element by element; operands have one dtype, and one shape or are scalars.

    Source: StableHLO specification, `subtract`.

    >>> sub(np.float32(3), np.float32(2))
    Array(1., dtype=float32)
    """
    return bind1(sub_p, x, y)


sub_p = Elementwise(
    "sub", accepts=NUMBER, hlo="subtract",
    tangents=(lambda t, z, x, y: t, lambda t, z, x, y: neg(t)),
    transposes=(lambda c, x, y: c, lambda c, x, y: neg(c)),
)  # fmt: skip


def mul(x: Any, y: Any) -> Any:
    """Product of `x` and `y`, element by element; operands have one dtype, and one shape or are scalars.

    Source: StableHLO specification, `multiply`.

    >>> mul(np.float32(3), np.float32(2))
    Array(6., dtype=float32)
    """
    return bind1(mul_p, x, y)


mul_p = Elementwise(
    "mul", accepts=NUMBER, hlo="multiply",
    tangents=(lambda t, z, x, y: mul(t, y), lambda t, z, x, y: mul(x, t)),
    transposes=(lambda c, x, y: mul(c, y), lambda c, x, y: mul(x, c)),
)  # fmt: skip
