"""Which elements of a cotangent are structurally zero, and what each primitive makes of that.

An element is dead where no path of the program leads on from it: a `select` took the other case, a slice left it out, it is
padding, a masked reduction skipped it. It is zero whatever the point and the cotangents of the results are, and so are its
derivatives. That is a fact about the program's structure: an element that merely happens to be zero is alive.

A rule takes the operands of an equation of a backward pass with what is known of each, and gives results and what is known of
these. Rules of movement push the array that says which elements live through the primitive itself, so zeros that it
fills in are dead. Products and quotients by values of the point give 0 where the cotangent is dead, whatever the values are.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from pellucid._machine.base import PellucidError, dtypes, strict_zip
from pellucid._machine.ir import Avals, Literal, Operands, Primitive, Results, ShapedArray, registry
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
    """What is known of all elements of a value of a backward pass."""

    LIVE = "live"
    """It depends on cotangents, and no element is known to be dead."""
    DEAD = "dead"
    """It depends on cotangents, and all elements are dead."""
    ZERO = "zero"
    """It is a constant zero; where it meets cotangents, its elements are dead."""


LIVE, DEAD, ZERO = Known.LIVE, Known.DEAD, Known.ZERO


class Elements:
    """Which elements of a value live, as an array of booleans that is computed when it is first needed."""

    __slots__ = ("_array", "_compute", "_trace")

    def __init__(self, compute: Callable[[], Any]) -> None:
        self._compute: Callable[[], Any] | None = compute
        self._trace = context.trace
        self._array: Any = None

    def array(self) -> Any:
        """True where an element lives."""
        if self._compute is not None:
            with use_trace(self._trace), plumbing("masked"):
                self._array = self._compute()
            self._compute = None
        return self._array


Liveness: TypeAlias = Known | Elements | None
"""What is known of a value; None for one that depends on no cotangent."""
Rule: TypeAlias = Callable[
    [Primitive, Operands, Sequence[Liveness], Any], tuple[Results, Sequence[Liveness]]
]
"""(primitive, operands, what is known of each, params) -> (results, what is known of each)."""


def is_cotangent(live: Liveness) -> bool:
    """Whether a value depends on cotangents."""
    return live is not None and live is not ZERO


def is_dead(live: Liveness) -> bool:
    """Whether all elements of a value are dead, once it meets cotangents."""
    return live is DEAD or live is ZERO


def known_array(array: Any) -> Elements:
    """What `array` says: True where an element lives."""
    return Elements(lambda: array)


def is_maskable(x: Any) -> bool:
    """Whether `x` is an array of numbers, whose elements may be dead."""
    aval = type_of(x)
    return type(aval) is ShapedArray and dtypes.is_inexact(aval.dtype)


def array_of(live: Liveness, x: Any) -> Any:
    """Which elements of `x`, of which `live` is known, live."""
    if isinstance(live, Elements):
        return live.array()
    return filled(type_of(x).update(dtype=np.dtype(bool), weak_type=False), not is_dead(live))


def guarded(live: Liveness, x: Any) -> Any:
    """`x`, and 0 where it is dead."""
    if is_dead(live):
        return full_as(x, 0)
    return select_n(live.array(), full_as(x, 0), x) if isinstance(live, Elements) else x


def either(a: Liveness, b: Liveness, shape: Any) -> Liveness:
    """What is known of a sum: an element lives where one of the terms does."""
    if is_dead(a):
        return b if is_cotangent(b) or b is None else DEAD
    if is_dead(b):
        return a
    if isinstance(a, Elements) and isinstance(b, Elements):
        if a is b:
            return a
        return Elements(lambda: bitwise_or(_fitted(a.array(), shape), _fitted(b.array(), shape)))
    return LIVE


def both(a: Liveness, b: Liveness, shape: Any) -> Liveness:
    """What is known of a product: an element lives where both factors do."""
    if is_dead(a) or is_dead(b):
        return DEAD
    if isinstance(a, Elements) and isinstance(b, Elements):
        if a is b:
            return a
        return Elements(lambda: bitwise_and(_fitted(a.array(), shape), _fitted(b.array(), shape)))
    return a if isinstance(a, Elements) else b if isinstance(b, Elements) else LIVE


def _fitted(live: Any, shape: Any) -> Any:
    return live if type_of(live).shape == shape else broadcast_to(live, shape)


def is_zero(x: Any) -> bool:
    """Whether `x` is the number zero."""
    return _is_number(x) and x == 0


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float, complex, np.generic)) or (
        type(x) is np.ndarray and not x.ndim
    )


def is_finite(x: Any) -> bool:
    """Whether the value of the point `x` is known to be finite when the program is made."""
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
    """Results that depend on cotangents, of which nothing is known."""
    return results, [LIVE if is_maskable(x) else None for x in results]


def whole(
    operands: Operands, lives: Sequence[Liveness], results: Results
) -> tuple[Results, Sequence[Liveness]]:
    """Results that are linear in all of `operands` together: all elements are dead where those of the operands are."""
    if all(map(is_dead, lives)):
        return [full_as(x, 0) for x in results], [DEAD] * len(results)
    if any(live is LIVE or live is None for live in lives):
        return results, [LIVE] * len(results)

    def any_lives() -> Any:
        arrays = [live.array() for live in lives if isinstance(live, Elements)]
        return functools.reduce(bitwise_or, [_any_along(a, range(type_of(a).ndim)) for a in arrays])

    together = Elements(any_lives)
    out = [Elements(lambda x=x: _laid_along(together.array(), (), x)) for x in results]
    return [guarded(live, x) for live, x in strict_zip(out, results)], [*out]


# Rules ------------------------------------------------------------------------------------------------


def same_elements(
    primitive: Primitive, operands: Operands, lives: Sequence[Liveness], params: Any
) -> tuple[Results, Sequence[Liveness]]:
    """Each result has the elements of the operand at its position, or of the first one."""
    results = bind(primitive, *operands, params=params)
    return results, [*lives] if len(results) == len(lives) > 1 else [lives[0]] * len(results)


def moved(
    primitive: Primitive, operands: Operands, lives: Sequence[Liveness], params: Any
) -> tuple[Results, Sequence[Liveness]]:
    """Elements of the first operand, or zeros, in another arrangement, which the others and the params state."""
    results = bind(primitive, *operands, params=params)
    [live, *others] = lives
    fill = _fill_value(primitive, params)
    if any(map(is_cotangent, others)) or fill:
        return results, [LIVE] * len(results)
    if is_dead(live) or (live is LIVE and fill is None):
        return results, [live] * len(results)
    # All results of one equation share the equation that moves the array.
    arrays: Any = Elements(
        lambda: bind(primitive, array_of(live, operands[0]), *operands[1:], params=params)
    )
    return results, [Elements(lambda i=i: arrays.array()[i]) for i in range(len(results))]


def _fill_value(primitive: Primitive, params: Any) -> Any:
    """What results hold besides elements of the operand; None where they hold nothing else."""
    if primitive.name == "gather" and params.mode is GatherScatterMode.FILL_OR_DROP:
        return np.nan if params.fill_value is None else params.fill_value
    # A position to which nobody sends gets zeros.
    return 0 if primitive.name == "ppermute" else None


def assembled(
    primitive: Primitive, operands: Operands, lives: Sequence[Liveness], params: Any
) -> tuple[Results, Sequence[Liveness]]:
    """Elements of several operands: all those that the primitive is linear in, which is to say that it moves them."""
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
    """Sums of elements of the linear operands, all of which a result has: it lives where some of them do."""
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

    # Where windows are compared with others, numbers are of their dtype.
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
    [live] = lives
    if not isinstance(live, Elements):
        return results, [live]
    return results, [Elements(lambda: reduce_or(live.array(), params.axes))]


def added(
    primitive: Primitive, operands: Operands, lives: Sequence[Liveness], params: Any
) -> tuple[Results, Sequence[Liveness]]:
    """Sums of two operands, element by element."""
    [result] = bind(primitive, *operands, params=params)
    # A number that no cotangent reaches makes an element live, unless it is zero.
    a, b = [
        ZERO if live is None and is_zero(x) else live for x, live in strict_zip(operands, lives)
    ]
    if a is ZERO and b is ZERO:
        return [result], [ZERO]
    return [result], [either(a, b, type_of(result).shape)]


def multiplied(
    primitive: Primitive, operands: Operands, lives: Sequence[Liveness], params: Any
) -> tuple[Results, Sequence[Liveness]]:
    """Products, of which one factor at least depends on cotangents."""
    [result] = bind(primitive, *operands, params=params)
    live = both(lives[0], lives[1], type_of(result).shape)
    others = [x for x, of_it in strict_zip(operands, lives) if not is_cotangent(of_it)]
    is_safe = isinstance(live, Elements) and all(map(is_finite, others)) and len(others) == 1
    return [result if is_safe else _result_guarded(live, result)], [live]


def divided(
    primitive: Primitive, operands: Operands, lives: Sequence[Liveness], params: Any
) -> tuple[Results, Sequence[Liveness]]:
    """Quotients. What is known of the divisor says nothing."""
    [result] = bind(primitive, *operands, params=params)
    live, of_divisor = lives
    if is_cotangent(of_divisor) or not is_cotangent(live):
        return [result], [LIVE]
    divisor = operands[1]
    is_safe = _is_number(divisor) and is_finite(divisor) and divisor != 0
    return [result if is_safe else _result_guarded(live, result)], [live]


def _result_guarded(live: Liveness, result: Any) -> Any:
    """`result` of elementwise arithmetic, and 0 where it is dead."""
    if not dtypes.is_inexact(type_of(result).dtype):
        return result
    if isinstance(live, Elements) and type_of(live.array()).shape != type_of(result).shape:
        array = broadcast_to(live.array(), type_of(result).shape)
        return select_n(array, full_as(result, 0), result)
    return guarded(live, result)


def selected(
    primitive: Primitive, operands: Operands, lives: Sequence[Liveness], params: Any
) -> tuple[Results, Sequence[Liveness]]:
    """The one of several cases that the first operand, elementwise, says."""
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

    def chosen() -> Any:
        if type_of(which).dtype == np.bool_ and type_of(which).shape == type_of(result).shape:
            first, second = known
            if is_dead(first):
                return (
                    which
                    if not isinstance(second, Elements)
                    else bitwise_and(which, second.array())
                )
            if is_dead(second):
                off = bitwise_not(which)
                return off if not isinstance(first, Elements) else bitwise_and(off, first.array())
        return select_n(which, *(array_of(live, x) for x, live in strict_zip(cases, known)))

    return [result], [Elements(chosen)]


def _any_along(live: Any, axes: Sequence[int]) -> Any:
    return reduce_or(live, tuple(axes)) if axes else live


def _laid_along(live: Any, at: Sequence[int], x: Any) -> Any:
    """`live`, whose dimensions are those of `x` at `at`, repeated to the shape and with the layout of `x`."""
    if [*at] != sorted(at):
        order = sorted(range(len(at)), key=at.__getitem__)
        live, at = transpose(live, order), sorted(at)
    aval = type_of(x)
    if aval.shape == type_of(live).shape:
        return live
    return broadcast_in_dim(live, aval.shape, tuple(at), out_sharding=aval.shown_sharding)


def by_factors(
    primitive: Primitive, operands: Operands, lives: Sequence[Liveness], params: Any
) -> tuple[Results, Sequence[Liveness]]:
    """Any linear primitive: an element of a result lives where one that it may depend on does, as the factors say.

    Of a product that sums along a dimension, such as that of matrices, what only dead elements meet may be anything.
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
    # A sum is dead where all terms are, a product where some factor is.
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
    join = bitwise_and if is_product else bitwise_or

    def live_result(position: int) -> Any:
        total: Any = None
        for i in active:
            live = lives[i]
            if isinstance(live, Elements):
                array = places.reduced(live.array(), i, position, results[position])
                total = array if total is None else join(total, array)
        return total

    new_lives: list[Liveness] = [Elements(lambda i=i: live_result(i)) for i in range(len(results))]
    if linear != "all" and not is_product:
        # A factor that is a value of the point may make anything of zeros.
        results = [guarded(live, x) for live, x in strict_zip(new_lives, results)]
    return results, new_lives


