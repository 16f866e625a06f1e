"""Sizes of blocks that fit arrays, and arrays padded to whole blocks with zeros."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pellucid.numpy as jnp
from pellucid._machine.base import ArgumentValueError
from pellucid._machine.primitives import vary
from pellucid._machine.tracing import type_of
from pellucid.kernels.inside import align_to, next_power_of_2


def fitted(block: int, length: int, least: int = 16) -> int:
    """`block`, or the least power of two that holds `length` elements if that is smaller, but not below `least`."""
    return min(block, max(next_power_of_2(length), least))


def padded_to(x: Any, sizes: Mapping[int, int]) -> Any:
    """`x` with zeros behind, so that its length along each axis of `sizes` is a multiple of the size."""
    widths = [(0, align_to(n, sizes.get(i, 1)) - n) for i, n in enumerate(x.shape)]
    return jnp.pad(x, widths) if any(after for _, after in widths) else x


def vary_alike(*operands: Any) -> list[Any]:
    """Operands of a function with a derivative of its own, cast within `shard_map` to vary over the same axes: cotangents of those that
    are the same along an axis are summed there.
    """
    axes = frozenset[Any]().union(*[type_of(x).varying for x in operands if x is not None])
    return [x if x is None else vary(x, axes) for x in operands]


def check_blocks(caller: str, sizes: Mapping[str, Any]) -> None:
    """Raise ArgumentValueError for a size of a block that is no positive integer."""
    for name, size in sizes.items():
        if not (isinstance(size, int) and size > 0):
            raise ArgumentValueError(
                f"{caller}: `{name}` must be a positive number of elements.", got=f"got {size!r}"
            )


def check_divides(caller: str, name: str, size: int, whole_name: str, whole: int) -> None:
    """Raise ArgumentValueError unless `size` divides `whole`."""
    if size <= 0 or whole % size:
        raise ArgumentValueError(
            f"{caller}: `{name}` must divide `{whole_name}`.",
            got=f"{name} = {size}, {whole_name} = {whole}",
        )
