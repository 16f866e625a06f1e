"""Algebra of tangents and cotangents, some of which are known to be zero."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid.base import dtypes
from pellucid.ir.avals import shaped_array
from pellucid.ir.rules import Zero
from pellucid.primitives.broadcasting import broadcast_in_dim
from pellucid.primitives.families import add_any_p
from pellucid.runtime.array import default_sharding
from pellucid.runtime.transfer import put_host
from pellucid.tracing.context import context
from pellucid.tracing.trace import bind1
from pellucid.tracing.values import type_of


def instantiate(tangent: Any) -> Any:
    """`tangent` as an array, also if it is a known zero."""
    return zeros(tangent.aval) if type(tangent) is Zero else tangent


def zeros(aval: Any) -> Any:
    """An array of zeros of type `aval`; for float0, a NumPy array, since no device holds such."""
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    return filled(aval, 0)


def ones(aval: Any) -> Any:
    """An array of ones of type `aval`."""
    return filled(aval, 1)


def filled(aval: Any, value: int) -> Any:
    """An array of type `aval` whose elements are all `value`."""
    scalar = shaped_array((), aval.dtype, aval.weak_type)
    x = _array_scalar(scalar, value, default_sharding()) if context.trace.is_eager else _host_scalar(scalar, value)
    return broadcast_in_dim(x, aval.shape, ())


def _host_scalar(aval: Any, value: int) -> Any:
    """A scalar of type `aval` as programs show it: a literal."""
    if aval.weak_type:
        for kind in (float, int, complex):
            if type_of(kind(value)) is aval:
                return kind(value)
    return aval.dtype.type(value)


@functools.lru_cache(maxsize=256)
def _array_scalar(aval: Any, value: int, sharding: Any) -> Any:
    """A scalar of type `aval` on a device, as eager results are."""
    return put_host(_host_scalar(aval, value), aval, sharding, committed=False)


def spread(tangents: Sequence[Any], nonzero: Sequence[bool], avals: Sequence[Any]) -> list[Any]:
    """A tangent for each result of the types `avals`: those that are given, and zeros where none is."""
    found = iter(tangents)
    return [next(found) if nz else Zero(aval.tangent()) for nz, aval in zip(nonzero, avals, strict=True)]


def add_tangents(x: Any, y: Any) -> Any:
    """Sum of two tangents, either of which may be a known zero."""
    if type(x) is Zero:
        return y
    if type(y) is Zero:
        return x
    return bind1(add_any_p, x, y)
