"""How an array lies in shared memory: tilings and swizzles. They change addresses, never values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pellucid._machine.base import ArgumentValueError, ints
from pellucid._machine.refs.access import transpose_view

_SWIZZLES = (16, 32, 64, 128)


class Transform:
    """Base class of statements of how an array lies in shared memory."""


@dataclass(frozen=True)
class TilingTransform(Transform):
    """Tiles of the last dimensions lie together: an array of `(m, n)` in tiles of `(a, b)` as one of `(m / a, n / b, a, b)`.

    >>> TilingTransform((8, 64)).tiling
    (8, 64)
    """

    tiling: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "tiling", ints(self.tiling))
        if not self.tiling or min(self.tiling) < 1:
            raise ArgumentValueError(
                "TilingTransform takes sizes of a tile, from 1 on.", got=f"got {self.tiling}"
            )


@dataclass(frozen=True)
class SwizzleTransform(Transform):
    """Rows of `swizzle` bytes have their 16-byte parts permuted, by the number of the row, so that columns lie in different banks.

    >>> SwizzleTransform(128)
    SwizzleTransform(swizzle=128)
    """

    swizzle: int

    def __post_init__(self) -> None:
        if self.swizzle not in _SWIZZLES:
            raise ArgumentValueError(
                "SwizzleTransform: a swizzle is 16, 32, 64 or 128 bytes; 16 is none.",
                got=f"got {self.swizzle!r}",
            )


def check_transforms(caller: str, transforms: Sequence[Any]) -> tuple[Transform, ...]:
    """The statements of `transforms`. Raises: ArgumentValueError for what is none."""
    found = tuple(transforms)
    for x in found:
        if not isinstance(x, Transform):
            raise ArgumentValueError(
                f"{caller}: `transforms` are TilingTransform and SwizzleTransform.",
                got=f"got {x!r:.60}",
            )
    return found


def find_swizzle(minor_dim_bits: int, what: str = "") -> int:
    """The largest swizzle, in bytes, of rows of `minor_dim_bits`: 128, 64, 32 or 16.

    Raises: ArgumentValueError for rows that are no multiple of 16 bytes.

    >>> find_swizzle(64 * 16)
    128
    """
    for swizzle in reversed(_SWIZZLES):
        if minor_dim_bits and minor_dim_bits % (swizzle * 8) == 0:
            return swizzle
    of = f" of {what}" if what else ""
    raise ArgumentValueError(
        f"find_swizzle: the last dimension{of} is no multiple of 16 bytes.",
        got=f"{minor_dim_bits} bits",
    )


def transpose_ref(ref: Any, permutation: Sequence[int]) -> Any:
    """A view of a reference, or of a part, with its dimensions permuted.

    >>> import numpy as np
    >>> from pellucid._machine.refs.access import new_ref
    >>> transpose_ref(new_ref(np.zeros((2, 3), np.float32)), (1, 0)).shape
    (3, 2)
    """
    return transpose_view(ref, tuple(permutation))
