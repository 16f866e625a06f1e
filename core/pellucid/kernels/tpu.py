"""What kernels for TPUs name that has a meaning on every device: memories, orders of axes, copies."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import ArgumentTypeError, ArgumentValueError, dtypes
from pellucid._machine.primitives import bitcast_convert_type
from pellucid._machine.refs.access import RefView
from pellucid._machine.tracing import is_reference, type_of
from pellucid.numpy import arange, mod, moveaxis, roll as rolled, take_along_axis

from . import specs
from .inside import load as masked_load
from .named import BITCAST, ROLL, named
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


class CompilerParams(specs.CompilerParams):
    """Parameters for the compiler of TPUs.

    `dimension_semantics` says which axes may run in any order, `vmem_limit_bytes` how much VMEM the kernel may use, `collective_id` which kernels
    share a barrier semaphore. The others are handed on.

    >>> CompilerParams(vmem_limit_bytes=1 << 24).vmem_limit_bytes >> 20
    16
    """

    dimension_semantics: Sequence[Any] | None = None
    allow_input_fusion: Sequence[bool] | None = None
    vmem_limit_bytes: int | None = None
    collective_id: int | None = None
    has_side_effects: Any = False
    flags: Any = None
    internal_scratch_in_bytes: int | None = None
    serialization_format: int = 1
    disable_bounds_checks: bool = False
    disable_semaphore_checks: bool = False
    skip_device_barrier: bool = False
    allow_collective_id_without_custom_barrier: bool = False
    shape_invariant_numerics: bool = True
    use_tc_tiling_on_sc: bool | None = None
    needs_layout_passes: bool = True
    fuse_transposed_lhs_in_matmul: bool = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        unknown = [name for name in kwargs if name not in CompilerParams.__annotations__]
        if unknown:
            raise ArgumentTypeError(
                "CompilerParams of TPUs have no such parameter.",
                got=f"{unknown[0]}={kwargs[unknown[0]]!r:.40}",
                do=f"They are {', '.join(CompilerParams.__annotations__)}.",
            )
        super().__init__(*args, **kwargs)


class SideEffectType(enum.Enum):
    """Whether a kernel that nothing uses may be left out."""

    PURE = "pure"
    DATAFLOW_SIDE_EFFECTING = "dataflow_side_effecting"
    SIDE_EFFECTING = "side_effecting"


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
    if (stride is None) != (stride_axis is None):
        raise ArgumentValueError(
            "roll takes `stride` and `stride_axis` together, or neither.",
            got=f"stride: {stride}, stride_axis: {stride_axis}",
        )
    if isinstance(shift, int):
        shift = np.int32(shift % max(type_of(x).shape[axis], 1))
    options = {"axis": axis, "stride": stride, "stride_axis": stride_axis}
    return named(ROLL, lambda x, shift: _rolled(x, shift, **options), x, shift, **options)


def _rolled(x: Any, shift: Any, axis: int, stride: int | None, stride_axis: int | None) -> Any:
    if stride is None or stride_axis is None:
        return rolled(x, shift, axis)
    n, moved = x.shape[axis], moveaxis(x, (stride_axis, axis), (-2, -1))
    by = shift + stride * arange(moved.shape[-2])
    positions = mod(arange(n)[None, :] - by[:, None], n)
    positions = positions.reshape((1,) * (moved.ndim - 2) + positions.shape)
    return moveaxis(take_along_axis(moved, positions, -1), (-2, -1), (stride_axis, axis))


def bitcast(x: Any, ty: Any) -> Any:
    """The bits of `x` as elements of the dtype `ty`; the second last dimension grows or shrinks with their number.

    Elements that share a wider one are neighbours along that dimension, the first one in its lowest bits.

    >>> bitcast(np.arange(2, dtype=np.int32).reshape(2, 1), np.int16)[:, 0]
    Array([0, 0, 1, 0], dtype=int16)
    """
    aval, dtype = type_of(x), dtypes.check_user_dtype(ty, "bitcast")
    old, new = dtypes.itemsize_bits(aval.dtype), dtypes.itemsize_bits(dtype)
    rows = aval.shape[-2] * old if aval.ndim > 1 else 1
    if aval.ndim < 2 or rows % new:
        raise ArgumentValueError(
            "bitcast takes arrays of two dimensions or more, whose second last one has whole elements of the new dtype.",
            got=f"{aval.text()} as {dtypes.short_name(dtype)}",
        )
    return named(BITCAST, lambda x: _with_bits(x, dtype, old, new), x)


def _with_bits(x: Any, dtype: Any, old: int, new: int) -> Any:
    *front, rows, columns = x.shape
    if old == new:
        return bitcast_convert_type(x, dtype)
    if old > new:  # parts of an element come last, and become rows
        parts = moveaxis(bitcast_convert_type(x, dtype), -1, -2)
        return parts.reshape(*front, rows * old // new, columns)
    parts = x.reshape(*front, rows * old // new, new // old, columns)
    return bitcast_convert_type(moveaxis(parts, -2, -1), dtype)


def touch(ref: Any) -> None:
    """Nothing: where the reference adds a dependency on `ref`, so that the compiler moves no access over it, accesses are never moved here.

    Raises: ArgumentTypeError unless `ref` is a reference, or a view of one.

    >>> from pellucid._machine.refs.access import new_ref
    >>> touch(new_ref(1))
    """
    if not is_reference(ref) and not isinstance(ref, RefView):
        raise ArgumentTypeError("touch takes a reference.", got=f"{ref!r:.60}")


def with_memory_space_constraint(x: Any, memory_space: Any) -> Any:
    """`x`, an operand of a kernel that is wanted in a memory of the chip: which memory has it is the compiler's choice here.

    Raises: ArgumentTypeError for what is no memory space.

    >>> with_memory_space_constraint(np.float32(1), MemorySpace.VMEM)
    np.float32(1.0)
    """
    if not isinstance(memory_space, Space):
        raise ArgumentTypeError(
            "with_memory_space_constraint takes a memory space.", got=f"{memory_space!r:.60}"
        )
    return x
