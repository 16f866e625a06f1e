"""Rules that follow from the linearity that the traits of a primitive state."""

from __future__ import annotations

from typing import Any

from pellucid.ir import Operands, P, Primitive, Results, Zero, is_linear
from pellucid.tracing import bind, type_of

from .creation import instantiate
from .movement import other_axes


class JointlyLinear(Primitive[P]):
    """A primitive that is linear in one group of operands, `traits.linear`, with the other operands fixed."""

    def jvp(self, primals, tangents, params):
        positions = self.traits.linear
        if positions == "all":
            passive = self.traits.passive_operands(len(primals))
            positions = other_axes(len(primals), passive)
        results = bind(self, *primals, params=params)
        if all(type(tangents[i]) is Zero for i in positions):  # type: ignore[union-attr]
            return results, [Zero(type_of(y).tangent()) for y in results]
        operands = list(primals)
        for i in positions:  # type: ignore[union-attr]
            operands[i] = instantiate(tangents[i])
        return results, bind(self, *operands, params=params)

    def transpose(self, cotangents, operands, params):
        [cotangent] = cotangents
        if type(cotangent) is Zero:
            return [Zero(x.aval) if is_linear(x) else None for x in operands]
        results = [*self.operand_cotangents(cotangent, operands, params)]
        results += [None] * (len(operands) - len(results))
        return [c if is_linear(x) else None for c, x in zip(results, operands, strict=True)]

    def operand_cotangents(self, cotangent: Any, operands: Operands, params: P) -> Results:
        """Cotangents of the first operands; those of operands that are no `LinearOperand` are ignored."""
        raise self.missing("transpose")
