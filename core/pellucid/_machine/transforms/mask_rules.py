"""Rules of masks: which elements of a cotangent are structurally zero (dead), for each primitive.

An element is dead if the program can't propagate anything to it: a `select` took the other case, a slice left it out,
it is padding, a masked reduction skipped it. It is zero for any point and any cotangents of the results, and so are its
derivatives. This is a property of the program's structure: an element that only happens to be zero is live.

A rule takes the operands of an equation of a backward pass with the liveness of each, and returns results with their
liveness. Movement rules apply the primitive to the liveness array itself, so that zeros which it fills in are dead.
Products and quotients by values of the point are set to 0 where the cotangent is dead, whatever these values are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from pellucid._machine.base import PellucidError, dtypes, is_static, strict_zip
from pellucid._machine.ir import (
    Avals,
    Literal,
    Operands,
    Primitive,
    Results,
    ShapedArray,
    registry,
)
from pellucid._machine.primitives import (
    GatherScatterMode,
    broadcast_to,
    concatenate,
    convert_element_type,
    expand_dims,
    full,
    full_as,
    gt,
    ne,
    reduce_or,
    select_n,
    squeeze,
)
from pellucid._machine.sharding.explicit_types import rule_of
from pellucid._machine.tracing import (
    StagingTracer,
    bind,
    bind1,
    type_of,
)

from .liveness import (
    DEAD,
    LIVE,
    ZERO,
    Elements,
    Liveness,
    Part,
    any_along,
    are_same,
    array_of,
    both,
    either,
    elements,
    implies,
    is_cotangent,
    is_dead,
    merge_parts,
    move_liveness,
    opposite,
    zero_dead,
)
from .predicates import choice_liveness
from .regrouping import Group, NumPyMovements, TracedMovements, groups_of, regroup

Rule: TypeAlias = Callable[
    [Primitive, Operands, Sequence[Liveness], Any], tuple[Results, Sequence[Liveness]]
]
"""(primitive, operands, their liveness, params) -> (results, their liveness)."""
ElementwiseRule: TypeAlias = Callable[
    [Primitive, Operands, Sequence[Liveness], Any],
    tuple[Results, Sequence[Liveness], Sequence[Liveness]],
]
"""Like `Rule`, and also returns where dead elements of each result may have any value, `LIVE` for nowhere: in products
with values of the point.
"""


def is_maskable(x: Any) -> bool:
    """Whether `x` is an array of numbers, whose elements may be dead."""
    aval = type_of(x)
    return type(aval) is ShapedArray and dtypes.is_inexact(aval.dtype)


def fit_liveness(live: Liveness, x: Any, result: Any) -> Liveness:
    """Liveness of `x` after broadcasting it to the shape of `result`."""
    shape = type_of(result).shape
    if not isinstance(live, Elements) or type_of(x).shape == shape:
        return live
    return elements([Part(lambda: broadcast_to(live.whole(x), shape), range(len(shape)))])


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


# Rules ------------------------------------------------------------------------------------------------


def same_elements(
    primitive: Primitive, operands: Operands, lives: Sequence[Liveness], params: Any
) -> tuple[Results, Sequence[Liveness]]:
    """Each result is as live as the operand at its index, or the first one."""
    results = bind(primitive, *operands, params=params)
    return results, [*lives] if len(results) == len(lives) > 1 else [lives[0]] * len(results)


def movement_rule(
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
    if isinstance(live, Elements) and len(results) == 1:
        groups = groups_of(primitive, type_of(operands[0]), type_of(results[0]), params)
        if groups is not None:
            aval = type_of(operands[0])
            shape = type_of(results[0]).shape
            parts = [regroup(p, groups, primitive, aval, shape, params) for p in live.parts]
            return results, [elements(parts)]
    # The liveness arrays of all results come from one equation.
    arrays = Part(
        lambda: bind(primitive, array_of(live, operands[0]), *operands[1:], params=params), ()
    )
    is_by_value = isinstance(live, Elements) and all(p.is_by_value for p in live.parts)
    return results, [
        elements(
            [Part(lambda i=i: arrays.array()[i], range(type_of(x).ndim), is_by_value=is_by_value)]
        )
        for i, x in enumerate(results)
    ]


def _fill_value(primitive: Primitive, params: Any) -> Any:
    """The value of result elements that don't come from an operand; None if there are none."""
    if primitive.name == "gather" and params.mode is GatherScatterMode.FILL_OR_DROP:
        return np.nan if params.fill_value is None else params.fill_value
    # A position without a sender receives zeros.
    return 0 if primitive.name == "ppermute" else None


