"""Reverse mode with masks: cotangents carry which of their elements are structurally zero.

Masks are another transformation of programs: a `MaskTrace` is current while a backward pass runs, and each cotangent is
a tracer of its value with its liveness (`mask_rules.py`). The result is an ordinary program, in which products and
quotients of cotangents by values of the point are wrapped in a `select`. Inner programs are derived once, by
`masked_jaxpr`, with additional inputs and results for liveness arrays.

    plain                           masked

    t = mul ct (div 1 x)            m = gt x 0                 where the forward pass chose by x > 0
                                    t = mul ct (div 1 x)
                                    u = select_n m 0 t
"""

# Tracers and their traces share attributes with private names.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pellucid._machine.base import ConcretizationTypeError, config, strict_zip
from pellucid._machine.ir import (
    Jaxpr,
    Masked,
    Operands,
    Primitive,
    Results,
    Values,
    Zero,
    remove_dead_equations,
)
from pellucid._machine.primitives import full_as, marks_of, ne
from pellucid._machine.tracing import Trace, Tracer, context, plumbing, replay, type_of, use_trace

from .derived import Derived, derivation, stage_open
from .jvp import concrete_value
from .liveness import (
    DEAD,
    FIXED_SIZE,
    LIVE,
    ZERO,
    Elements,
    Known,
    Liveness,
    Part,
    array_of,
    both,
    elements,
    is_cotangent,
    is_dead,
    known_array,
    zero_dead,
)
from .mask_rules import is_maskable, is_zero, only_case, put_behind, put_off, rule_for


class Fixed(NamedTuple):
    """Liveness that the program fixes."""

    parts: tuple[tuple[tuple[int, ...], tuple[int, ...], bytes], ...]
    """(dimensions, shape, booleans) of each."""


Kind: TypeAlias = Known | Fixed | str | None
"""Liveness without an array: `ARRAY` if there is one."""
ARRAY = "array"


class MaskTracer(Tracer):
    """A value of a backward pass with its liveness."""

    __slots__ = ("due", "live", "value")

    def __init__(
        self, trace: MaskTrace, value: Any, live: Liveness, *, due: Liveness = LIVE
    ) -> None:
        self._trace = trace
        self.aval = type_of(value)
        self.value = value
        self.live = live
        self.due = due if isinstance(live, Elements) else LIVE
        """The part of `live` that is still to be applied: dead elements of selections and products may have any value
        until they are used, so that a chain of them has one `select`.
        """

    def zero_dead(self) -> Any:
        """The value with its dead elements set to zero."""
        if self.due is not LIVE:
            with use_trace(self._trace.parent), plumbing("masked"):
                self.value = zero_dead(self.due, self.value)
            self.due = LIVE
        return self.value

    def concrete(self) -> Any:
        return concrete_value(self.zero_dead())

    def ask_for(self, use: str, kind: type[ConcretizationTypeError], do: str) -> Any:
        value = self.zero_dead()
        return value.ask_for(use, kind, do) if isinstance(value, Tracer) else None

    def transformed(self) -> Any:
        return self.value


