"""Rules that follow from the linearity that the traits of a primitive state."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from pellucid._machine.base import dtypes, strict_zip
from pellucid._machine.ir import Operands, P, Primitive, Results, Zero, is_linear
from pellucid._machine.tracing import bind, type_of

from .creation import instantiate
from .families import add_tangents, zero_of
from .movement import other_axes


class JointlyLinear(Primitive[P]):
    """A primitive that is linear in one group of operands, or in each of several, as `traits.linear` defines."""

    def jvp(self, primals, tangents, params):
        results = bind(self, *primals, params=params)
        has_tangent = dtypes.is_inexact(type_of(results[0]).dtype)
        moved: Any = None
        for group in _groups(self, len(primals)) if has_tangent else ():
            if any(type(tangents[i]) is not Zero for i in group):
                operands = list(primals)
                for i in group:
                    operands[i] = instantiate(tangents[i])
                terms = bind(self, *operands, params=params)
                moved = terms if moved is None else list(map(add_tangents, moved, terms))
        return results, moved or [*map(zero_of, results)]

    def transpose(self, cotangents, operands, params):
        [cotangent] = cotangents
        results = [*self.operand_cotangents(cotangent, operands, params)]
        results += [None] * (len(operands) - len(results))
        return [c if is_linear(x) else None for c, x in strict_zip(results, operands)]

    def operand_cotangents(self, cotangent: Any, operands: Operands, params: P) -> Results:
        """Cotangents of the leading operands; those of operands that aren't `LinearOperand` are ignored."""
        raise self.missing("transpose")


@functools.cache
def _groups(primitive: Primitive, n_operands: int) -> list[Sequence[int]]:
    """The groups of operands in each of which a primitive is linear."""
    linear = primitive.traits.linear
    if isinstance(linear, tuple):
        return [linear]
    active = other_axes(n_operands, primitive.traits.passive_operands(n_operands))
    return [active] if linear == "all" else [(i,) for i in active]
