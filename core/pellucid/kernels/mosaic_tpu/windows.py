"""Arguments of a kernel's function on TPUs: memrefs of blocks, of scalars and of scratch, and the windows that move blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import Shape, UnsupportedError, strict_zip
from pellucid._machine.xla.mosaic_tpu import MemRefType, arith, func, ir, tpu
from pellucid.kernels.mappings import BlockMapping, buffers_of
from pellucid.kernels.specs import (
    Element,
    MemorySpace,
    RevisitMode,
    SemaphoreType,
    Squeezed,
    padding_of,
    size_of,
    step_of,
)

from .lowering import Lowering, MemRef
from .tiles import tile_of

_SEMAPHORES = {SemaphoreType.DMA: "!tpu.dma_semaphore"}
_OTHER_SEMAPHORE = "!tpu.semaphore"


class Argument(NamedTuple):
    """An argument of the function: a memref of `shape` in a memory space, and the dimensions that the kernel sees."""

    shape: Shape
    kept: tuple[int, ...]
    dtype: np.dtype
    space: str
    semaphore: Any = None
    mapping: BlockMapping | None = None

    def type(self, ctx: Lowering) -> ir.Type:
        """The memref's type."""
        if self.semaphore is None:
            element = ctx.in_memory(self.dtype)
        else:
            element = ir.Type.parse(_SEMAPHORES.get(self.semaphore, _OTHER_SEMAPHORE))
        space = ir.Attribute.parse(f"#tpu.memory_space<{self.space}>")
        return MemRefType.get([*self.shape], element, memory_space=space)

    def ref(self, value: ir.Value) -> MemRef:
        """The reference that the argument is."""
        return MemRef(value, self.shape, self.kept, self.dtype, self.space, self.mapping)


def argument_of(aval: Any, space: str, mapping: BlockMapping | None = None) -> Argument:
    """The argument for an array, or what is seen of it, as a whole; numbers are arrays of one element."""
    shape = aval.shape or (1,)
    return Argument(shape, tuple(range(aval.ndim)), np.dtype(aval.dtype), space, None, mapping)


def scratch_argument(ctx: Lowering, aval: Any, space: Any) -> Argument:
    """The argument for scratch in the memory that the user names, VMEM where none is named."""
    if isinstance(space, SemaphoreType):
        kept = tuple(range(aval.ndim))
        return Argument(aval.shape, kept, np.dtype(aval.dtype), "semaphore_mem", space)
    return argument_of(aval, memory_of(ctx.name, "scratch", space, None))


def block_argument(ctx: Lowering, mapping: BlockMapping) -> Argument:
    """The argument for blocks of an array, or for the array where the user leaves it in its memory."""
    space = memory_of(ctx.name, mapping.name, mapping.spec.memory_space, mapping.spec.line)
    if not is_moved(space):
        if mapping.spec.block_shape is not None or mapping.spec.index_map is not None:
            raise UnsupportedError(
                f"the kernel `{ctx.name}` can't be lowered to TPUs: arrays outside of VMEM and SMEM have no blocks.",
                got=f"{mapping.name}: a block in the memory `{space}`",
                where=mapping.spec.line,
                do="Leave `block_shape` and `index_map` out, and copy parts of the reference in the kernel.",
            )
        return argument_of(mapping.aval, space, mapping)
    last = len(mapping.dims) - 1
    kept = [i for i, dim in enumerate(mapping.dims) if type(dim) is not Squeezed]
    if has_single_rows(mapping) and last in kept:
        kept[-1] = last + 1
    shape = in_rows(mapping, mapping.sizes) or (1,)
    return Argument(shape, tuple(kept), np.dtype(mapping.aval.dtype), space, None, mapping)


def has_single_rows(mapping: BlockMapping) -> bool:
    """Whether blocks of an array in VMEM have one row of several: they are passed with a dimension of one before the last, which
    is a whole tile.
    """
    space = str(getattr(mapping.spec.memory_space or MemorySpace.DEFAULT, "value", ""))
    if space not in ("vmem", MemorySpace.DEFAULT.value) or len(mapping.dims) < 2:
        return False
    return mapping.sizes[-2] == 1 and mapping.aval.shape[-2] != 1


def in_rows(mapping: BlockMapping, sizes: Shape) -> Shape:
    """A size for each dimension of the array, as a kernel gets it."""
    return (*sizes[:-1], 1, sizes[-1]) if has_single_rows(mapping) else sizes


