"""What TPUs don't have, said before anything is compiled: of kernels, of their blocks, of memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pellucid._machine.base import (
    ArgumentValueError,
    UnsupportedError,
    bytes_text,
    dtypes,
    strict_zip,
)
from pellucid._machine.base.dims import Symbol
from pellucid.kernels.lowering.programs import begins_by_writing
from pellucid.kernels.mappings import BlockMapping, buffers_of
from pellucid.kernels.programs import GridKernel
from pellucid.kernels.specs import (
    BoundedSlice,
    Buffered,
    Element,
    Indirect,
    SemaphoreType,
    Squeezed,
    block_dims,
    padding_of,
)
from pellucid.kernels.targets import LARGEST_VMEM, TpuChip

from .memory import MemoryPart, memory_part
from .tiles import fitting_block, has_dtype, tile_of
from .windows import has_single_rows, in_rows, is_moved, memory_of

_SEMANTICS = ("parallel", "arbitrary", "core_parallel")


def check(kernel: GridKernel, line: str | None) -> None:
    """Raise UnsupportedError for kernels that need what TPUs don't have; `line` is the user's that calls it."""
    checks = _Checks(kernel, line)
    checks.semantics()
    for mapping in (*kernel.inputs, *kernel.results):
        checks.block(mapping)
    checks.writes()


def check_memory(
    kernel: GridKernel, parts: Sequence[MemoryPart], chip: TpuChip | None, line: str | None
) -> None:
    """Raise UnsupportedError for a kernel whose `parts` don't fit into VMEM."""
    _Checks(kernel, line).memory([(p.name, p.n_bytes) for p in parts if p.space == "vmem"], chip)


