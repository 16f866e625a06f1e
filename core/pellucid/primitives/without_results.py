"""Primitives without results, which are there for their effect."""

from __future__ import annotations

from typing import TypeVar

from pellucid.ir.primitive import Primitive
from pellucid.ir.rules import HOST
from pellucid.tracing.trace import bind

P = TypeVar("P")


class WithoutResults(Primitive[P]):
    """A primitive without results: tangents and layouts of its operands mean nothing to it."""

    traits = HOST.replace(flops=0.0)

    def abstract_eval(self, avals, params):
        return ()

    def factors(self, avals, results, params):
        return None  # the types have their shardings already

    def jvp(self, primals, tangents, params):
        return bind(self, *primals, params=params), []


__all__ = ["WithoutResults"]
