"""Which elements of a cotangent are live: one answer for all of them, or arrays along some of its dimensions.

A mask is a conjunction of parts, and each part is an array along the dimensions in which it differs: padded rows have
one number per row, whatever is computed of them. Parts are computed when they are first needed. Those that the program
fixes (slices, padding, comparisons of positions) are known while tracing as well, and vanish where all elements are live.

    mask of x[8, 16, 64]     valid[8]  ∧  positions[16] (known: the first 15)  ∧  (h > 0)[8, 16, 64]
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from pellucid._machine.base import Ints, Shape, dtypes, is_static, strict_zip
from pellucid._machine.primitives import (
    bitwise_and,
    bitwise_not,
    bitwise_or,
    broadcast_in_dim,
    full_as,
    full_of_type,
    reduce_or,
    select_n,
    transpose,
)
from pellucid._machine.tracing import context, plumbing, type_of, use_trace


class Known(enum.Enum):
    """Liveness shared by all elements of a value in a backward pass."""

    LIVE = "live"
    """The value depends on cotangents, and no element is known to be dead."""
    DEAD = "dead"
    """The value depends on cotangents, and all elements are dead."""
    ZERO = "zero"
    """The value is a constant zero; where it is combined with cotangents, its elements are dead."""


LIVE, DEAD, ZERO = Known.LIVE, Known.DEAD, Known.ZERO
KNOWN_SIZE = 1 << 20
"""Largest number of elements of a mask that is computed while tracing, too."""
FIXED_SIZE = 1 << 14
"""Largest number of elements of a mask that programs have as a constant."""
SEARCHED = 64
"""Largest number of parts that are searched for what implies one: a sum of two terms takes a fixed time at most."""


class Part:
    """A boolean array along the dimensions `dims` of a value, in order: elements where it is False are dead.

    The array is computed on first use, in the trace in which the part was made.
    """

    __slots__ = (
        "_array", "_compute", "_kept", "_trace", "_whole", "dims", "implied_by", "is_by_value", "known",
    )  # fmt: skip

    def __init__(
        self,
        compute: Callable[[], Any],
        dims: Iterable[int],
        known: np.ndarray | None = None,
        *,
        is_by_value: bool = False,
    ) -> None:
        self._compute: Callable[[], Any] | None = compute
        self._trace = context.trace
        self._array: Any = None
        self._whole: dict[Any, Any] = {}
        self._kept: dict[Any, Any] = {}
        self.dims = tuple(dims)
        self.known = known
        """The array as well, if the program fixes it."""
        self.is_by_value = is_by_value
        """Whether it is the mask of a `relu` of computed values: lines that it leaves out count as live."""
        self.implied_by: tuple[tuple[Part, ...], ...] = ()
        """Parts that together leave no element that this one leaves out, along the same dimensions; several choices."""

    def array(self) -> Any:
        """True for live elements, with dimensions `dims`."""
        if self.known is not None and self.known.size <= FIXED_SIZE:
            return self.known
        if self._compute is not None:
            with use_trace(self._trace), plumbing("masked"):
                self._array = self._compute()
            self._compute = None
        return self._array

    def whole(self, aval: Any) -> Any:
        """`array` with the shape and sharding of a value of type `aval`."""
        if len(self.dims) == aval.ndim:
            return self.array()
        key = aval.shape, aval.shown_sharding
        if key not in self._whole:
            with use_trace(self._trace), plumbing("masked"):
                self._whole[key] = broadcast_in_dim(
                    self.array(), aval.shape, self.dims, out_sharding=aval.shown_sharding
                )
        return self._whole[key]

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """What `make` gives, made once: sums, lines and moves of one part remain one part."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]


class Elements:
    """The live elements of a value: those that are live in each of `parts`."""

    __slots__ = ("_trace", "_whole", "parts")

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = tuple(parts)
        self._trace = context.trace
        self._whole: dict[Any, Any] = {}

    def whole(self, x: Any) -> Any:
        """True for live elements, with the shape and sharding of the value `x`."""
        aval = type_of(x)
        key = aval.shape, aval.shown_sharding
        if key not in self._whole:
            with use_trace(self._trace), plumbing("masked"):
                arrays = [part.whole(aval) for part in self.parts]
                self._whole[key] = functools.reduce(bitwise_and, arrays)
        return self._whole[key]


Liveness: TypeAlias = Known | Elements | None
"""Liveness of a value; None for a value that doesn't depend on cotangents."""