class MaskTrace(Trace):
    """Applies the rules of masks. Values of other traces are not cotangents."""

    __slots__ = ("parent",)

    def __init__(self, parent: Trace) -> None:
        self.parent = parent

    def live(self, x: Any) -> Liveness:
        """Liveness of `x`."""
        return x.live if type(x) is MaskTracer and x._trace is self else None

    def value(self, x: Any) -> Any:
        """The value of `x` without its liveness."""
        return x.zero_dead() if type(x) is MaskTracer and x._trace is self else x

    def joined(
        self,
        values: Sequence[Any],
        lives: Sequence[Liveness],
        due: Sequence[Liveness] | None = None,
    ) -> Values:
        """Tracers of values with their liveness; plain values for those that don't depend on cotangents."""
        due = [LIVE] * len(values) if due is None else due
        return [
            x if live is None else self._tracer(x, live, of_it)
            for x, live, of_it in strict_zip(values, lives, due)
        ]

    def _tracer(self, x: Any, live: Liveness, due: Liveness = LIVE) -> MaskTracer:
        if isinstance(live, Elements) and marks_of(type_of(x)).unreduced:
            # Addends of a live element may be on any device.
            with use_trace(self.parent):
                return MaskTracer(self, zero_dead(due, x), LIVE)
        if due is not LIVE and not isinstance(live, Elements):
            with use_trace(self.parent):
                x = zero_dead(DEAD if is_dead(live) else due, x)
        return MaskTracer(self, x, live, due=due)

    def interpret(self, primitive: Primitive, operands: Operands, params: Any) -> Values:
        lives = [self.live(x) for x in operands]
        if not any(map(is_cotangent, lives)):
            values = tuple([self.value(x) for x in operands])
            with use_trace(self.parent):
                results = self.parent.interpret(primitive, values, params)
            is_nothing = [live is ZERO or is_zero(x) for x, live in strict_zip(values, lives)]
            if _keeps_zeros(primitive.name, is_nothing):
                return self.joined(results, [ZERO] * len(results))
            return results
        kept = [LIVE] * len(operands)
        if any(type(x) is MaskTracer and x._trace is self and x.due is not LIVE for x in operands):
            dues = [LIVE if self.live(x) is None else x.due for x in operands]
            kept = put_off(primitive, [*map(type_of, operands)], lives, dues, params)
        # Dead elements of `kept` don't mix with others in the equation, so they may keep any value.
        values = tuple(
            [self.value(x) if due is LIVE else x.value for x, due in strict_zip(operands, kept)]
        )
        with use_trace(self.parent):
            case = only_case(primitive, values, lives)
            if case is not None:
                # The result is the only case that isn't dead, with the elements dead that `select` doesn't take.
                i, chosen = case
                live = both(chosen, lives[i])
                x = full_as(values[i], 0) if live is DEAD else values[i]
                return [self._tracer(x, live, both(chosen, kept[i]))]
            if isinstance(primitive, Masked):
                return self.joined(*primitive.masked(values, lives, params))
            results, lives, due = rule_for(primitive)(primitive, values, lives, params)
            if any(x is not LIVE for x in kept):
                [result], [live], [made] = results, lives, due
                due = [put_behind(primitive, kept, values, result, live, made, params)]
        return self.joined(results, lives, due)

    def custom_call(self, call: Any, operands: Operands) -> Values:
        # The call keeps its rules, so it works on plain values; its program says which elements of its results are live.
        lives = [self.live(x) for x in operands]
        values = tuple(map(self.value, operands))
        with use_trace(self.parent):
            results = self.parent.custom_call(call, values)
            if not any(map(is_cotangent, lives)):
                return results
            program, consts = stage_open(call.function, [*map(type_of, values)], None)
            inputs = [*map(self.value, consts), *values]
            results, out = by_program(
                program.jaxpr, inputs, [*map(self.live, consts), *lives], results
            )
        return self.joined(results, out)


_MOVES_ZEROS = frozenset(
    (
        "broadcast_in_dim", "reshape", "transpose", "squeeze", "convert_element_type", "copy", "pvary", "neg",
        "sharding_constraint", "reshard", "device_put", "div",
    )
)  # fmt: skip


def _keeps_zeros(name: str, are_zero: Sequence[bool]) -> bool:
    """Whether results are constant zeros where operands `are_zero`.

    Of products with values of the point, too: of a zero that a backward function gets for a result that nobody uses.
    """
    return any(are_zero) if name == "mul" else name in _MOVES_ZEROS and are_zero[0]


def masked_pass(
    pulled_back: Callable[[Operands], Values], cotangents: Operands, lives: Sequence[Liveness]
) -> Values:
    """`pulled_back(cotangents)` with masks, from the initial liveness `lives`; cotangents may be `Zero`."""
    outer = context.trace
    trace = outer if type(outer) is MaskTrace else MaskTrace(outer)
    tracers = [
        ct if type(ct) is Zero or trace.live(ct) is not None else MaskTracer(trace, ct, live)
        for ct, live in strict_zip(cotangents, lives)
    ]
    with use_trace(trace):
        results = pulled_back(tracers)
    # Within another backward pass with masks, the results are its tracers.
    return results if trace is outer else [trace.value(x) for x in results]


def mask_if_enabled(
    pulled_back: Callable[[Operands], Values], cotangents: Operands, are_unit_vectors: bool = False
) -> Values:
    """`pulled_back(cotangents)`, with masks if the option `masked_gradients` is set.

    Only for unit vectors, elements that are zero count as structural zeros.
    """
    if not config.masked_gradients.value:
        return pulled_back(cotangents)
    lives = [
        Elements([Part(lambda ct=ct: ne(ct, full_as(ct, 0)), range(type_of(ct).ndim))])
        if are_unit_vectors and is_maskable(ct)
        else LIVE
        for ct in cotangents
    ]
    return masked_pass(pulled_back, cotangents, lives)


