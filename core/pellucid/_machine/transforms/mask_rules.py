"""Rules of masks: which elements of a cotangent are structurally zero (dead), for each primitive.

An element is dead if the program can't propagate anything to it: a `select` took the other case, a slice left it out,
it is padding, a masked reduction skipped it. It is zero for any point and any cotangents of the results, and so are its
derivatives. This is a property of the program's structure: an element that only happens to be zero is live.

A rule takes the operands of an equation of a backward pass with the liveness of each, and returns results with their
liveness. Movement rules apply the primitive to the liveness array itself, so that zeros which it fills in are dead.
Products and quotients by values of the point are set to 0 where the cotangent is dead, whatever these values are.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from pellucid._machine.base import Ints, PellucidError, dtypes, strict_zip
from pellucid._machine.ir import (
    Avals,
    Literal,
    Operands,
    Primitive,
    Results,
    ShapedArray,
    Var,
    registry,
)
from pellucid._machine.primitives import (
    GatherScatterMode,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    broadcast_in_dim,
    broadcast_to,
    convert_element_type,
    expand_dims,
    filled,
    full,
    full_as,
    gt,
    reduce_or,
    select_n,
    squeeze,
    transpose,
)
from pellucid._machine.sharding.explicit_types import rule_of
from pellucid._machine.tracing import (
    StagingTracer,
    bind,
    bind1,
    context,
    plumbing,
    type_of,
    use_trace,
)


class Known(enum.Enum):
    """Liveness shared by all elements of a value in a backward pass."""

    LIVE = "live"
    """It depends on cotangents, and no element is known to be dead."""
    DEAD = "dead"
    """It depends on cotangents, and all elements are dead."""
    ZERO = "zero"
    """It is a constant zero; combined with cotangents, its elements are dead."""


LIVE, DEAD, ZERO = Known.LIVE, Known.DEAD, Known.ZERO


class Elements:
    """The live elements of a value, as a boolean array that is computed on first use.

    The array only has the dimensions `dims` of the value along which liveness differs, in order; None for all
    dimensions.
    """

    __slots__ = ("_array", "_compute", "_trace", "_whole", "dims", "lines", "moves")

    def __init__(self, compute: Callable[[], Any], dims: Ints | None = None) -> None:
        self._compute: Callable[[], Any] | None = compute
        self._trace = context.trace
        self._array: Any = None
        self._whole: dict[Any, Any] = {}
        self.dims = None if dims is None else tuple(dims)
        self.lines: dict[Any, Elements] = {}
        """Cache of the liveness of reductions of this value, by reduced dimensions."""
        self.moves: dict[tuple[int, ...], Elements] = {}
        """Cache of this liveness with dimensions moved, by their new places."""

    def array(self) -> Any:
        """True for live elements, with dimensions `dims`."""
        if self._compute is not None:
            with use_trace(self._trace), plumbing("masked"):
                self._array = self._compute()
            self._compute = None
        return self._array

    def along(self, ndim: int) -> tuple[int, ...]:
        """`dims` for a value with `ndim` dimensions."""
        return tuple(range(ndim)) if self.dims is None else self.dims

    def whole(self, x: Any) -> Any:
        """True for live elements, with the shape and sharding of the value `x`."""
        if self.dims is None or len(self.dims) == type_of(x).ndim:
            return self.array()
        aval = type_of(x)
        key = aval.shape, aval.shown_sharding
        if key not in self._whole:
            with use_trace(self._trace), plumbing("masked"):
                self._whole[key] = _repeated(self.array(), self.dims, x)
        return self._whole[key]


def _repeated(array: Any, dims: Ints, x: Any) -> Any:
    """Broadcasts `array`, whose dimensions are `dims` of `x`, to the shape and sharding of `x`."""
    aval = type_of(x)
    if len(dims) == aval.ndim:
        return array
    return broadcast_in_dim(array, aval.shape, tuple(dims), out_sharding=aval.shown_sharding)


Liveness: TypeAlias = Known | Elements | None
"""Liveness of a value; None for a value that doesn't depend on cotangents."""
Rule: TypeAlias = Callable[
    [Primitive, Operands, Sequence[Liveness], Any], tuple[Results, Sequence[Liveness]]
]
"""(primitive, operands, their liveness, params) -> (results, their liveness)."""
ElementwiseRule: TypeAlias = Callable[
    [Primitive, Operands, Sequence[Liveness], Any], tuple[Results, Sequence[Liveness], bool]
]
"""Like `Rule`, and also returns whether dead elements of the results may have any value: products with values of the
point.
"""


