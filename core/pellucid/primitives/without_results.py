"""Primitives without results, which are there for their effect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from pellucid.ir.primitive import Primitive
from pellucid.ir.traits import HOST
from pellucid.tracing.trace import bind

P = TypeVar("P")


class WithoutResults(Primitive[P]):
    """A primitive without results: tangents and layouts of its operands mean nothing to it."""

    traits = HOST.replace(flops=0.0)

    def abstract_eval(self, avals: tuple[Any, ...], params: P) -> Sequence[Any]:
        return ()

    def factors(self, avals: tuple[Any, ...], results: Sequence[Any], params: P) -> None:
        return None  # the types have their shardings already

    def jvp(
        self, primals: tuple[Any, ...], tangents: tuple[Any, ...], params: P
    ) -> tuple[Any, Any]:
        return bind(self, *primals, params=params), []


__all__ = ["WithoutResults"]