def elements(parts: Iterable[Part]) -> Liveness:
    """The liveness of values that are live where all `parts` are."""
    kept: dict[Part, None] = {}
    for part in parts:
        part = _narrow(part)
        if part.known is None or not part.known.all():
            kept[part] = None
        if part.known is not None and not part.known.any():
            return DEAD
    return Elements([*kept]) if kept else LIVE


def _narrow(part: Part) -> Part:
    """`part` without the dimensions along which its known array doesn't differ."""
    known = part.known
    if known is None or not known.ndim or known.all() or not known.any():
        return part
    same = tuple([i for i in range(known.ndim) if (known == known.take([0], i)).all()])
    if not same:
        return part
    rest = [d for i, d in enumerate(part.dims) if i not in same]
    return part.once(
        "narrowed",
        lambda: Part(lambda: reduce_or(part.array(), same), rest, np.asarray(known.any(same))),
    )


def is_cotangent(live: Liveness) -> bool:
    """Whether a value with this liveness depends on cotangents."""
    return live is not None and live is not ZERO


def is_dead(live: Liveness) -> bool:
    """Whether all elements of a value with this liveness are dead, once combined with cotangents."""
    return live is DEAD or live is ZERO


def are_same(a: Liveness, b: Liveness) -> bool:
    """Whether two values have the same live elements, by the same parts."""
    if isinstance(a, Elements) and isinstance(b, Elements):
        return a.parts == b.parts
    return a is b


def known_array(array: Any) -> Elements:
    """Liveness given by `array`, True for live elements."""
    return Elements([Part(lambda: array, range(type_of(array).ndim))])


def array_of(live: Liveness, x: Any) -> Any:
    """Boolean array of the live elements of `x` with liveness `live`."""
    if isinstance(live, Elements):
        return live.whole(x)
    return full_of_type(type_of(x).update(dtype=np.dtype(bool), weak_type=False), not is_dead(live))


def zero_dead(live: Liveness, x: Any) -> Any:
    """`x` with its dead elements set to 0."""
    if is_dead(live):
        return full_as(x, 0)
    if not isinstance(live, Elements) or not dtypes.is_inexact(type_of(x).dtype):
        return x
    is_one = len(live.parts) == 1 and not live.parts[0].dims
    return select_n(live.parts[0].array() if is_one else live.whole(x), full_as(x, 0), x)


def either(a: Liveness, b: Liveness, x: Any) -> Liveness:
    """Liveness of a sum `x`: an element is live if one of the terms is."""
    if is_dead(a):
        return b if is_cotangent(b) or b is None else DEAD
    if is_dead(b):
        return a
    if not isinstance(a, Elements) or not isinstance(b, Elements):
        return LIVE
    # Parts that both terms have, or that one has and the other one implies, aren't merged with others, so that the sums
    # of a residual stream share one mask: rows that have a live element, and these elements, are these rows.
    common = [part for part in a.parts if implies(b.parts, part)]
    common += [part for part in b.parts if part not in common and implies(a.parts, part)]
    ours, theirs = ([p for p in of_it.parts if p not in common] for of_it in (a, b))
    if not ours or not theirs:
        return elements(common)
    aval = type_of(x)

    def sum_of_both() -> Part:
        first, second = merge_parts(ours, aval), merge_parts(theirs, aval)
        joined = _join(bitwise_or, first, second, aval)
        if joined is not first and joined is not second:
            joined.implied_by = (*ours,), (*theirs,)
        return joined

    key = "or", tuple(ours), tuple(theirs), aval.shape
    return elements([*common, ours[0].once(key, sum_of_both)])


def implies(parts: Sequence[Part], part: Part) -> bool:
    """Whether elements that are live in each of `parts` are live in `part`, as far as that is found at once."""
    seen: set[Part] = {*parts}

    def follows(part: Part) -> bool:
        if part in seen:
            return part in known
        if len(seen) >= SEARCHED + len(parts):
            return False
        seen.add(part)
        if any(all(map(follows, choice)) for choice in part.implied_by):
            known.add(part)
        return part in known

    known = {*parts}
    return follows(part)


def both(a: Liveness, b: Liveness) -> Liveness:
    """Liveness of a product: an element is live if both factors are."""
    if is_dead(a) or is_dead(b):
        return DEAD
    if isinstance(a, Elements) and isinstance(b, Elements):
        return a if are_same(a, b) else elements([*a.parts, *b.parts])
    return a if isinstance(a, Elements) else b if isinstance(b, Elements) else LIVE


def opposite(live: Liveness, x: Any) -> Liveness:
    """Live where `live` is dead."""
    if not isinstance(live, Elements):
        return LIVE if is_dead(live) else DEAD
    part = merge_parts(live.parts, type_of(x))
    known = None if part.known is None else ~part.known
    inverse = lambda: Part(
        lambda: bitwise_not(part.array()), part.dims, known, is_by_value=part.is_by_value
    )
    return elements([part.once("not", inverse)])