class _Checks(NamedTuple):
    kernel: GridKernel
    line: str | None

    def refused(
        self, what: str, got: Any = (), where: str | None = None, do: str | None = None
    ) -> UnsupportedError:
        """The error for what TPUs don't have; `where` is the user's line that asks for it."""
        return UnsupportedError(
            f"the kernel `{self.kernel.name}` can't be lowered to TPUs: {what}",
            got=got,
            where=where or self.line,
            do=do,
        )

    def semantics(self) -> None:
        """Check what is stated of the grid's axes."""
        stated = getattr(self.kernel.compiler_params, "dimension_semantics", None)
        if stated is None:
            return
        names = [str(getattr(s, "value", s)).lower() for s in stated]
        if len(names) != len(self.kernel.grid) or any(name not in _SEMANTICS for name in names):
            raise ArgumentValueError(
                f"the kernel `{self.kernel.name}`: `dimension_semantics` has one entry for each axis of the grid, as TPUs have them.",
                got=f"{names} for a grid of {len(self.kernel.grid)} axes",
                do=f"Entries are {', '.join(_SEMANTICS)}.",
            )

    def block(self, mapping: BlockMapping) -> None:
        """Check an array and its blocks."""
        line, name = mapping.spec.line, mapping.name
        if any(isinstance(n, Symbol) for n in (*mapping.aval.shape, *mapping.sizes)):
            raise self.refused(f"the shape of {name} is a symbol.", mapping.aval.text(), line)
        if not has_dtype(mapping.aval.dtype):
            raise self.refused(
                f"it has no {dtypes.short_name(mapping.aval.dtype)}.",
                f"{name}: {mapping.aval.text()}",
                line,
                "Cast to 32 bits, to bfloat16, or to integers.",
            )
        space = memory_of(self.kernel.name, name, mapping.spec.memory_space, line)
        if not is_moved(space):
            return
        mode = mapping.spec.pipeline_mode
        if isinstance(mode, Buffered) and mode.buffer_count not in (1, 2):
            raise self.refused(
                f"blocks of {name} have one buffer or two.",
                f"{mode.buffer_count} buffers",
                line,
            )
        dims = block_dims(name, mapping.spec, mapping.aval.shape)
        for dim in dims:
            if isinstance(dim, (Indirect, BoundedSlice)):
                raise self.refused(
                    f"a dimension of a block is a size, None or Element: {name}.",
                    f"{dim}",
                    line,
                    "Leave the array in its memory, `BlockSpec(memory_space=pl.ANY)`, and copy the part in the kernel.",
                )
        if any(padding_of(dim)[0] for dim in dims):
            raise self.refused(
                f"arrays have no elements before their first one: {name}.", f"{dims}", line
            )
        if space == "vmem":
            self.tiles(mapping)
            if any(type(dim) is Element for dim in mapping.dims):
                self.elements(mapping)

    def tiles(self, mapping: BlockMapping) -> None:
        """Check that blocks consist of whole tiles."""
        shape, dtype = mapping.aval.shape, mapping.aval.dtype
        if len(shape) == 0:
            return
        shape = in_rows(mapping, shape)
        fitting = fitting_block(in_rows(mapping, mapping.sizes), shape, dtype)
        if fitting is None:
            return
        if has_single_rows(mapping):
            fitting = (*fitting[:-2], fitting[-1])
        tile: Any = tile_of(shape, dtype)
        text = [
            "None" if n == 1 and type(dim) is Squeezed else str(n)
            for n, dim in strict_zip(fitting, mapping.dims)
        ]
        named = tile if len(tile) > 1 else f"{tile[0]}"
        kind = f"{mapping.aval.text()}, in tiles of {named}"
        squeezed = [
            i for i, dim in enumerate(mapping.dims) if type(dim) is Squeezed and fitting[i] != 1
        ]
        raise self.refused(
            f"blocks of {mapping.name} are no whole tiles.",
            f"block {mapping.sizes} of {kind}",
            mapping.spec.line,
            "Move the dimension that the kernel doesn't see in front of the last two."
            if squeezed
            else f"A block of ({', '.join(text)}{',' if len(text) == 1 else ''}) fits, with an index map and a grid for it; "
            "along a dimension that it has whole, a block needs no tiles.",
        )

    def elements(self, mapping: BlockMapping) -> None:
        """Check that blocks which may begin at any element begin at a tile along the last two dimensions."""
        tile = tile_of(in_rows(mapping, mapping.aval.shape), mapping.aval.dtype)
        if has_single_rows(mapping):
            tile = tile[1:]
        start = len(mapping.dims) - len(tile)
        for i, t in enumerate(tile, start):
            if type(mapping.dims[i]) is not Element or mapping.sizes[i] == mapping.aval.shape[i]:
                continue
            if mapping.indices is None or (mapping.indices[:, i] % t).any():
                raise self.refused(
                    f"blocks of {mapping.name} begin at whole tiles.",
                    f"dimension {i}: elements that aren't known to be multiples of {t}",
                    mapping.spec.line,
                    "Leave the array in its memory, `BlockSpec(memory_space=pl.ANY)`, and copy the part in the kernel.",
                )

    def writes(self) -> None:
        """Check that what is written reaches an array, and what is read came from one."""
        first = len(self.kernel.scalars)
        for position in sorted(self.kernel.written):
            number = position - first
            if 0 <= number < len(self.kernel.inputs):
                mapping = self.kernel.inputs[number]
                if is_moved(_space(self.kernel, mapping)):
                    raise self.refused(
                        f"it writes to an input, {mapping.name}, whose blocks aren't moved back.",
                        where=mapping.spec.line,
                        do="Alias a result with it, and write to that: `input_output_aliases`.",
                    )
        for result, source in self.kernel.aliases.items():
            mapping = self.kernel.results[result]
            if source >= first and has_single_rows(mapping) != has_single_rows(
                self.kernel.inputs[source - first]
            ):
                raise self.refused(
                    f"{mapping.name} and the input that it is aliased with have blocks of one row both, or neither.",
                    where=mapping.spec.line,
                )
            position = first + len(self.kernel.inputs) + result
            ref = self.kernel.body.jaxpr.invars[self.kernel.n_front + position]
            if is_moved(_space(self.kernel, mapping)) and not begins_by_writing(
                self.kernel.body.jaxpr, ref
            ):
                raise self.refused(
                    f"{mapping.name}, which is aliased with an input, may be read or kept where the kernel hasn't written it: "
                    "its blocks don't begin as those of the input there.",
                    where=mapping.spec.line,
                    do="Begin with `o_ref[...] = x_ref[...]`, of the reference to the input.",
                )

    def memory(self, parts: Sequence[tuple[str, int]], chip: TpuChip | None) -> None:
        """Check that blocks and scratch fit."""
        stated = getattr(self.kernel.compiler_params, "vmem_limit_bytes", None)
        limit = LARGEST_VMEM if chip is None else chip.vmem
        where = "the largest TPU has" if chip is None else f"{chip.name} has"
        if stated is not None and stated < limit:
            limit, where = int(stated), "`vmem_limit_bytes` allows"
        total = sum(size for _, size in parts)
        if total <= limit:
            return
        name, largest = max(parts, key=lambda part: part[1])
        lines = {m.name: m.spec.line for m in (*self.kernel.inputs, *self.kernel.results)}
        raise self.refused(
            f"its blocks and scratch need {bytes_text(total)} of VMEM, and {where} {bytes_text(limit)}.",
            f"{name} needs the most: {bytes_text(largest)}",
            lines.get(name),
            "Make blocks smaller, with a larger grid, or leave arrays in HBM and copy parts.",
        )


def _space(kernel: GridKernel, mapping: BlockMapping) -> str:
    return memory_of(kernel.name, mapping.name, mapping.spec.memory_space, mapping.spec.line)


# Memory -------------------------------------------------------------------------------------------------------


def parts_of(kernel: GridKernel) -> list[MemoryPart]:
    """What a kernel is given in fast memory: prefetched scalars, the buffers of each array's blocks, then scratch."""
    return [*_scalars(kernel), *_buffers(kernel), *_scratch(kernel)]


def _scalars(kernel: GridKernel) -> Iterator[MemoryPart]:
    for i, aval in enumerate(kernel.scalars):
        yield memory_part(f"scalars {i}", "smem", aval.shape, aval, None)


def _buffers(kernel: GridKernel) -> Iterator[MemoryPart]:
    for mapping in (*kernel.inputs, *kernel.results):
        space = _space(kernel, mapping)
        if space in ("vmem", "smem"):
            shape, n = tuple(in_rows(mapping, mapping.sizes)), buffers_of(mapping)
            yield memory_part(mapping.name, space, shape, mapping.aval, mapping.spec.source, n)


def _scratch(kernel: GridKernel) -> Iterator[MemoryPart]:
    for i, (aval, space) in enumerate(zip(kernel.scratch, kernel.spaces, strict=False)):
        if isinstance(space, SemaphoreType):
            continue
        memory = memory_of(kernel.name, "scratch", space, None)
        if memory in ("vmem", "smem"):
            yield memory_part(f"scratch {i}", memory, aval.shape, aval, None)