def is_cotangent(live: Liveness) -> bool:
    """Whether a value with this liveness depends on cotangents."""
    return live is not None and live is not ZERO


def is_dead(live: Liveness) -> bool:
    """Whether all elements of a value with this liveness are dead, once combined with cotangents."""
    return live is DEAD or live is ZERO


def known_array(array: Any) -> Elements:
    """Liveness given by `array`, True for live elements."""
    return Elements(lambda: array)


def is_maskable(x: Any) -> bool:
    """Whether `x` is an array of numbers, whose elements may be dead."""
    aval = type_of(x)
    return type(aval) is ShapedArray and dtypes.is_inexact(aval.dtype)


def array_of(live: Liveness, x: Any) -> Any:
    """Boolean array of the live elements of `x` with liveness `live`."""
    if isinstance(live, Elements):
        return live.whole(x)
    return filled(type_of(x).update(dtype=np.dtype(bool), weak_type=False), not is_dead(live))


def guarded(live: Liveness, x: Any) -> Any:
    """`x` with its dead elements set to 0."""
    if is_dead(live):
        return full_as(x, 0)
    if not isinstance(live, Elements) or not dtypes.is_inexact(type_of(x).dtype):
        return x
    return select_n(live.array() if live.dims == () else live.whole(x), full_as(x, 0), x)


def either(a: Liveness, b: Liveness, x: Any) -> Liveness:
    """Liveness of a sum `x`: an element is live if one of the terms is."""
    if is_dead(a):
        return b if is_cotangent(b) or b is None else DEAD
    if is_dead(b):
        return a
    if isinstance(a, Elements) and isinstance(b, Elements):
        return _combined(bitwise_or, a, b, x)
    return LIVE


def both(a: Liveness, b: Liveness, x: Any) -> Liveness:
    """Liveness of a product `x`: an element is live if both factors are."""
    if is_dead(a) or is_dead(b):
        return DEAD
    if isinstance(a, Elements) and isinstance(b, Elements):
        return _combined(bitwise_and, a, b, x)
    return a if isinstance(a, Elements) else b if isinstance(b, Elements) else LIVE


def _combined(combine: Callable[[Any, Any], Any], a: Elements, b: Elements, x: Any) -> Elements:
    if a is b:
        return a
    aval = type_of(x)
    ours, theirs = a.along(aval.ndim), b.along(aval.ndim)
    if ours == theirs:
        return Elements(lambda: combine(a.array(), b.array()), ours)
    dims = sorted({*ours, *theirs})
    if aval.shown_sharding is not None or len(dims) == aval.ndim:
        return Elements(lambda: combine(a.whole(x), b.whole(x)))

    def on_dims(live: Elements, own: Ints) -> Any:
        shape = tuple([aval.shape[d] for d in dims])
        return broadcast_in_dim(live.array(), shape, tuple([dims.index(d) for d in own]))

    return Elements(lambda: combine(on_dims(a, ours), on_dims(b, theirs)), dims)


def fitted(live: Liveness, x: Any, result: Any) -> Liveness:
    """Liveness of `x` after broadcasting it to the shape of `result`."""
    shape = type_of(result).shape
    if not isinstance(live, Elements) or type_of(x).shape == shape:
        return live
    return Elements(lambda: broadcast_to(live.whole(x), shape))


def any_along(live: Elements, axes: Iterable[int], ndim: int) -> Elements:
    """Liveness of a value of `ndim` dimensions after reducing `axes`: live if any reduced element is. Its `dims`
    are numbered as before the reduction.
    """
    dims, axes = live.along(ndim), {*axes}
    gone = tuple([i for i, d in enumerate(dims) if d in axes])
    if not gone and live.dims is not None:
        return live
    if gone not in live.lines:
        kept = [d for d in dims if d not in axes]
        live.lines[gone] = Elements(
            lambda: reduce_or(live.array(), gone) if gone else live.array(), kept
        )
    return live.lines[gone]


