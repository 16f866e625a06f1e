"""What is known of integers while a kernel is lowered: their least and greatest value, and a number that they are multiples of.

Known positions need no check that they lie inside, and multiples of a tile are loaded without moving elements.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.higher_order.composite import composite_p
from pellucid._machine.ir import Literal
from pellucid._machine.primitives import arithmetic, conversion, logical
from pellucid.kernels.named import MULTIPLE_OF, attributes_of

_ANYTHING = -(1 << 31), (1 << 31) - 1


class Known(NamedTuple):
    """Facts of an integer: it lies from `low` to `high`, and is a multiple of `factor`, which is 0 only for the number 0."""

    low: int
    high: int
    factor: int

    def lies_in(self, low: int, high: int) -> bool:
        """Whether it can't be less than `low` or greater than `high`."""
        return low <= self.low and self.high <= high

    def is_multiple_of(self, n: int) -> bool:
        """Whether it is known to be a multiple of `n`."""
        return self.factor % n == 0


UNKNOWN = Known(*_ANYTHING, 1)


def known(ctx: Any, atom: Any) -> Known:
    """What is known of an integer scalar of the program at hand."""
    if type(atom) is Literal:
        n = int(atom.val)
        return Known(n, n, abs(n))
    if atom in ctx.facts:
        return ctx.facts[atom]
    equation = ctx.scope.definitions.get(atom)
    found = UNKNOWN if equation is None else _of_result(ctx, equation)
    if found.lies_in(*_ANYTHING):
        return found
    # The number may have wrapped around modulo 2^32: its bounds are lost, and of its factor only powers of two remain.
    return UNKNOWN._replace(factor=math.gcd(found.factor, 1 << 31))


def _of_result(ctx: Any, equation: Any) -> Known:
    primitive, operands = equation.primitive, equation.operands
    if any(np.dtype(a.aval.dtype).kind not in "iu" or a.aval.shape for a in operands):
        return UNKNOWN
    if primitive is conversion.convert_element_type_p:
        return known(ctx, operands[0]) if equation.results[0].aval.dtype == np.int32 else UNKNOWN
    if primitive is composite_p and equation.params.name == MULTIPLE_OF:
        x, n = known(ctx, operands[-1]), attributes_of(equation.params)["factor"]
        return x._replace(factor=math.lcm(x.factor, n))
    if primitive is logical.clamp_p:
        low, x, high = [known(ctx, atom) for atom in operands]
        factor = math.gcd(low.factor, x.factor, high.factor)
        least, most = (min(max(a, b), c) for a, b, c in zip(x[:2], low[:2], high[:2], strict=True))
        return Known(least, most, factor)
    if primitive not in (arithmetic.add_p, arithmetic.sub_p, arithmetic.mul_p, arithmetic.rem_p):
        return UNKNOWN
    a, b = [known(ctx, x) for x in operands]
    if primitive is arithmetic.add_p:
        return Known(a.low + b.low, a.high + b.high, math.gcd(a.factor, b.factor))
    if primitive is arithmetic.sub_p:
        return Known(a.low - b.high, a.high - b.low, math.gcd(a.factor, b.factor))
    if primitive is arithmetic.mul_p:
        ends = [x * y for x in a[:2] for y in b[:2]]
        return Known(min(ends), max(ends), a.factor * b.factor)
    if a.low >= 0 and b.low == b.high > 0:  # the rest of a division by a known number
        return Known(0, b.high - 1, math.gcd(a.factor, b.factor))
    return UNKNOWN


def carried(
    ctx: Any, first: Any, variable: Any, jaxpr: Any, result: Any, runs: int | None
) -> Known:
    """What is known of a number that a loop carries, from `first` on: in each of its `runs` a literal is added to it.

    `variable` is the number in the body `jaxpr`, and `result` what the body makes of it.
    """
    start = known(ctx, first)
    if result is variable:
        return start
    equation = next((e for e in jaxpr.equations if result in e.results), None)
    if equation is None or equation.primitive is not arithmetic.add_p:
        return UNKNOWN
    a, b = equation.operands
    if b is variable:
        a, b = b, a
    if a is not variable or type(b) is not Literal or int(b.val) < 0 or start.factor < 0:
        return UNKNOWN
    step = int(b.val)
    factor = math.gcd(start.factor, step)
    if runs is None:
        return Known(_ANYTHING[0], _ANYTHING[1], math.gcd(factor, 1 << 31))
    return Known(start.low, start.high + step * max(runs - 1, 0), factor)
