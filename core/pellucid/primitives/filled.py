"""Zeros and ones of a given type, for tangents that are absent."""

from __future__ import annotations

from typing import Any

import numpy as np

from pellucid.base import dtypes
from pellucid.base.dims import is_static
from pellucid.ir.avals import shaped_array
from pellucid.ir.primitive import registry
from pellucid.ir.rules import Zero
from pellucid.primitives.addends import Marks, marked
from pellucid.primitives.broadcasting import broadcast_in_dim
from pellucid.primitives.scalars import scalar as number_as
from pellucid.primitives.varying import vary
from pellucid.sharding.errors import ShardingTypeError
from pellucid.tracing.context import bottom, context
from pellucid.tracing.trace import type_of


def zeros(aval: Any) -> Any:
    """An array of zeros of type `aval`; for float0, a NumPy array, since no device holds such.

    >>> zeros(pl.typeof(np.float32(1)))
    Array(0., dtype=float32)
    """
    if aval.dtype == dtypes.float0:
        if is_static(aval.shape):
            return np.zeros(aval.shape, dtypes.float0)
        return broadcast_in_dim(np.zeros((), dtypes.float0), aval.shape, ())
    if isinstance(aval.dtype, dtypes.ExtendedDType):
        # No scalar of the host is one. By name, since `creation` stands above.
        full = registry["empty"].bind(
            shape=aval.shape, dtype=aval.dtype, out_sharding=aval.shown_sharding
        )
        return vary(full, aval.varying)
    return filled(aval, 0)


def instantiate(tangent: Any) -> Any:
    """`tangent` as an array, also if it is a known zero.

    >>> instantiate(Zero(pl.typeof(np.float32(1)))), instantiate(2.0)
    (Array(0., dtype=float32), 2.0)
    """
    return zeros(tangent.aval) if type(tangent) is Zero else tangent


def ones(aval: Any) -> Any:
    """An array of ones of type `aval`."""
    return filled(aval, 1)


def filled(aval: Any, value: int) -> Any:
    """An array of type `aval` whose elements are all `value`."""
    shown = aval.shown_sharding
    if shown is not None and shown.spec.unreduced:
        return _filled_addends(aval, value)
    scalar = shaped_array((), aval.dtype, aval.weak_type)
    x = _host_scalar(scalar, value)
    if context.trace.is_eager:
        x = bottom().scalar(x, scalar)
    full = broadcast_in_dim(x, aval.shape, (), out_sharding=shown)
    return vary(full, aval.varying)


def _filled_addends(aval, value: int):
    """The same where devices hold addends: of zeros such are zeros; of others one device has all, where XLA lays it out."""
    shown = aval.shown_sharding
    if value and shown.spec.unreduced.intersection(shown.mesh.manual_axes):
        raise ShardingTypeError(
            "no array of ones can be made whose addends positions in shard_map hold.",
            got=aval.text(),
            do="Sum the addends with psum first.",
        )
    full = filled(marked(aval, Marks(reduced=shown.spec.reduced)), value)
    # By name, since what lays values out stands above what makes zeros.
    return registry["reshard"].bind(full, dst_sharding=shown, source=None)


def zero_like_elements(x: Any) -> Any:
    """A scalar zero of the dtype of `x`: an addend where elements of `x` are, so that results of both may be such."""
    aval: Any = type_of(x)
    shown = aval.shown_sharding
    if shown is None or not shown.spec.unreduced:
        return np.zeros((), aval.dtype)
    scalar = shaped_array((), aval.dtype)
    return zeros(marked(scalar, Marks(shown.spec.unreduced), shown.mesh))


def _host_scalar(aval, value: int):
    """A scalar of type `aval` as programs show it: a literal."""
    if aval.weak_type:
        for kind in (float, int, complex):
            if type_of(kind(value)) is aval:
                return kind(value)
    return number_as(value, aval.dtype)