def is_moved(space: str) -> bool:
    """Whether blocks of arrays are moved to and from a memory, before and after a program."""
    return space in ("vmem", "smem")


def memory_of(kernel: str, name: str, space: Any, line: str | None) -> str:
    """The name of the dialect for a memory space.

    Raises: UnsupportedError for one that TPUs don't have.
    """
    if space is None or space is MemorySpace.DEFAULT:
        return "vmem"
    found = str(getattr(space, "value", space))
    if found not in ("any", "vmem", "smem", "hbm", "semaphore_mem"):
        raise UnsupportedError(
            f"the kernel `{kernel}` can't be lowered to TPUs: it has no place for {name}.",
            got=f"memory space {space}",
            where=line,
            do="Use VMEM, SMEM, HBM or ANY of `pallas.tpu`.",
        )
    return found


# Windows ------------------------------------------------------------------------------------------------------


def window(ctx: Lowering, mapping: BlockMapping, symbol: str) -> ir.Attribute:
    """How blocks of an array are moved, as an attribute of the function; `symbol` is the function of their indices."""
    argument = block_argument(ctx, mapping)
    if not is_moved(argument.space):
        return ir.Attribute.parse("{}")
    bounds = ", ".join(map(str, argument.shape))
    parts = [f"window_bounds = array<i64: {bounds}>", f"transform_indices = @{symbol}"]
    dims = mapping.dims
    if any(type(dim) is Element for dim in dims):
        before, behind = map(list, zip(*map(padding_of, dims), strict=True))
        if has_single_rows(mapping):
            before.insert(-1, 0)
            behind.insert(-1, 0)
        parts.append(f"window_kind = #tpu.element_window<{[*before]}, {[*behind]}>")
    if buffers_of(mapping) == 1:
        parts.append("pipeline_mode = #tpu.pipeline_mode<synchronous>")
    mode = mapping.spec.pipeline_mode
    if mode is not None and mode.revisit is RevisitMode.ANY:
        parts.append("revisit_mode = #tpu.revisit_mode<any>")
    return ir.Attribute.parse(f"{{{', '.join(parts)}}}")


def index_function(
    ctx: Lowering, mapping: BlockMapping, symbol: str, n_axes: int, scalars: Sequence[Argument]
) -> None:
    """Make the function `symbol` of the position in the grid and the prefetched scalars, which gives the indices of the block."""
    int32 = ir.IntegerType.get_signless(32)
    inputs = [*[int32] * n_axes, *[s.type(ctx) for s in scalars]]
    results = [int32] * len(block_argument(ctx, mapping).shape)
    function = func.FuncOp(symbol, ir.FunctionType.get(inputs, results))
    block = function.add_entry_block()
    with ctx.inside(block):
        jaxpr = mapping.on_references.jaxpr
        ids = [*block.arguments[:n_axes]]
        # A kernel without a grid has one program, and its maps no position.
        ids = ids[: len(jaxpr.invars) - len(scalars)]
        refs = [a.ref(x) for a, x in strict_zip(scalars, [*block.arguments[n_axes:]])]
        found = _indices(ctx, mapping, ctx.inline(jaxpr, [*ids, *refs])) or [ctx.int32(0)]
        if has_single_rows(mapping):
            found.insert(-1, ctx.int32(0))
        func.ReturnOp(found)


def _indices(ctx: Lowering, mapping: BlockMapping, found: Sequence[ir.Value]) -> list[ir.Value]:
    """What the window's function gives for each dimension: the number of the block, or of its first element if one is an `Element`."""
    are_elements = any(type(dim) is Element for dim in mapping.dims)
    tile = tile_of(in_rows(mapping, mapping.aval.shape), mapping.aval.dtype)
    if has_single_rows(mapping):
        tile = tile[1:]
    n_front = len(mapping.dims) - len(tile)
    indices: list[ir.Value] = []
    for i, (dim, x, unit) in enumerate(strict_zip(mapping.dims, found, mapping.units)):
        # `unit` elements are one step of what the user's map gives.
        if are_elements and unit != 1:
            x = arith.muli(x, ctx.int32(unit))
        if not are_elements and unit != step_of(dim):
            x = arith.divsi(x, ctx.int32(step_of(dim)))
        if type(dim) is Element and i >= n_front and size_of(dim) != mapping.aval.shape[i]:
            x = tpu.assume_multiple(x, tile[i - n_front])
        indices.append(x)
    return indices
