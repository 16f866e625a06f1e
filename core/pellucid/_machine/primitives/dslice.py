"""`Slice` and `ds`: a start that may be traced, and a size."""

from __future__ import annotations

import builtins
import operator
from dataclasses import dataclass
from typing import Any

from pellucid._machine.base import (
    ArgumentTypeError,
    ArgumentValueError,
    canonical_size,
)
from pellucid._machine.tracing import is_array_like, type_of


@dataclass(slots=True, eq=False)
class Slice:
    """`size` positions along an axis, from `start` in steps of `stride`; `start` may be a traced integer."""

    start: Any
    size: int
    stride: int = 1

    @property
    def is_dynamic_start(self) -> bool:
        """Whether the start is computed at run time."""
        return not isinstance(self.start, int)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slice) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


def ds(start: Any, size: int | None = None, stride: int | None = None) -> Slice | builtins.slice:
    """The index `start : start + size`, whose start may be traced; its size is known. With `stride`, every so many-th.

    `ds(size)` begins at 0, and `ds(None)` is everything. It indexes arrays and references: `x[ds(i, 2)]`.

    Raises: ArgumentTypeError for a size that is not known or a start that isn't an integer; ArgumentValueError for
    a negative size or a stride below 1.

    >>> from pellucid import jit
    >>> import numpy as np
    >>> jit(lambda x, i: x[ds(i, 2)])(np.arange(5), 3)
    Array([3, 4], dtype=int32)
    """
    if start is None:
        return builtins.slice(None)
    if size is None:
        start, size = 0, start
    try:
        length = canonical_size(size)
        stride = operator.index(1 if stride is None else stride)
    except TypeError:
        raise ArgumentTypeError(
            "ds needs a size and a stride that are known when the function is traced.",
            got=f"size: {size!r:.60}, stride: {stride!r:.60}",
            do="Only the start may be traced.",
        ) from None
    if length < 0 or stride < 1:
        raise ArgumentValueError(
            "ds needs a size of at least 0 and a stride of at least 1.",
            got=f"size: {length}, stride: {stride}",
        )
    if not isinstance(start, int):
        aval = type_of(start) if is_array_like(start) else None
        if aval is None or aval.shape != () or aval.dtype.kind not in "iu":
            raise ArgumentTypeError(
                "ds needs a scalar integer start.",
                got=f"got {aval.text() if aval is not None else type(start).__name__}",
            )
    return Slice(start, length, stride)
