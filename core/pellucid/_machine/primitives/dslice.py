"""`Slice` and `ds`: a start and a size that may be traced."""

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
from pellucid._machine.tracing import Tracer, is_array_like, type_of


@dataclass(slots=True, eq=False)
class Slice:
    """`size` positions along an axis, from `start` in steps of `stride`; `start` may be a traced integer.

    So may `size` where it is the size of a `BoundedSlice` of a kernel's block.
    """

    start: Any
    size: Any
    stride: int = 1

    @property
    def is_dynamic_start(self) -> bool:
        """Whether the start is computed at run time."""
        return not isinstance(self.start, int)

    @property
    def is_dynamic_size(self) -> bool:
        """Whether the size is known only when the program runs."""
        return isinstance(self.size, Tracer)

    @property
    def known_size(self) -> int:
        """The size. Raises: ArgumentTypeError for one that is traced, which a part of an array can't have."""
        if self.is_dynamic_size:
            raise ArgumentTypeError(
                "a slice of an array or a reference needs a size that is known when the function is traced.",
                got=f"ds of size {type_of(self.size).text()}",
                do="Only the start may be traced; the size, too, for the `BoundedSlice` of a kernel's block.",
            )
        return self.size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slice) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


def ds(start: Any, size: Any = None, stride: int | None = None) -> Slice | builtins.slice:
    """The index `start : start + size`, whose start may be traced; its size is known, but for a `BoundedSlice`. With `stride`, every so many-th.

    `ds(size)` begins at 0, and `ds(None)` is everything. It indexes arrays and references: `x[ds(i, 2)]`.

    Raises: ArgumentTypeError for a size that is no number, a stride that isn't known, or a start that isn't an integer; ArgumentValueError for
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
    if isinstance(size, Tracer):
        _check_index(size, "size")
    try:
        length = size if isinstance(size, Tracer) else canonical_size(size)
        stride = operator.index(1 if stride is None else stride)
    except TypeError:
        raise ArgumentTypeError(
            "ds needs a size and a stride that are known when the function is traced.",
            got=f"size: {size!r:.60}, stride: {stride!r:.60}",
        ) from None
    is_negative = not isinstance(length, Tracer) and length < 0
    if is_negative or stride < 1:
        raise ArgumentValueError(
            "ds needs a size of at least 0 and a stride of at least 1.",
            got=f"size: {length}, stride: {stride}",
        )
    if not isinstance(start, int):
        _check_index(start, "start")
    return Slice(start, length, stride)


def _check_index(x: Any, name: str) -> None:
    """Raise ArgumentTypeError unless `x` is a scalar integer."""
    aval = type_of(x) if is_array_like(x) else None
    if aval is None or aval.shape != () or aval.dtype.kind not in "iu":
        raise ArgumentTypeError(
            f"ds needs a scalar integer {name}.",
            got=f"got {aval.text() if aval is not None else type(x).__name__}",
        )