def merge_parts(parts: Sequence[Part], aval: Any) -> Part:
    """One part in place of several of a value of type `aval`."""
    first, *others = parts
    if not others:
        return first
    return first.once(
        ("and", tuple(others), aval.shape),
        lambda: functools.reduce(lambda a, b: _join(bitwise_and, a, b, aval), parts),
    )


def _join(combine: Callable[[Any, Any], Any], a: Part, b: Part, aval: Any) -> Part:
    is_by_value = a.is_by_value or b.is_by_value
    if aval.shown_sharding is not None:
        whole = lambda: combine(a.whole(aval), b.whole(aval))
        return Part(whole, range(aval.ndim), is_by_value=is_by_value)
    dims = sorted({*a.dims, *b.dims})
    known = None
    if a.known is not None and b.known is not None and is_static(aval.shape):
        shape: Any = [aval.shape[d] for d in dims]
        if np.prod(shape) <= KNOWN_SIZE:
            rows: Any = [
                np.expand_dims(known_of_it, _absent(p.dims, dims))
                for p, known_of_it in ((a, a.known), (b, b.known))
            ]
            known = np.asarray((np.logical_or if combine is bitwise_or else np.logical_and)(*rows))
            known = np.broadcast_to(known, shape)
            # If one operand equals the result, that part itself is returned.
            for part, row in strict_zip((a, b), rows):
                if row.shape == known.shape and (row == known).all():
                    return part
    array = lambda: combine(spread(a, dims, aval.shape), spread(b, dims, aval.shape))
    return Part(array, dims, known, is_by_value=is_by_value)


def _absent(dims: Ints, among: Ints) -> tuple[int, ...]:
    return tuple([i for i, d in enumerate(among) if d not in dims])


def spread(part: Part, dims: Ints, shape: Shape) -> Any:
    """The array of `part` along `dims` of a value of shape `shape`, which include its own."""
    if part.dims == tuple(dims):
        return part.array()
    places = tuple([[*dims].index(d) for d in part.dims])
    return broadcast_in_dim(part.array(), tuple([shape[d] for d in dims]), places)


def any_along(live: Liveness, axes: Iterable[int], aval: Any) -> Liveness:
    """Liveness of sums along `axes` of a value of type `aval`: live if any term is. Dimensions are numbered as before the sum.

    Lines that parts `is_by_value` leave out count as live.
    """
    if not isinstance(live, Elements):
        return live
    axes = {*axes}
    kept = [part for part in live.parts if axes.isdisjoint(part.dims)]
    varying = [p for p in live.parts if not axes.isdisjoint(p.dims) and not p.is_by_value]
    if varying:
        # any over k of (a[i] and b[i, k]) is a[i] and (any over k of b[i, k]).
        key = "any", tuple(varying), frozenset(axes), aval.shape
        kept.append(varying[0].once(key, lambda: _lines(varying, aval, axes)))
    return elements(kept)


def _lines(parts: Sequence[Part], aval: Any, axes: set[int]) -> Part:
    part = merge_parts(parts, aval)
    gone = tuple([i for i, d in enumerate(part.dims) if d in axes])
    kept = [d for d in part.dims if d not in axes]
    known = None if part.known is None else np.asarray(part.known.any(gone))
    lines = Part(lambda: reduce_or(part.array(), gone), kept, known)
    lines.implied_by = ((*parts,),)
    return lines


def move_liveness(live: Liveness, place: Mapping[int, int]) -> Liveness:
    """`live` with its dimensions moved to `place` of another value."""
    if not isinstance(live, Elements):
        return live
    return elements([moved_part(part, place) for part in live.parts])


def moved_part(part: Part, place: Mapping[int, int]) -> Part:
    """`part` with its dimensions moved to `place` of another value."""
    at = tuple([place[d] for d in part.dims])
    if at == part.dims:
        return part
    moved = part.once(("moved", at), lambda: _permute_part(part, at))
    if at == moved.dims:
        # There and back it is the same part.
        moved.once(("moved", part.dims), lambda: part)
    return moved


def _permute_part(part: Part, at: Ints) -> Part:
    order = sorted(range(len(at)), key=at.__getitem__)
    is_same = order == [*range(len(at))]
    array = part.array if is_same else lambda: transpose(part.array(), order)
    known = None if part.known is None else part.known.transpose(order)
    return Part(array, sorted(at), known, is_by_value=part.is_by_value)
