"""Algebra of tangents and cotangents, some of which are known to be zero."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pellucid.ir.rules import Zero
from pellucid.primitives.families import add_any_p
from pellucid.primitives.filled import instantiate, ones, zeros
from pellucid.tracing.trace import bind1


def spread(tangents: Sequence[Any], nonzero: Sequence[bool], avals: Sequence[Any]) -> list[Any]:
    """A tangent for each result of the types `avals`: those that are given, and zeros where none is."""
    found = iter(tangents)
    return [
        next(found) if nz else Zero(aval.tangent()) for nz, aval in zip(nonzero, avals, strict=True)
    ]


def add_tangents(x: Any, y: Any) -> Any:
    """Sum of two tangents, either of which may be a known zero."""
    if type(x) is Zero:
        return y
    if type(y) is Zero:
        return x
    return bind1(add_any_p, x, y)


__all__ = ["add_tangents", "instantiate", "ones", "zeros"]
