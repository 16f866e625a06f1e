"""Types of elements and of batches."""

from __future__ import annotations

from typing import Any

from pellucid._machine.ir.rules import BatchAxis
from pellucid._machine.transforms.vmap import batched_aval


def mapped_aval(size: int, axis: int | None, aval: Any) -> Any:
    """The type of one element of a batch of type `aval` along `axis`, which has `size` elements; None for no axis.

    >>> mapped_aval(3, 0, pl.typeof(np.ones((3, 2), np.float32)))
    ShapedArray(float32[2])
    """
    return aval if axis is None else aval.without_dim(axis)


def unmapped_aval(size: int, axis: int | None, aval: Any) -> Any:
    """The type of a batch of `size` values of type `aval`, along `axis`; None for no axis.

    >>> unmapped_aval(3, 0, pl.typeof(np.ones(2, np.float32)))
    ShapedArray(float32[3,2])
    """
    return batched_aval(aval, BatchAxis(size), axis)