def moved_to(live: Elements, place: Mapping[int, int]) -> Elements:
    """`live` with its dimensions moved to `place` of another value."""
    assert live.dims is not None
    at = tuple([place[d] for d in live.dims])
    if at == live.dims:
        return live
    if at not in live.moves:
        order = sorted(range(len(at)), key=at.__getitem__)
        is_same = order == [*range(len(at))]
        array = live.array if is_same else lambda: transpose(live.array(), order)
        live.moves[at] = Elements(array, sorted(at))
    return live.moves[at]


def is_zero(x: Any) -> bool:
    """Whether `x` is the number zero."""
    return _is_number(x) and x == 0


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float, complex, np.generic)) or (
        type(x) is np.ndarray and not x.ndim
    )


def is_finite(x: Any) -> bool:
    """Whether the value of the point `x` is known to be finite while tracing."""
    if _is_number(x):
        return bool(np.isfinite(x))
    if not dtypes.is_inexact(type_of(x).dtype):
        return True
    equation = x.equation if type(x) is StagingTracer else None
    if equation is None or equation.primitive.name not in (
        "convert_element_type",
        "broadcast_in_dim",
    ):
        return False
    [operand] = equation.operands
    if type(operand) is Literal:
        return is_finite(operand.val)
    return not dtypes.is_inexact(operand.aval.dtype)  # type: ignore[attr-defined]


def unknown(results: Results) -> tuple[Results, Sequence[Liveness]]:
    """Results that depend on cotangents, without elements known to be dead."""
    return results, [LIVE if is_maskable(x) else None for x in results]


def whole(
    operands: Operands, lives: Sequence[Liveness], results: Results
) -> tuple[Results, Sequence[Liveness]]:
    """Results that are jointly linear in `operands`: all dead if the operands are dead, else live."""
    if all(map(is_dead, lives)):
        return [full_as(x, 0) for x in results], [DEAD] * len(results)
    if any(live is LIVE or live is None for live in lives):
        return results, [LIVE] * len(results)

    known: Liveness = DEAD
    for x, live in strict_zip(operands, lives):
        if isinstance(live, Elements):
            known = either(known, any_along(live, range(type_of(x).ndim), type_of(x).ndim), x)
    return [guarded(known, x) for x in results], [known] * len(results)


# Rules ------------------------------------------------------------------------------------------------


def same_elements(
    primitive: Primitive, operands: Operands, lives: Sequence[Liveness], params: Any
) -> tuple[Results, Sequence[Liveness]]:
    """Each result is as live as the operand at its index, or the first one."""
    results = bind(primitive, *operands, params=params)
    return results, [*lives] if len(results) == len(lives) > 1 else [lives[0]] * len(results)


def moved(
    primitive: Primitive, operands: Operands, lives: Sequence[Liveness], params: Any
) -> tuple[Results, Sequence[Liveness]]:
    """Elements of the first operand (or zeros), rearranged as the other operands and the params specify."""
    results = bind(primitive, *operands, params=params)
    [live, *others] = lives
    fill = _fill_value(primitive, params)
    if any(map(is_cotangent, others)) or fill:
        return results, [LIVE] * len(results)
    if is_dead(live) or (live is LIVE and fill is None):
        return results, [live] * len(results)
    place = _place(primitive, type_of(operands[0]), params)
    if place is not None and isinstance(live, Elements):
        ndim = type_of(operands[0]).ndim
        return results, [moved_to(any_along(live, (), ndim), place)]
    # The liveness arrays of all results come from one equation.
    arrays: Any = Elements(
        lambda: bind(primitive, array_of(live, operands[0]), *operands[1:], params=params)
    )
    return results, [Elements(lambda i=i: arrays.array()[i]) for i in range(len(results))]


def _place(primitive: Primitive, aval: Any, params: Any) -> dict[int, int] | None:
    """Maps the dimensions of an operand to those of the result, if the primitive does only that; else None."""
    if aval.shown_sharding is not None:
        return None
    if primitive.name == "transpose":
        return {d: i for i, d in enumerate(params.permutation)}
    if primitive.name == "broadcast_in_dim":
        dims: Sequence[int] = params.broadcast_dimensions
        place = dict(enumerate(dims))
        if all(params.shape[j] == aval.shape[d] for d, j in place.items()):
            return place
    return None


