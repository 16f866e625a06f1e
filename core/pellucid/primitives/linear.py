"""Primitives that are linear in several operands at once, and the zeros they need for absent tangents."""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid.base import dtypes
from pellucid.ir.primitive import Primitive
from pellucid.ir.rules import Zero
from pellucid.primitives.broadcasting import broadcast_in_dim
from pellucid.tracing.trace import bind


def zeros(aval: Any) -> Any:
    """An array of zeros of type `aval`; for float0, a NumPy array, since no device holds such."""
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    return broadcast_in_dim(np.zeros((), aval.dtype), aval.shape, ())


def instantiate(tangent: Any) -> Any:
    """`tangent` as an array, also if it is a known zero."""
    return zeros(tangent.aval) if type(tangent) is Zero else tangent


class JointlyLinear(Primitive[Any]):
    """A primitive that is linear in its first `n_linear` operands together (None: in all).

    Its tangent is the primitive applied to their tangents; the other operands are not differentiable.
    """

    n_linear: int | None = None

    def jvp(self, primals: tuple[Any, ...], tangents: tuple[Any, ...], params: Any) -> tuple[Any, Any]:
        n = len(primals) if self.n_linear is None else self.n_linear
        results = bind(self, *primals, params=params)
        given = [instantiate(t) for t in tangents[:n]]
        return results, bind(self, *given, *primals[n:], params=params)