def kind_of_live(live: Liveness) -> Kind:
    """Liveness of a value, without the array."""
    if not isinstance(live, Elements):
        return live
    known = [part.known for part in live.parts]
    if any(x is None or x.size > FIXED_SIZE for x in known):
        return ARRAY
    return Fixed(
        tuple([(p.dims, x.shape, x.tobytes()) for p, x in strict_zip(live.parts, known)])  # type: ignore[union-attr]
    )


def live_of_kind(kind: Kind) -> Liveness:
    """Liveness of a value by a kind that isn't `ARRAY`."""
    if not isinstance(kind, Fixed):
        return kind  # type: ignore[return-value]
    parts: list[Part] = []
    for dims, shape, data in kind.parts:
        array = np.frombuffer(data, bool).reshape(shape)
        parts.append(Part(lambda array=array: array, dims, array))
    return elements(parts)


@derivation("masked")
def masked_jaxpr(jaxpr: Jaxpr, kinds: Sequence[Kind], as_arrays: Sequence[bool]) -> Derived:
    """`jaxpr`, part of a backward pass without constants, with masks.

    Inputs: those of the program, then an array for each of `kinds` that is `ARRAY`. Results: those of the program, then
    an array for each result that `mask` marks: those whose liveness differs between elements, and those in `as_arrays`.
    """
    out_kinds: list[Kind] = []

    def run(*arguments: Any) -> Values:
        n = len(jaxpr.invars)
        arrays = iter(arguments[n:])
        trace = MaskTrace(context.trace)
        lives: list[Liveness] = []
        for kind in kinds:
            if kind == ARRAY:
                array = next(arrays)
                lives.append(known_array(array))
            else:
                lives.append(live_of_kind(kind))
        with use_trace(trace):
            results = replay(jaxpr, (), *trace.joined(arguments[:n], lives))
        # Value and liveness of each result.
        split = [(trace.value(x), trace.live(x)) for x in results]
        out_kinds[:] = [
            ARRAY if asked else kind_of_live(live)
            for (_, live), asked in strict_zip(split, as_arrays)
        ]
        arrays_out = [
            array_of(LIVE if live is None else live, x)
            for (x, live), kind in strict_zip(split, out_kinds)
            if kind == ARRAY
        ]
        return [*(x for x, _ in split), *arrays_out]

    avals = [
        *jaxpr.in_avals,
        *(as_mask(v.aval) for v, kind in strict_zip(jaxpr.invars, kinds) if kind == ARRAY),
    ]
    program, consts = stage_open(run, avals, jaxpr.debug)
    return Derived(program, consts, tuple(out_kinds))


def lives_of(jaxpr: Jaxpr, operands: Operands, lives: Sequence[Liveness]) -> list[Liveness]:
    """Liveness of the results of a program without constants; runs only what that needs."""
    n = len(jaxpr.outvars)
    kinds = [*map(kind_of_live, lives)]
    program, consts, mask = masked_jaxpr(jaxpr, kinds, [False] * n)

    def arrays() -> Values:
        # The results are those of the program, then the arrays.
        wanted = [i >= n for i in range(n + mask.count(ARRAY))]
        pruned, used = remove_dead_equations(program.jaxpr, wanted)
        known = [
            array_of(live, x) for x, live, k in strict_zip(operands, lives, kinds) if k == ARRAY
        ]
        return replay(pruned, (), *compress([*consts, *operands, *known], used))

    found: Any = Part(arrays, ())
    out: list[Liveness] = []
    avals: Sequence[Any] = [v.aval for v in jaxpr.outvars]
    for aval, kind in strict_zip(avals, mask):
        position = mask[: len(out)].count(ARRAY)
        array = lambda i=position: found.array()[i]
        is_array = kind == ARRAY
        out.append(elements([Part(array, range(aval.ndim))]) if is_array else live_of_kind(kind))
    return out


def by_program(
    jaxpr: Jaxpr, operands: Operands, lives: Sequence[Liveness], results: Results
) -> tuple[Results, Sequence[Liveness]]:
    """`results` of a call with their liveness: that of the results of `jaxpr`, a program that computes the same."""
    lives = [live if is_maskable(x) else None for x, live in strict_zip(operands, lives)]
    if not any(is_dead(live) or isinstance(live, Elements) for live in lives):
        return results, [LIVE if is_maskable(x) else None for x in results]
    out = lives_of(jaxpr, operands, lives)
    return [zero_dead(live, x) for live, x in strict_zip(out, results)], out


def as_mask(aval: Any) -> Any:
    """The type of the liveness array of a value of type `aval`."""
    return aval.update(dtype=_BOOL, weak_type=False)


_BOOL = np.dtype(bool)