class Places:
    """Which dimensions of operands and results of an equation are the same loop, whose turns are independent."""

    def __init__(self, primitive: Primitive, avals: Avals, results: Avals, params: Any) -> None:
        self.avals, self.results = avals, results
        try:
            factors = primitive.factors(avals, results, params)
        except PellucidError:
            factors = None
        self.rule = None if factors is None else rule_of(factors)

    def _named(self, dims: Sequence[Sequence[str]], aval: Any) -> dict[str, int]:
        """The dimensions of an array that are one factor each, of which parts are independent."""
        marks: Any = {} if self.rule is None else self.rule.marks
        return {
            dim[0]: d
            for d, dim in enumerate(dims)
            if len(dim) == 1 and not {"!", "~"} & {*marks.get(dim[0], "")}
        }

    def of_operand(self, i: int) -> dict[str, int]:
        """By factor its dimension in an operand."""
        return {} if self.rule is None else self._named(self.rule.operands[i], self.avals[i])

    def reduced(self, live: Any, operand: int, result: int, x: Any) -> Any:
        """Which elements of the result `x` depend on live ones of an operand."""
        if self.rule is None:
            return _laid_along(_any_along(live, range(self.avals[operand].ndim)), (), x)
        targets = self._named(self.rule.results[result], self.results[result])
        return _along_factors(live, self.of_operand(operand), targets, x)


