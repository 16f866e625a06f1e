"""What a kernel holds in the fast memories of a TPU: sizes in whole tiles, and where they come from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pellucid._machine.base import dtypes

from .tiles import bits_of, bytes_of


class MemoryPart(NamedTuple):
    """What a kernel holds in a fast memory of a TPU: the buffers of an array's blocks, or scratch."""

    name: str
    type: str
    space: str
    """vmem or smem."""
    n_bytes: int
    """Bytes of all buffers, in whole tiles."""
    needed_bytes: int
    """Those without what tiles have beyond the edges of a block."""
    n_buffers: int
    source: Any
    """The traceback of its line."""


def memory_part(
    name: str, space: str, shape: Sequence[int], aval: Any, source: Any, n_buffers: int = 1
) -> MemoryPart:
    """A part of `n_buffers` blocks of `shape`, of arrays of the type `aval`."""
    dtype = np.dtype(aval.dtype)
    # Scalar memory has no tiles.
    whole = math.prod(shape) * bits_of(dtype) // 8
    padded = bytes_of(shape or (1,), dtype) if space == "vmem" else whole
    type_text = f"{dtypes.short_name(dtype)}[{','.join(map(str, shape))}]"
    return MemoryPart(
        name, type_text, space, padded * n_buffers, whole * n_buffers, n_buffers, source
    )
