"""Rules that follow from the linearity that the traits of a primitive state."""

from __future__ import annotations

from typing import Any

from pellucid.base import dtypes
from pellucid.ir import Operands, P, Primitive, Results, Zero, is_linear
from pellucid.tracing import bind, type_of

from .creation import instantiate
from .families import add_tangents
from .movement import other_axes


class JointlyLinear(Primitive[P]):
    """A primitive that is linear in one group of operands, in each of several, or in none, as `traits.linear` says."""

    def jvp(self, primals, tangents, params):
        linear = self.traits.linear
        if isinstance(linear, tuple):
            groups = [linear]
        else:
            active = other_axes(len(primals), self.traits.passive_operands(len(primals)))
            groups = [active] if linear == "all" else [(i,) for i in active]
        results = bind(self, *primals, params=params)
        totals: list[Any] = [Zero(type_of(y).tangent()) for y in results]
        if linear is None or totals[0].aval.dtype == dtypes.float0:
            return results, totals
        for group in groups:
            if any(type(tangents[i]) is not Zero for i in group):
                operands = list(primals)
                for i in group:
                    operands[i] = instantiate(tangents[i])
                totals = list(map(add_tangents, totals, bind(self, *operands, params=params)))
        return results, totals

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