def _along_factors(live: Any, source: dict[str, int], targets: dict[str, int], x: Any) -> Any:
    """`live`, any of it along dimensions that `x` lacks, repeated along those that `x` has besides.

    `source` and `targets` have the dimensions of both by factor.
    """
    aval, ndim = type_of(x), type_of(live).ndim
    # From dimensions of `live` to those of `x`.
    place = {d: targets[f] for f, d in source.items() if f in targets}
    place = {d: j for d, j in place.items() if type_of(live).shape[d] == aval.shape[j]}
    kept = sorted(place)
    return _laid_along(
        _any_along(live, [d for d in range(ndim) if d not in place]), [place[d] for d in kept], x
    )


def _without_dead_lines(operands: Operands, lives: Sequence[Liveness], places: Places) -> list[Any]:
    """The two operands of a product, each with zeros where it meets only dead elements of the other one."""
    operands = [*operands]
    for i, live in enumerate(lives[:2]):
        other = operands[1 - i]
        if isinstance(live, Elements) and not is_finite(other):
            source, targets = places.of_operand(i), places.of_operand(1 - i)
            if source.keys() & targets.keys():
                lines = _along_factors(live.array(), source, targets, other)
                operands[1 - i] = select_n(lines, full_as(other, 0), other)
    return operands


