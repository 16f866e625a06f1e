"""What kernels for TPUs name that has a meaning on every device: memories, orders of axes, copies."""

from __future__ import annotations

import enum
from typing import Any

from pellucid.numpy import arange, mod, moveaxis, roll as rolled, take_along_axis

from .inside import load as masked_load
from .specs import Space


class MemorySpace(Space):
    """Memory spaces of TPUs; elsewhere all are the same memory.

    >>> MemorySpace.VMEM((8, 128), "float32").shape
    (8, 128)
    """

    VMEM = "vmem"
    VMEM_SHARED = "vmem_shared"
    SMEM = "smem"
    CMEM = "cmem"
    SEMAPHORE = "semaphore_mem"
    HBM = "hbm"


class GridDimensionSemantics(enum.Enum):
    """Whether the programs along an axis of the grid are independent."""

    PARALLEL = "parallel"
    CORE_PARALLEL = "core_parallel"
    SUBCORE_PARALLEL = "subcore_parallel"
    ARBITRARY = "arbitrary"


def load(ref: Any, *, mask: Any = None) -> Any:
    """The elements of `ref`, or of a part `ref.at[index]`, where `mask` is True; the rest is undefined.

    >>> from pellucid._machine.refs.access import new_ref
    >>> load(new_ref(np.arange(2)))
    Array([0, 1], dtype=int32)
    """
    return masked_load(ref, mask=mask)


def roll(
    x: Any, shift: Any, axis: int, *, stride: int | None = None, stride_axis: int | None = None
) -> Any:
    """`x` with its elements moved by `shift` along `axis`, those at the end to the front.

    With `stride`, slices along `stride_axis` are moved by that much more, one after the other.

    >>> roll(np.arange(4), 1, 0)
    Array([3, 0, 1, 2], dtype=int32)
    """
    if stride is None or stride_axis is None:
        return rolled(x, shift, axis)
    n, moved = x.shape[axis], moveaxis(x, (stride_axis, axis), (-2, -1))
    by = shift + stride * arange(moved.shape[-2])
    positions = mod(arange(n)[None, :] - by[:, None], n)
    positions = positions.reshape((1,) * (moved.ndim - 2) + positions.shape)
    return moveaxis(take_along_axis(moved, positions, -1), (-2, -1), (stride_axis, axis))
