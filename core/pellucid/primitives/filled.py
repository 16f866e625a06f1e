"""Zeros and ones of a given type, for tangents that are absent."""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid.base import dtypes
from pellucid.ir.avals import shaped_array
from pellucid.ir.rules import Zero
from pellucid.primitives.broadcasting import broadcast_in_dim
from pellucid.primitives.scalars import scalar as number_as
from pellucid.primitives.varying import vary
from pellucid.tracing.context import bottom, context
from pellucid.tracing.values import type_of


def zeros(aval: Any) -> Any:
    """An array of zeros of type `aval`; for float0, a NumPy array, since no device holds such."""
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    return filled(aval, 0)


def instantiate(tangent: Any) -> Any:
    """`tangent` as an array, also if it is a known zero."""
    return zeros(tangent.aval) if type(tangent) is Zero else tangent


def ones(aval: Any) -> Any:
    """An array of ones of type `aval`."""
    return filled(aval, 1)


def filled(aval: Any, value: int) -> Any:
    """An array of type `aval` whose elements are all `value`."""
    scalar = shaped_array((), aval.dtype, aval.weak_type)
    x = _host_scalar(scalar, value)
    if context.trace.is_eager:
        x = bottom().scalar(x, scalar)
    full = broadcast_in_dim(x, aval.shape, (), out_sharding=aval.shown_sharding)
    return vary(full, aval.varying)


def _host_scalar(aval: Any, value: int) -> Any:
    """A scalar of type `aval` as programs show it: a literal."""
    if aval.weak_type:
        for kind in (float, int, complex):
            if type_of(kind(value)) is aval:
                return kind(value)
    return number_as(value, aval.dtype)