def _fill_value(primitive: Primitive, params: Any) -> Any:
    """The value of result elements that don't come from an operand; None if there are none."""
    if primitive.name == "gather" and params.mode is GatherScatterMode.FILL_OR_DROP:
        return np.nan if params.fill_value is None else params.fill_value
    # A position that receives from nobody gets zeros.
    return 0 if primitive.name == "ppermute" else None


def assembled(
    primitive: Primitive, operands: Operands, lives: Sequence[Liveness], params: Any
) -> tuple[Results, Sequence[Liveness]]:
    """Elements of several operands: all those in which the primitive is linear, since it only moves them."""
    results = bind(primitive, *operands, params=params)
    passive = primitive.traits.passive_operands(len(operands))
    if any(is_cotangent(lives[i]) for i in passive):
        return results, [LIVE]
    known = [
        ZERO if live is None and is_zero(x) else live
        for i, (x, live) in enumerate(strict_zip(operands, lives))
        if i not in passive
    ]
    if all(live is ZERO for live in known):
        return results, [ZERO]
    if not any(map(is_cotangent, known)):
        return results, [None]
    if all(map(is_dead, known)):
        return results, [DEAD]
    if not any(is_dead(live) or isinstance(live, Elements) for live in known):
        return results, [LIVE]

    def arranged() -> Any:
        rest = iter(known)
        arrays = [x if i in passive else array_of(next(rest), x) for i, x in enumerate(operands)]
        return bind1(primitive, *arrays, params=params)

    return results, [Elements(arranged)]


def counted(
    primitive: Primitive, operands: Operands, lives: Sequence[Liveness], params: Any
) -> tuple[Results, Sequence[Liveness]]:
    """Sums of elements of the linear operands: a result element is live if some of its terms are."""
    results = bind(primitive, *operands, params=params)
    passive = primitive.traits.passive_operands(len(operands))
    if any(is_cotangent(lives[i]) for i in passive):
        return results, [LIVE] * len(results)
    known = [live for i, live in enumerate(lives) if i not in passive]
    if all(map(is_dead, known)):
        return results, [DEAD] * len(results)
    if not any(is_dead(live) or isinstance(live, Elements) for live in known):
        return results, [LIVE] * len(results)
    counting = registry["scatter-add"] if primitive.name == "scatter-sub" else primitive

    # For `select_and_gather` and similar, liveness numbers have the dtype of the compared windows.
    compared = [type_of(operands[i]).dtype for i in passive] if "select" in primitive.name else ()
    dtype = compared[0] if compared else np.dtype(np.int32)

    def count(i: int) -> Any:
        numbers = [
            x if j in passive else convert_element_type(array_of(live, x), dtype)
            for j, (x, live) in enumerate(strict_zip(operands, lives))
        ]
        counts = bind(counting, *numbers, params=params)[i]
        return gt(counts, full_as(counts, 0))

    return results, [Elements(lambda i=i: count(i)) for i in range(len(results))]


def summed(
    primitive: Primitive, operands: Operands, lives: Sequence[Liveness], params: Any
) -> tuple[Results, Sequence[Liveness]]:
    """Sums along axes."""
    results = bind(primitive, *operands, params=params)
    [live], ndim = lives, type_of(operands[0]).ndim
    if not isinstance(live, Elements):
        return results, [live]
    kept = [d for d in range(ndim) if d not in params.axes]
    place = {d: i for i, d in enumerate(kept)}
    return results, [moved_to(any_along(live, params.axes, ndim), place)]


def added(
    primitive: Primitive, operands: Operands, lives: Sequence[Liveness], params: Any
) -> tuple[Results, Sequence[Liveness]]:
    """Elementwise sums of two operands."""
    [result] = bind(primitive, *operands, params=params)
    # A number that doesn't depend on cotangents makes elements live, unless it is zero.
    a, b = [
        ZERO if live is None and is_zero(x) else fitted(live, x, result)
        for x, live in strict_zip(operands, lives)
    ]
    return [result], [ZERO if a is b is ZERO else either(a, b, result)]


