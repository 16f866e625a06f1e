"""Primitives that are linear in several operands at once."""

from __future__ import annotations

from typing import Any

from pellucid.ir.primitive import Primitive
from pellucid.primitives.filled import instantiate
from pellucid.tracing.trace import bind


class JointlyLinear(Primitive[Any]):
    """A primitive that is linear in its first `n_linear` operands together (None: in all).

    Its tangent is the primitive applied to their tangents; the other operands are not differentiable.
    """

    n_linear: int | None = None

    def jvp(
        self, primals: tuple[Any, ...], tangents: tuple[Any, ...], params: Any
    ) -> tuple[Any, Any]:
        n = len(primals) if self.n_linear is None else self.n_linear
        results = bind(self, *primals, params=params)
        given = [instantiate(t) for t in tangents[:n]]
        return results, bind(self, *given, *primals[n:], params=params)
