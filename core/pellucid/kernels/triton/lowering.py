"""A kernel as a program of Triton: values are blocks in registers, references are pointers, and each program of the grid runs once.

Rules of operations are in `rules`, access through references in `memory`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import compress
from typing import Any

import numpy as np

from pellucid._machine.xla.triton import ir, triton
from pellucid.kernels.lowering import control, elements, programs
from pellucid.kernels.lowering.programs import Rules, registering
from pellucid.kernels.mappings import BlockMapping
from pellucid.kernels.specs import Squeezed

RULES: Rules = {}
"""By primitive how it is lowered; `rules` and `memory` fill it."""
SHARED = (control, elements)
"""The modules of rules that it shares with other devices."""
MAX_ELEMENTS = 1 << 20
"""Maximum number of elements of a block, which is Triton's own."""
rule = registering(RULES)


class Lowering(programs.Lowering):
    """The state while one kernel is lowered to Triton."""

    device = "Triton"
    rules = RULES

    # Types --------------------------------------------------------------------------------------------------

    def in_memory(self, dtype: Any) -> ir.Type:
        """The type of an element in memory, where booleans are bytes."""
        is_bool = np.dtype(dtype) == np.bool_
        return ir.IntegerType.get_signless(8) if is_bool else self.element(dtype)

    def type(self, shape: Sequence[int], element: ir.Type) -> ir.Type:
        """The type of a block, or of a scalar for the shape ()."""
        if not shape:
            return element
        for n in shape:
            if n < 1 or n & (n - 1):
                mapping = self._mapping_of(shape)
                raise self.unsupported(
                    "sizes of its blocks must be powers of two.",
                    _described(shape, mapping),
                    f"Make it {_power_of_two(n)}, and mask what is beyond: `triton.load(ref, mask=…)`."
                    if mapping is None
                    else f"A block of {_fitting_shape(mapping)} fits, with a grid for it; what it has beyond the edge of the array is masked.",
                )
        if math.prod(shape) > MAX_ELEMENTS:
            mapping = self._mapping_of(shape)
            raise self.unsupported(
                f"its blocks have at most {MAX_ELEMENTS:,} elements.",
                _described(shape, mapping),
                f"Work on parts of it in a loop: {_within_limit(shape)} fits."
                if mapping is None
                else f"A block of {_fitting_shape(mapping)} fits, with a grid for it.",
            )
        return ir.RankedTensorType.get(list(shape), element)

    def _mapping_of(self, shape: Sequence[int]) -> BlockMapping | None:
        """The first mapping of the user's with blocks of this shape."""
        for mapping in self.mappings:
            if mapping.block_aval.shape == tuple(shape) and mapping.spec.line is not None:
                return mapping
        return None

    # Shapes -----------------------------------------------------------------------------------------------

    def shape(self, x: ir.Value) -> tuple[int, ...]:
        """The shape of a block, () of a scalar."""
        return tuple(ir.RankedTensorType(x.type).shape) if _is_tensor(x) else ()

    def scalar_type(self, x: ir.Value) -> ir.Type:
        """The type of the elements of a value."""
        return ir.RankedTensorType(x.type).element_type if _is_tensor(x) else x.type

    def along(self, x: ir.Value, axes: Sequence[int], shape: Sequence[int]) -> ir.Value:
        """`x`, whose axes are those of a block of `shape` at `axes`, repeated along the others."""
        if not shape:
            return x
        kind = self.type(shape, self.scalar_type(x))
        if not _is_tensor(x):
            return triton.splat(kind, x)
        for axis in range(len(shape)):
            if axis not in axes:
                x = triton.expand_dims(x, axis)
        return x if self.shape(x) == tuple(shape) else triton.broadcast(kind, x)


def _power_of_two(n: int) -> int:
    """The least power of two that is no less than `n`."""
    return 1 << max(n - 1, 0).bit_length()


def _described(shape: Sequence[int], mapping: BlockMapping | None) -> list[str]:
    """What a message says of a value of this shape, and of the spec whose block it is."""
    lines = [f"a value of shape {list(shape)}"]
    if mapping is not None:
        lines.append(f"blocks of {mapping.name} have this shape: {mapping.spec.line}")
    return lines


def _fitting_shape(mapping: BlockMapping) -> tuple[int | None, ...]:
    """The shape of a block that Triton has: no smaller than that of `mapping`, but for what its number of elements allows."""
    kept = [type(dim) is not Squeezed for dim in mapping.dims]
    seen = _within_limit([_power_of_two(n) for n in compress(mapping.sizes, kept)])
    sizes = iter(seen)
    return tuple([next(sizes) if is_kept else None for is_kept in kept])


def _within_limit(shape: Sequence[int]) -> tuple[int, ...]:
    """Sizes, powers of two, of which the largest are halved until there are no more elements than a block may have."""
    sizes = [*shape]
    while math.prod(sizes) > MAX_ELEMENTS:
        largest = sizes.index(max(sizes))
        sizes[largest] //= 2
    return tuple(sizes)


def _is_tensor(x: ir.Value) -> bool:
    return isinstance(x.type, ir.RankedTensorType)