def multiplied(
    primitive: Primitive, operands: Operands, lives: Sequence[Liveness], params: Any
) -> tuple[Results, Sequence[Liveness], bool]:
    """Products in which at least one factor depends on cotangents."""
    [result] = bind(primitive, *operands, params=params)
    a, b = [fitted(live, x, result) for x, live in strict_zip(operands, lives)]
    live = both(a, b, result)
    others = [x for x, of_it in strict_zip(operands, lives) if not is_cotangent(of_it)]
    is_safe = isinstance(live, Elements) and len(others) == 1 and is_finite(others[0])
    return _unless_dead(result, live, is_safe)


def _unless_dead(
    result: Any, live: Liveness, is_safe: bool
) -> tuple[Results, Sequence[Liveness], bool]:
    """A product; its dead elements may have any value, unless it `is_safe`."""
    if not isinstance(live, Elements):
        return [guarded(live, result)], [live], False
    return [result], [live], not is_safe


def divided(
    primitive: Primitive, operands: Operands, lives: Sequence[Liveness], params: Any
) -> tuple[Results, Sequence[Liveness], bool]:
    """Quotients: as live as the dividend."""
    [result] = bind(primitive, *operands, params=params)
    if is_cotangent(lives[1]) or not is_cotangent(lives[0]):
        return [result], [LIVE], False
    divisor, live = operands[1], fitted(lives[0], operands[0], result)
    is_safe = isinstance(live, Elements) and _is_number(divisor) and is_finite(divisor)
    return _unless_dead(result, live, is_safe and divisor != 0)


def selected(
    primitive: Primitive, operands: Operands, lives: Sequence[Liveness], params: Any
) -> tuple[Results, Sequence[Liveness]]:
    """Elementwise selection by the first operand, `which`, among several cases."""
    [result] = bind(primitive, *operands, params=params)
    which, *cases = operands
    known = [
        ZERO if live is None and is_zero(x) else live for x, live in strict_zip(cases, lives[1:])
    ]
    if not any(map(is_cotangent, known)):
        return [result], [ZERO if all(live is ZERO for live in known) else None]
    if all(map(is_dead, known)):
        return [result], [DEAD]
    if not any(is_dead(live) or isinstance(live, Elements) for live in known):
        return [result], [LIVE]
    if type_of(which).dtype == np.bool_ and len(known) == 2:
        off, on = known
        chooses = _choosing(which)
        if is_dead(off):
            return [result], [both(chooses, on, result)]
        if is_dead(on):
            is_off = Elements(lambda: bitwise_not(chooses.array()), chooses.dims)
            return [result], [both(is_off, off, result)]
    chosen = lambda: select_n(which, *(array_of(live, x) for x, live in strict_zip(cases, known)))
    return [result], [Elements(chosen)]


def _is_of(trace: Any, x: Any) -> bool:
    return x._trace is trace


def _choosing(which: Any) -> Elements:
    """The boolean array `which` before it was broadcast, if the program shows that."""
    if not type_of(which).ndim:
        return Elements(lambda: which, ())
    trace = context.trace
    equation = which.equation if type(which) is StagingTracer else None
    if equation is not None and equation.primitive.name == "broadcast_in_dim":
        [operand] = equation.operands
        place = _place(equation.primitive, operand.aval, equation.params)
        if type(operand) is Var and place is not None and _is_of(trace, which):
            return Elements(lambda: StagingTracer(trace, operand, None), [*place.values()])
    return known_array(which)


