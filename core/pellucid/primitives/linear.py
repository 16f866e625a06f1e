"""Primitives that are linear in several operands at once."""

from __future__ import annotations

from typing import Any

from pellucid.ir.primitive import P, Primitive
from pellucid.primitives.filled import instantiate
from pellucid.tracing.trace import bind


class JointlyLinear(Primitive[P]):
    """A primitive that is linear in all its operands together: its tangent is the primitive applied to theirs."""

    def jvp(self, primals, tangents, params):
        results = bind(self, *primals, params=params)
        return results, bind(self, *map(instantiate, tangents), params=params)