def assembly_rule(
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
    [result] = results
    if primitive.name == "pad" and is_dead(known[1]):
        groups = groups_of(primitive, type_of(operands[0]), type_of(result), params)
        if groups is not None:
            return results, [
                _pad_liveness(known[0], groups, primitive, operands[0], result, params)
            ]
    if primitive.name == "concatenate" and not any(isinstance(x, Elements) for x in known):
        aval = type_of(result)
        if aval.shown_sharding is None and is_static(aval.shape):
            return results, [_in_a_row(known, operands, params.dimension)]

    def arrange() -> Any:
        rest = iter(known)
        arrays = [x if i in passive else array_of(next(rest), x) for i, x in enumerate(operands)]
        return bind1(primitive, *arrays, params=params)

    return results, [elements([Part(arrange, range(type_of(result).ndim))])]


def _pad_liveness(
    live: Liveness,
    groups: Sequence[Group],
    primitive: Primitive,
    x: Any,
    result: Any,
    params: Any,
) -> Liveness:
    """Liveness of `x` padded with zeros."""
    aval: Any = type_of(x)
    shape = type_of(result).shape
    old = live.parts if isinstance(live, Elements) else ()
    parts = [regroup(part, groups, primitive, aval, shape, params) for part in old]
    for d, configuration in enumerate(params.padding_config):
        if configuration != (0, 0, 0):
            size: int = aval.shape[d]
            known = NumPyMovements.pad(np.ones(size, bool), [configuration])
            inside = lambda n=size, c=configuration: TracedMovements.pad(full((n,), True), [c])
            parts.append(Part(inside, (d,), known))
    return elements(parts)


def _in_a_row(lives: Sequence[Liveness], operands: Operands, d: int) -> Liveness:
    """Liveness of concatenated operands, of which each is wholly live or wholly dead."""
    sizes = [type_of(x).shape[d] for x in operands]
    known = np.repeat([not is_dead(live) for live in lives], sizes)
    row = lambda: concatenate(
        [full((n,), not is_dead(live)) for n, live in strict_zip(sizes, lives)], 0
    )
    return elements([Part(row, (d,), known)])


def linear_sum_rule(
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
    # What the maximum of a window leaves out receives nothing.
    is_chosen = primitive.name == "select_and_scatter_add"
    is_live = not any(is_dead(live) or isinstance(live, Elements) for live in known)
    if is_live and not is_chosen:
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

    return results, [
        elements(
            [Part(lambda i=i: count(i), range(type_of(x).ndim), is_by_value=is_chosen and is_live)]
        )
        for i, x in enumerate(results)
    ]


def sum_rule(
    primitive: Primitive, operands: Operands, lives: Sequence[Liveness], params: Any
) -> tuple[Results, Sequence[Liveness]]:
    """Sums along axes."""
    results = bind(primitive, *operands, params=params)
    [live], [x] = lives, operands
    kept = [d for d in range(type_of(x).ndim) if d not in params.axes]
    place = {d: i for i, d in enumerate(kept)}
    return results, [move_liveness(any_along(live, params.axes, type_of(x)), place)]


def add_rule(
    primitive: Primitive, operands: Operands, lives: Sequence[Liveness], params: Any
) -> tuple[Results, Sequence[Liveness]]:
    """Elementwise sums of two operands."""
    is_sum = primitive.name in ("add_any", "add")
    if is_sum and type_of(operands[0]) is type_of(operands[1]):
        for x, live, of_other in strict_zip(operands, lives, lives[::-1]):
            # A constant zero adds nothing, also as a product with what isn't finite.
            if of_other is ZERO and is_cotangent(live):
                return [x], [live]
    [result] = bind(primitive, *operands, params=params)
    # A number that doesn't depend on cotangents makes elements live, unless it is zero.
    a, b = [
        ZERO if live is None and is_zero(x) else fit_liveness(live, x, result)
        for x, live in strict_zip(operands, lives)
    ]
    return [result], [ZERO if a is b is ZERO else either(a, b, result)]


def product_rule(
    primitive: Primitive, operands: Operands, lives: Sequence[Liveness], params: Any
) -> tuple[Results, Sequence[Liveness], Sequence[Liveness]]:
    """Products in which at least one factor depends on cotangents."""
    [result] = bind(primitive, *operands, params=params)
    a, b = [fit_liveness(live, x, result) for x, live in strict_zip(operands, lives)]
    live = both(a, b)
    others = [x for x, of_it in strict_zip(operands, lives) if not is_cotangent(of_it)]
    is_safe = isinstance(live, Elements) and len(others) == 1 and is_finite(others[0])
    return _unless_dead(result, live, is_safe)


def _unless_dead(
    result: Any, live: Liveness, is_safe: bool
) -> tuple[Results, Sequence[Liveness], Sequence[Liveness]]:
    """A product; its dead elements may have any value, unless it `is_safe`."""
    if not isinstance(live, Elements):
        return [zero_dead(live, result)], [live], [LIVE]
    return [result], [live], [LIVE if is_safe else live]


def quotient_rule(
    primitive: Primitive, operands: Operands, lives: Sequence[Liveness], params: Any
) -> tuple[Results, Sequence[Liveness], Sequence[Liveness]]:
    """Quotients: as live as the dividend."""
    [result] = bind(primitive, *operands, params=params)
    if is_cotangent(lives[1]) or not is_cotangent(lives[0]):
        return [result], [LIVE], [LIVE]
    divisor, live = operands[1], fit_liveness(lives[0], operands[0], result)
    is_safe = isinstance(live, Elements) and _is_number(divisor) and is_finite(divisor)
    return _unless_dead(result, live, is_safe and divisor != 0)


def selection_rule(
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
        chosen = choice_liveness(which)
        of_off = DEAD if is_dead(off) else both(opposite(chosen, which), off)
        return [result], [either(of_off, both(chosen, on), result)]
    arrays = lambda: select_n(which, *(array_of(live, x) for x, live in strict_zip(cases, known)))
    return [result], [elements([Part(arrays, range(type_of(result).ndim))])]


def only_case(
    primitive: Primitive, values: Operands, lives: Sequence[Liveness]
) -> tuple[int, Liveness] | None:
    """For a `select` of two cases, of which one is zero and the other one a cotangent of the same type as the result:
    (its index among the operands, where it is taken).
    """
    if primitive.name != "select_n" or len(values) != 3:
        return None
    which, *cases = values
    if type_of(which).dtype != np.bool_ or type_of(cases[0]) is not type_of(cases[1]):
        return None
    is_nothing = [
        is_dead(live) or (live is None and is_zero(x)) for x, live in strict_zip(cases, lives[1:])
    ]
    if all(is_nothing) or not any(is_nothing):
        return None
    i = 1 + is_nothing.index(False)
    if not is_cotangent(lives[i]):
        return None
    chosen = choice_liveness(which)
    return i, chosen if i == 2 else opposite(chosen, which)


def by_factors(
    primitive: Primitive, operands: Operands, lives: Sequence[Liveness], params: Any
) -> tuple[Results, Sequence[Liveness], Sequence[Liveness]]:
    """Any linear primitive: a result element is live if an element that it may depend on, by the factors of the
    primitive, is.

    In a product that sums along a dimension, such as a matrix product, elements that only meet dead ones may have any
    value, and so may dead elements of its results until they are used.
    """
    return _by_words(primitive, operands, lives, params, None)


def _by_words(
    primitive: Primitive, operands: Operands, lives: Sequence[Liveness], params: Any, words: Any
) -> tuple[Results, Sequence[Liveness], Sequence[Liveness]]:
    """`by_factors`, of factors that `words` name, None for those of the primitive."""
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
        return (*unknown(results), [LIVE] * len(results))
    result_avals = primitive.types(tuple(avals), params)[0]
    places = Places(primitive, avals, result_avals, params, words)
    if is_product and len(active) == 2:
        operands = _without_dead_lines(operands, lives, places)
    results = bind(primitive, *operands, params=params)
    if any(map(is_dead, known)) if is_product else all(map(is_dead, known)):
        return [full_as(x, 0) for x in results], [DEAD] * len(results), [LIVE] * len(results)
    if not is_product and any(x is LIVE or x is None for x in known):
        return results, [LIVE] * len(results), [LIVE] * len(results)
    new_lives: list[Liveness] = []
    for position, result in enumerate(results):
        known_of_it: Liveness = LIVE if is_product else DEAD
        for i in active:
            live = lives[i]
            if isinstance(live, Elements):
                there = places.in_result(live, i, position)
                known_of_it = (
                    both(known_of_it, there) if is_product else either(known_of_it, there, result)
                )
        new_lives.append(known_of_it)
    if linear != "all" and not is_product:
        # Multiplication by a value of the point (NaN, infinity) may turn zeros into other values.
        results = [zero_dead(live, x) for live, x in strict_zip(new_lives, results)]
    due: list[Liveness] = [LIVE] * len(results)
    for i in active if is_product else ():
        live = lives[i]
        if isinstance(live, Elements) and not all(
            map(is_finite, [x for j, x in enumerate(operands) if j != i])
        ):
            # Lines that only the sum runs over met zeros already; what is one for the whole operand did not.
            summed_over = places.summed_dims(i)
            parts = [p for p in live.parts if not (p.dims and summed_over.issuperset(p.dims))]
            due = [both(x, _there(places, parts, i, n)) for n, x in enumerate(due)]
    return results, new_lives, due


def _there(places: Places, parts: Sequence[Part], operand: int, result: int) -> Liveness:
    live = elements(parts)
    return places.in_result(live, operand, result) if isinstance(live, Elements) else live


class Places:
    """Dimensions of operands and results of an equation that belong to the same loop with independent iterations."""

    def __init__(
        self, primitive: Primitive, avals: Avals, results: Avals, params: Any, words: Any = None
    ) -> None:
        self.avals, self.results = avals, results
        try:
            factors = primitive.factors(avals, results, params) if words is None else words
        except PellucidError:
            factors = None
        self.rule = None if factors is None else rule_of(factors)

    def _named_factors(self, dims: Sequence[Sequence[str]], aval: Any) -> dict[str, int]:
        """Factors of the dimensions of an array that consist of one factor each and are independent."""
        marks: Any = {} if self.rule is None else self.rule.marks
        return {
            dim[0]: d
            for d, dim in enumerate(dims)
            if len(dim) == 1 and not {"!", "~"} & {*marks.get(dim[0], "")}
        }

    def of_operand(self, i: int) -> dict[str, int]:
        """Maps factors to dimensions of an operand."""
        return (
            {} if self.rule is None else self._named_factors(self.rule.operands[i], self.avals[i])
        )

    def in_result(self, live: Elements, operand: int, result: int) -> Liveness:
        """Elements of a result that depend on live elements of an operand."""
        if self.rule is None:
            aval = self.avals[operand]
            return any_along(live, range(aval.ndim), aval)
        targets = self._named_factors(self.rule.results[result], self.results[result])
        return self._along(live, operand, targets, self.results[result])

    def summed_dims(self, operand: int) -> set[int]:
        """Dimensions of an operand without a dimension of the first result that has the same single factor."""
        rule, own = self.rule, self.of_operand(operand)
        kept = {} if rule is None else self._named_factors(rule.results[0], self.results[0])
        return {*range(self.avals[operand].ndim)} - {d for f, d in own.items() if f in kept}

    def in_other(self, live: Liveness, operand: int, other: int) -> Liveness:
        """Elements of operand `other` that are combined with live elements of `operand`."""
        targets = self.of_operand(other)
        if not isinstance(live, Elements) or not self.of_operand(operand).keys() & targets.keys():
            return LIVE
        return self._along(live, operand, targets, self.avals[other])

    def _along(self, live: Elements, operand: int, targets: dict[str, int], aval: Any) -> Liveness:
        shape = self.avals[operand].shape
        # From dimensions of the operand to those of the other array.
        place = {d: targets[f] for f, d in self.of_operand(operand).items() if f in targets}
        place = {d: j for d, j in place.items() if shape[d] == aval.shape[j]}
        gone = [d for d in range(len(shape)) if d not in place]
        return move_liveness(any_along(live, gone, self.avals[operand]), place)


def _without_dead_lines(operands: Operands, lives: Sequence[Liveness], places: Places) -> list[Any]:
    """The two operands of a product, each set to 0 where it only meets dead elements of the other one.

    Along dimensions of the result that isn't needed: what meets dead elements there are dead elements of the result.
    """
    operands = [*operands]
    for i, live in enumerate(lives[:2]):
        if isinstance(live, Elements) and not is_finite(operands[1 - i]):
            summed_over = places.summed_dims(i)
            of_lines = [p for p in live.parts if not p.is_by_value]
            parts = [p for p in of_lines if not summed_over.isdisjoint(p.dims)]
            # Others say which elements of these count for a line.
            their_dims = {d for p in parts for d in p.dims}
            parts = [p for p in of_lines if not their_dims.isdisjoint(p.dims)]
            lines = places.in_other(elements(parts), i, 1 - i)
            operands[1 - i] = zero_dead(lines, operands[1 - i])
    return operands


def convolution_rule(
    primitive: Primitive, operands: Operands, lives: Sequence[Liveness], params: Any
) -> tuple[Results, Sequence[Liveness], Sequence[Liveness]]:
    """Convolutions: an element is live if its window contains a live one."""
    operands = _without_dead_windows(primitive, operands, lives, params)
    has_groups, numbers = _has_groups(params), params.dimension_numbers
    words = None if has_groups else _convolution_words(numbers)
    results, out_lives, due = _by_words(primitive, operands, lives, params, words)
    live, of_kernel = lives
    if not isinstance(live, Elements) or is_cotangent(of_kernel):
        return results, out_lives, due
    [result] = results
    image, kernel = (type_of(x) for x in operands)
    lines = [p for p in live.parts if not p.is_by_value]
    by_place = [p for p in lines if not {*p.dims}.isdisjoint(numbers.lhs_spec[2:])]
    # Elements of a window that the parts without places in the image leave out are left out of all windows, without
    # groups; then any feature of the image stands for all, and one of the kernel.
    parts, merged, single = by_place, numbers.lhs_spec[1:2], numbers.rhs_spec[:2]
    out = numbers.out_spec[1:2]
    if has_groups:
        parts, merged, single, out = lines, (), (), ()
    if not parts:
        return results, out_lives, due
    part = merge_parts(parts, image)

    def live_windows() -> Any:
        array = _as_numbers(part, image, merged)
        sizes = [1 if d in single else size for d, size in enumerate(kernel.shape)]
        window = full(sizes, 1, kernel.dtype)
        [counts] = bind(primitive, array, window, params=params)
        return squeeze(ne(counts, full_as(counts, 0)), out)

    windows = Part(live_windows, [d for d in range(type_of(result).ndim) if d not in out])
    live_there = both(out_lives[0], elements([windows]))
    return results, [live_there], [live_there]


def _convolution_words(numbers: Any) -> Any:
    """Factors of a convolution without groups: images, features of both kinds, and places, each on its own."""
    rank = len(numbers.lhs_spec)
    names = iter([f"p{i}~" for i in range(3 * rank)])
    arrays = (numbers.lhs_spec, "bc"), (numbers.rhs_spec, "oc"), (numbers.out_spec, "bo")
    words = [
        [letters[spec.index(d)] if d in spec[:2] else next(names) for d in range(rank)]
        for spec, letters in arrays
    ]
    return words[:2], words[2:]


def _has_groups(params: Any) -> bool:
    return params.feature_group_count != 1 or params.batch_group_count != 1


def _as_numbers(part: Part, aval: Any, axes: tuple[int, ...]) -> Any:
    """1 where an element of `part`, of a value of type `aval`, is live; dimensions `axes` have size 1 then."""
    array = part.whole(aval)
    if axes:
        array = expand_dims(reduce_or(array, axes), axes)
    return convert_element_type(array, aval.dtype)


def _without_dead_windows(
    primitive: Primitive, operands: Operands, lives: Sequence[Liveness], params: Any
) -> Operands:
    """The two operands of a convolution, each set to 0 where no live element of the other one meets it.

    Without groups, what images and features leave out is left to their factors. Remaining are places of the image that
    no window of a cotangent meets.
    """
    operands, has_groups = [*operands], _has_groups(params)
    windows = {*params.dimension_numbers.rhs_spec[2:]}
    for i in (0, 1) if has_groups else (1,):
        live, other = lives[i], operands[1 - i]
        if not isinstance(live, Elements) or is_cotangent(lives[1 - i]) or is_finite(other):
            continue
        lines = [p for p in live.parts if not p.is_by_value]
        seeds = lines if has_groups else [p for p in lines if not windows.isdisjoint(p.dims)]
        their_dims = {d for p in seeds for d in p.dims}
        parts = [p for p in lines if not their_dims.isdisjoint(p.dims)]
        if parts:
            part = merge_parts(parts, type_of(operands[i]))
            avals = [type_of(x) for x in operands]
            operands[1 - i] = zero_dead(_met_by(part, i, primitive, avals, params), other)
    return operands


def _met_by(part: Part, i: int, primitive: Any, avals: Avals, params: Any) -> Liveness:
    """Elements of the other operand of a convolution that meet live elements, those of `part`, of operand `i`."""
    numbers, aval = params.dimension_numbers, avals[1 - i]
    # Without groups, one image and one feature of the cotangent stand for all.
    single, merged = (
        ((), ()) if _has_groups(params) else (numbers.lhs_spec[:1], numbers.rhs_spec[:1])
    )

    def met() -> Any:
        # Which elements the sum of all results depends on, of a cotangent that is 1 where it is live.
        shape = [1 if d in single else size for d, size in enumerate(aval.shape)]
        factors = [_as_numbers(part, avals[i], merged)]
        factors.insert(1 - i, full(shape, 1, aval.dtype))
        [result] = bind(primitive, *factors, params=params)
        counts = primitive.operand_cotangent(1 - i, full_as(result, 1), factors, params)
        return squeeze(ne(counts, full_as(counts, 0)), single)

    return elements([Part(met, [d for d in range(aval.ndim) if d not in single])])


def scaling_rule(
    primitive: Primitive, operands: Operands, lives: Sequence[Liveness], params: Any
) -> tuple[Results, Sequence[Liveness]]:
    """Elements of the first operand, some of them multiplied by values of the point."""
    results = bind(primitive, *operands, params=params)
    live, *others = lives
    if any(map(is_cotangent, others)):
        return results, [LIVE] * len(results)
    return [zero_dead(live, x) for x in results], [live] * len(results)


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
    movement_rule,
    "reshape transpose rev broadcast_in_dim squeeze slice split unstack tile gather dynamic_slice stage",
)
_rule(movement_rule, "device_put sharding_constraint reshard layout_constraint pvary")
_rule(movement_rule, "all_gather all_gather_invariant ppermute pbroadcast all_to_all")
_rule(assembly_rule, "pad concatenate stack dynamic_update_slice scatter")
_rule(
    linear_sum_rule,
    "scatter-add scatter-sub cumsum reduce_window_sum psum psum_invariant reduce_scatter",
)
_rule(linear_sum_rule, "select_and_scatter_add select_and_gather_add")
_rule(sum_rule, "reduce_sum")
_rule(add_rule, "add_any add sub complex")
_rule(selection_rule, "select_n")
_rule(scaling_rule, "scatter-mul")


def rule_for(primitive: Primitive) -> ElementwiseRule:
    """The rule of `primitive`, by default derived from its factors."""
    if primitive.name in PRODUCTS:
        return PRODUCTS[primitive.name]
    if primitive.name not in RULES:
        return by_factors
    rule = RULES[primitive.name]

    def keeping_zeros(
        primitive: Primitive, operands: Operands, lives: Sequence[Liveness], params: Any
    ) -> tuple[Results, Sequence[Liveness], Sequence[Liveness]]:
        results, out_lives = rule(primitive, operands, lives, params)
        return results, out_lives, [LIVE] * len(results)

    return keeping_zeros


PRODUCTS: dict[str, ElementwiseRule] = {
    "mul": product_rule,
    "div": quotient_rule,
    "conv_general_dilated": convolution_rule,
}
_ELEMENTWISE = frozenset(("mul", "div", "convert_element_type", "select_n"))
_SUMS = frozenset(("add_any", "add", "sub"))
_MOVING = frozenset(("reshape", "squeeze", "transpose", "broadcast_in_dim"))


def put_off(
    primitive: Primitive,
    avals: Avals,
    lives: Sequence[Liveness],
    dues: Sequence[Liveness],
    params: Any,
) -> Sequence[Liveness]:
    """For each operand which of its dead elements, of those that are still to be set to 0, may have any value in an
    equation, because no live element of its result depends on them: all of `dues`, or none, which is `LIVE`.

    `neg` isn't among these equations: its operand mostly has another use, so both share one `select`.
    """
    name, none = primitive.name, [LIVE] * len(dues)
    if not all(dtypes.is_inexact(aval.dtype) for aval in avals[-1:]):
        return none
    if name == "convert_element_type" and not dtypes.is_inexact(params.new_dtype):
        return none
    if name in _ELEMENTWISE:
        return none if name == "div" and is_cotangent(lives[1]) else dues
    if name in _SUMS:
        # A sum is live where one of the terms is, so the other one must be zero there.
        others = [lives[1], lives[0]]
        return [
            due if _implies(live, other, due) else LIVE
            for live, other, due in strict_zip(lives, others, dues)
        ]
    [due, *others] = dues
    if not isinstance(due, Elements) or any(x is not LIVE for x in others):
        return none
    if name == "reduce_sum":
        is_apart = all({*params.axes}.isdisjoint(part.dims) for part in due.parts)
        return dues if is_apart else none
    return dues if name in _MOVING else none


def _implies(live: Liveness, other: Liveness, due: Liveness) -> bool:
    """Whether elements of a term that are live in `other` are live in `due`, which `live` implies."""
    if due is LIVE or are_same(live, other):
        return True
    if not isinstance(other, Elements) or not isinstance(due, Elements):
        return False
    return all(implies(other.parts, part) for part in due.parts)


def put_behind(
    primitive: Primitive,
    kept: Sequence[Liveness],
    operands: Operands,
    result: Any,
    live: Liveness,
    made: Liveness,
    params: Any,
) -> Liveness:
    """Which elements of a result are to be set to 0, where `kept` of its operands were put off; `made` are due by its rule."""
    if made is not LIVE:
        return made
    if primitive.name == "select_n":
        # Of several cases: each element is due where the case that it comes from is.
        return live
    due = functools.reduce(both, kept)
    if primitive.name == "reduce_sum":
        at = [d for d in range(type_of(operands[0]).ndim) if d not in params.axes]
        return move_liveness(due, {d: i for i, d in enumerate(at)})
    if primitive.name in _MOVING:
        aval, shape = type_of(operands[0]), type_of(result).shape
        groups = groups_of(primitive, aval, type_of(result), params)
        if groups is None or not isinstance(due, Elements):
            return live
        return elements([regroup(p, groups, primitive, aval, shape, params) for p in due.parts])
    return due