def convolved(
    primitive: Primitive, operands: Operands, lives: Sequence[Liveness], params: Any
) -> tuple[Results, Sequence[Liveness]]:
    """Convolutions: an element lives where its window holds a live one."""
    results, out_lives = by_factors(primitive, operands, lives, params)
    live, of_kernel = lives
    is_plain = params.feature_group_count == params.batch_group_count == 1
    if not isinstance(live, Elements) or is_cotangent(of_kernel) or not is_plain:
        return results, out_lives
    [result], numbers = results, params.dimension_numbers
    image, kernel = (type_of(x) for x in operands)

    def live_windows() -> Any:
        # As one convolution of one feature: any feature of the image, and all of the kernel's window.
        feature = numbers.lhs_spec[1]
        array = convert_element_type(_any_along(live.array(), (feature,)), image.dtype)
        array = expand_dims(array, (feature,))
        sizes = [1 if d in numbers.rhs_spec[:2] else size for d, size in enumerate(kernel.shape)]
        window = full(sizes, 1, kernel.dtype)
        [counts] = bind(primitive, array, window, params=params)
        live_one = gt(counts, full_as(counts, 0))
        out = numbers.out_spec[1]
        rest = [d for d in range(type_of(result).ndim) if d != out]
        return _laid_along(squeeze(live_one, (out,)), rest, result)

    return results, [Elements(live_windows)]


def scaled(
    primitive: Primitive, operands: Operands, lives: Sequence[Liveness], params: Any
) -> tuple[Results, Sequence[Liveness]]:
    """Elements of the first operand, some of them times values of the point."""
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
_rule(multiplied, "mul")
_rule(divided, "div")
_rule(selected, "select_n")
_rule(convolved, "conv_general_dilated")
_rule(scaled, "scatter-mul")


def rule_for(primitive: Primitive) -> Rule:
    """The rule of `primitive`, by default what follows from its factors."""
    return RULES.get(primitive.name, by_factors)