def by_factors(
    primitive: Primitive, operands: Operands, lives: Sequence[Liveness], params: Any
) -> tuple[Results, Sequence[Liveness]]:
    """Any linear primitive: a result element is live if an element that it may depend on, by the factors of the
    primitive, is.

    In a product that sums along a dimension, such as a matrix product, elements that only meet dead ones may have any
    value.
    """
    avals = [type_of(x) for x in operands]
    linear = primitive.traits.linear_for(avals, params)
    passive = primitive.traits.passive_operands(len(operands))
    active = (
        linear
        if isinstance(linear, tuple)
        else tuple([i for i in range(len(operands)) if i not in passive])
    )
    known = [lives[i] for i in active]
    is_known = linear is not None and not any(
        is_cotangent(live) for i, live in enumerate(lives) if i not in active
    )
    # A sum is dead if all terms are, a product if one factor is.
    is_product = linear == "each"
    if not is_known or not any(is_dead(x) or isinstance(x, Elements) for x in known):
        results = bind(primitive, *operands, params=params)
        return unknown(results)
    result_avals = primitive.types(tuple(avals), params)[0]
    places = Places(primitive, avals, result_avals, params)
    if is_product and len(active) == 2:
        operands = _without_dead_lines(operands, lives, places)
    results = bind(primitive, *operands, params=params)
    if any(map(is_dead, known)) if is_product else all(map(is_dead, known)):
        return [full_as(x, 0) for x in results], [DEAD] * len(results)
    if not is_product and any(x is LIVE or x is None for x in known):
        return results, [LIVE] * len(results)
    join = both if is_product else either
    new_lives: list[Liveness] = []
    for position, result in enumerate(results):
        known_of_it: Liveness = LIVE if is_product else DEAD
        for i in active:
            live = lives[i]
            if isinstance(live, Elements):
                known_of_it = join(known_of_it, places.in_result(live, i, position), result)
        new_lives.append(known_of_it)
    if linear != "all" and not is_product:
        # Multiplication by a value of the point (NaN, infinity) may turn zeros into other values.
        results = [guarded(live, x) for live, x in strict_zip(new_lives, results)]
    return results, new_lives


class Places:
    """Dimensions of operands and results of an equation that belong to the same loop with independent iterations."""

    def __init__(self, primitive: Primitive, avals: Avals, results: Avals, params: Any) -> None:
        self.avals, self.results = avals, results
        try:
            factors = primitive.factors(avals, results, params)
        except PellucidError:
            factors = None
        self.rule = None if factors is None else rule_of(factors)

    def _named(self, dims: Sequence[Sequence[str]], aval: Any) -> dict[str, int]:
        """Factors of the dimensions of an array that consist of one factor each and are independent."""
        marks: Any = {} if self.rule is None else self.rule.marks
        return {
            dim[0]: d
            for d, dim in enumerate(dims)
            if len(dim) == 1 and not {"!", "~"} & {*marks.get(dim[0], "")}
        }

    def of_operand(self, i: int) -> dict[str, int]:
        """Maps factors to dimensions of an operand."""
        return {} if self.rule is None else self._named(self.rule.operands[i], self.avals[i])

    def in_result(self, live: Elements, operand: int, result: int) -> Elements:
        """Elements of a result that depend on live elements of an operand."""
        if self.rule is None:
            ndim = self.avals[operand].ndim
            return any_along(live, range(ndim), ndim)
        targets = self._named(self.rule.results[result], self.results[result])
        return self._along(live, operand, targets, self.results[result])

    def in_other(self, live: Elements, operand: int, other: int) -> Elements | None:
        """Elements of operand `other` that are combined with live elements of `operand`; None if unknown."""
        targets = self.of_operand(other)
        if not self.of_operand(operand).keys() & targets.keys():
            return None
        return self._along(live, operand, targets, self.avals[other])

    def _along(self, live: Elements, operand: int, targets: dict[str, int], aval: Any) -> Elements:
        shape = self.avals[operand].shape
        # From dimensions of the operand to those of the other array.
        place = {d: targets[f] for f, d in self.of_operand(operand).items() if f in targets}
        place = {d: j for d, j in place.items() if shape[d] == aval.shape[j]}
        gone = [d for d in range(len(shape)) if d not in place]
        return moved_to(any_along(live, gone, len(shape)), place)


def _without_dead_lines(operands: Operands, lives: Sequence[Liveness], places: Places) -> list[Any]:
    """The two operands of a product, each set to 0 where it only meets dead elements of the other one."""
    operands = [*operands]
    for i, live in enumerate(lives[:2]):
        if isinstance(live, Elements) and not is_finite(operands[1 - i]):
            lines = places.in_other(live, i, 1 - i)
            if lines is not None:
                operands[1 - i] = guarded(lines, operands[1 - i])
    return operands


