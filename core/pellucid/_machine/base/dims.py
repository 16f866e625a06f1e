"""Sizes of dimensions: integers, or symbols whose value is known only when a program is called.

Type rules, batching rules and lowerings compare and compute sizes with these functions, which try integers first.
Symbols are instances of subclasses of `Symbol`, with the arithmetic of integers. Whether two sizes are equal is always
decided; other comparisons raise `InconclusiveDimensionOperation` if they are undecidable, also in `if a < b`.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import source
from .errors import PellucidError, expecting

Size = Any
"""An integer or a `Symbol`."""


class InconclusiveDimensionOperation(PellucidError, ValueError):
    """A comparison of sizes whose answer depends on the values of symbols.

    >>> (b,) = pl.export.symbolic_shape("b")
    >>> try:
    ...     b >= 2
    ... except InconclusiveDimensionOperation as error:
    ...     print(error.do)
    State what holds, as in `symbolic_shape(..., constraints=["b >= 2"])`.
    """


class Symbol:
    """Base class of symbolic sizes.

    Subclasses define `+`, `-`, `*`, `//`, `%` (also reversed), `==`, `hash`, and the methods that are only declared here.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        def bounds(self) -> tuple[int | None, int | None]:
            """The smallest and the largest possible value; None if unbounded."""
            ...

        def as_value(self) -> Any:
            """The size as an integer scalar in the program being traced."""
            ...

        def evaluate(self, values: Mapping[str, Any]) -> Any:
            """The size for given values of its variables; values may be of any type with integer arithmetic."""
            ...

        def equations(self, shapes: Sequence[Sequence[Size]], names: Sequence[str]) -> Any:
            """Equations that determine all variables in `shapes`, of arguments called `names`, from sizes at run time."""
            ...

        def maximum(self, other: Size) -> Size:
            """The larger of two sizes."""
            ...

        def minimum(self, other: Size) -> Size:
            """The smaller of two sizes."""
            ...

    def __jax_array__(self) -> Any:
        return self.as_value()

    def _is_at_least(self, other: Size, text: str, constraint: str = "") -> bool:
        low, high = _bounds(self - other)  # type: ignore[operator]
        if low is not None and low >= 0:
            return True
        if high is not None and high < 0:
            return False
        raise InconclusiveDimensionOperation(
            f"the comparison {text} can't be decided: its answer depends on the values of symbolic dimensions.",
            got=f"bounds of {self - other}: "  # type: ignore[operator]
            f"{'-inf' if low is None else low} to {'inf' if high is None else high}",
            where=source.describe(source.capture()),
            do=f'State what holds, as in `symbolic_shape(..., constraints=["{constraint or text}"])`.',
        )

    def __ge__(self, other: Size) -> bool:
        return self._is_at_least(other, f"{self} >= {other}")

    def __gt__(self, other: Size) -> bool:
        return self._is_at_least(other + 1, f"{self} > {other}", f"{self} >= {other + 1}")

    def __le__(self, other: Size) -> bool:
        return not self._is_at_least(other + 1, f"{self} <= {other}")

    def __lt__(self, other: Size) -> bool:
        return not self._is_at_least(other, f"{self} < {other}", f"{self + 1} <= {other}")  # type: ignore[operator]

    def __bool__(self) -> bool:
        _, high = self.bounds()
        return (high is not None and high < 0) or self._is_at_least(
            1, f"{self} != 0", f"{self} >= 1"
        )

    def _refuse_integer(self) -> int:
        raise InconclusiveDimensionOperation(
            f"the symbolic dimension {self} was used where its value is needed.",
            where=source.describe(source.capture()),
            do="Compute with it as it is, or call the function with arrays whose sizes are integers.",
        )

    __int__ = __index__ = _refuse_integer


def _bounds(size: Size) -> tuple[int | None, int | None]:
    return size.bounds() if isinstance(size, Symbol) else (size, size)


def canonical_size(size: Any) -> Size:
    """`size` as a Python integer, or unchanged if it is a symbol.

    Raises: TypeError for anything else.

    >>> canonical_size(np.int64(3))
    3
    """
    return size if isinstance(size, Symbol) else operator.index(size)


def canonical_shape(sizes: Iterable[Any]) -> tuple[Size, ...]:
    """`sizes` as a tuple of Python integers and symbols.

    Raises: ArgumentTypeError for anything but a sequence of integers and symbols.

    >>> canonical_shape([np.int32(2), 3])
    (2, 3)
    """
    try:
        return tuple([size if type(size) is int else canonical_size(size) for size in sizes])
    except TypeError:
        with expecting("sizes must be sequences of integers", sizes):
            raise