def convolved(
    primitive: Primitive, operands: Operands, lives: Sequence[Liveness], params: Any
) -> tuple[Results, Sequence[Liveness]]:
    """Convolutions: an element is live if its window contains a live one."""
    results, out_lives = by_factors(primitive, operands, lives, params)
    live, of_kernel = lives
    is_plain = params.feature_group_count == params.batch_group_count == 1
    if not isinstance(live, Elements) or is_cotangent(of_kernel) or not is_plain:
        return results, out_lives
    [result], numbers = results, params.dimension_numbers
    image, kernel = (type_of(x) for x in operands)

    def live_windows() -> Any:
        # Computed as one convolution with a single feature: any feature of the image, all of the kernel's window.
        feature = numbers.lhs_spec[1]
        array = reduce_or(live.whole(operands[0]), (feature,))
        array = expand_dims(convert_element_type(array, image.dtype), (feature,))
        sizes = [1 if d in numbers.rhs_spec[:2] else size for d, size in enumerate(kernel.shape)]
        window = full(sizes, 1, kernel.dtype)
        [counts] = bind(primitive, array, window, params=params)
        live_one = gt(counts, full_as(counts, 0))
        return squeeze(live_one, (out,))

    out = numbers.out_spec[1]
    return results, [Elements(live_windows, [d for d in range(type_of(result).ndim) if d != out])]


def scaled(
    primitive: Primitive, operands: Operands, lives: Sequence[Liveness], params: Any
) -> tuple[Results, Sequence[Liveness]]:
    """Elements of the first operand, some of them multiplied by values of the point."""
    results = bind(primitive, *operands, params=params)
    live, *others = lives
    if any(map(is_cotangent, others)):
        return results, [LIVE] * len(results)
    return [guarded(live, x) for x in results], [live] * len(results)


RULES: dict[str, Rule] = {}


def _rule(rule: Rule, names: str) -> None:
    for name in names.split():
        RULES[name] = rule


_rule(
    same_elements,
    "neg convert_element_type reduce_precision real imag conj copy copy_p stop_gradient name",
)
_rule(same_elements, "optimization_barrier")
_rule(
    moved,
    "reshape transpose rev broadcast_in_dim squeeze slice split unstack tile gather dynamic_slice stage",
)
_rule(moved, "device_put sharding_constraint reshard layout_constraint pvary")
_rule(moved, "all_gather all_gather_invariant ppermute pbroadcast all_to_all")
_rule(assembled, "pad concatenate stack dynamic_update_slice scatter")
_rule(
    counted, "scatter-add scatter-sub cumsum reduce_window_sum psum psum_invariant reduce_scatter"
)
_rule(counted, "select_and_scatter_add select_and_gather_add")
_rule(summed, "reduce_sum")
_rule(added, "add_any add sub complex")
_rule(selected, "select_n")
_rule(convolved, "conv_general_dilated")
_rule(scaled, "scatter-mul")


def rule_for(primitive: Primitive) -> ElementwiseRule:
    """The rule of `primitive`, by default derived from its factors; also returns whether dead elements may have any
    value.
    """
    if primitive.name in PRODUCTS:
        return PRODUCTS[primitive.name]
    rule = RULES.get(primitive.name, by_factors)

    def keeping_zeros(
        primitive: Primitive, operands: Operands, lives: Sequence[Liveness], params: Any
    ) -> tuple[Results, Sequence[Liveness], bool]:
        return (*rule(primitive, operands, lives, params), False)

    return keeping_zeros


PRODUCTS: dict[str, ElementwiseRule] = {"mul": multiplied, "div": divided}
_ELEMENTWISE = frozenset(
    ("mul", "div", "neg", "convert_element_type", "select_n", "add_any", "add", "sub")
)


def keeps_to_elements(
    primitive: Primitive, operands: Operands, lives: Sequence[Liveness], params: Any
) -> bool:
    """Whether each live element of a result only depends on live elements."""
    name = primitive.name
    if name not in _ELEMENTWISE or not all(
        dtypes.is_inexact(type_of(x).dtype) for x in operands[-1:]
    ):
        return False
    if name == "convert_element_type":
        return dtypes.is_inexact(params.new_dtype)
    if name == "div":
        return not is_cotangent(lives[1])
    if name in ("add_any", "add", "sub"):
        # A sum is live if one of the terms is, so the other one must be zero there.
        return lives[0] is lives[1]
    return True