def is_static(sizes: Iterable[Size]) -> bool:
    """Whether all of `sizes` are integers.

    >>> is_static((2, 3))
    True
    """
    return not any(isinstance(size, Symbol) for size in sizes)


def known_at_least(a: Size, b: Size) -> bool:
    """Whether a >= b holds for all values of symbols; False if it depends on them.

    >>> known_at_least(3, 2)
    True
    """
    if type(a) is int and type(b) is int:
        return a >= b
    low, _ = _bounds(a - b)
    return low is not None and low >= 0


def fits(size: Size, largest: int) -> bool:
    """Whether `size` is at most `largest`; a symbol without an upper bound is assumed to be below 2**31.

    >>> fits(3, 2)
    False
    """
    if type(size) is int:
        return size <= largest
    high = _bounds(size)[1]
    return (2**31 - 1 if high is None else high) <= largest


def slice_window(part: slice, size: Size) -> tuple[Size, Size, Size, Size]:
    """(start, length, step, distance between start and stop) of a Python slice of `size` elements.

    Raises: InconclusiveDimensionOperation if it depends on symbols from which end a bound counts; TypeError for bounds
    that aren't sizes.

    >>> slice_window(slice(1, None, 2), 4), slice_window(slice(None, None, -1), 4)
    ((1, 2, 2, 3), (3, 4, -1, 4))
    """
    if is_static((size, part.start, part.stop, part.step)):
        start, stop, step = part.indices(size)
        return (
            start,
            len(range(start, stop, step)),
            step,
            max(stop - start if step > 0 else start - stop, 0),
        )
    step = 1 if part.step is None else canonical_size(part.step)
    lowest, highest = (0, size) if step > 0 else (-1, size - 1)
    first, last = (lowest, highest) if step > 0 else (highest, lowest)

    def canonical_bound(stated: Any, default: Size) -> Size:
        if stated is None:
            return default
        place = canonical_size(stated)
        if (
            type(place) is not int
            and not known_at_least(place, 0)
            and not known_at_least(-1, place)
        ):
            raise InconclusiveDimensionOperation(
                f"the slice bound {place} may be negative or not, so that it may count from either end."
            )
        return larger(place + size, lowest) if place < 0 else smaller(place, highest)

    start, stop = canonical_bound(part.start, first), canonical_bound(part.stop, last)
    extent = stop - start if step > 0 else start - stop
    return start, strided_length(extent, abs(step)), step, larger(extent, 0)


def as_value(size: Size) -> Any:
    """`size` as an operand: a Python integer, or a scalar in the program being traced.

    >>> as_value(3)
    3
    """
    return size if type(size) is int else size.as_value()


def larger(a: Size, b: Size) -> Size:
    """The larger of two sizes.

    >>> larger(2, 3)
    3
    """
    if isinstance(a, Symbol):
        return a.maximum(b)
    return b.maximum(a) if isinstance(b, Symbol) else max(a, b)


def smaller(a: Size, b: Size) -> Size:
    """The smaller of two sizes.

    >>> smaller(2, 3)
    2
    """
    if isinstance(a, Symbol):
        return a.minimum(b)
    return b.minimum(a) if isinstance(b, Symbol) else min(a, b)


def exact_quotient(a: Size, b: Size) -> Size | None:
    """a / b if that is an integer for all values of symbols; else None.

    >>> exact_quotient(6, 2), exact_quotient(6, 4)
    (3, None)
    """
    return None if b == 0 or a % b != 0 else a // b


def strided_length(length: Size, stride: Size) -> Size:
    """Number of elements in a slice of `length` with a step: length / stride, rounded up, at least 0.

    >>> strided_length(5, 2), strided_length(-1, 2)
    (3, 0)
    """
    return larger(length if stride == 1 else (length + (stride - 1)) // stride, 0)


def dilated_size(size: Size, dilation: int) -> Size:
    """Length of `size` elements with `dilation - 1` gaps between neighbours.

    >>> dilated_size(3, 2), dilated_size(0, 2)
    (5, 0)
    """
    return size if dilation == 1 else larger((size - 1) * dilation + 1, 0)


def window_count(size: Size, window: Size, stride: int) -> Size:
    """Number of positions of a window, `stride` apart, within `size` elements; 0 if it doesn't fit.

    >>> window_count(5, 2, 1), window_count(1, 2, 1)
    (4, 0)
    """
    return strided_length(size - window + 1, stride)
