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
from typing import Any, TypeAlias

import numpy as np

from pellucid._machine.base import ConcretizationTypeError, config, strict_zip
from pellucid._machine.ir import (
    Jaxpr,
    Masked,
    Operands,
    Primitive,
    Values,
    Zero,
    remove_dead_equations,
)
from pellucid._machine.primitives import full_as, marks_of, ne
from pellucid._machine.tracing import Trace, Tracer, context, plumbing, replay, type_of, use_trace

from .derived import Derived, derivation, stage_open
from .jvp import concrete_value
from .mask_rules import (
    LIVE,
    ZERO,
    Elements,
    Known,
    Liveness,
    array_of,
    guarded,
    is_cotangent,
    is_maskable,
    is_zero,
    keeps_to_elements,
    known_array,
    rule_for,
)

Kind: TypeAlias = Known | str | None
"""Liveness without an array: `ARRAY` if there is one."""
ARRAY = "array"


class MaskTracer(Tracer):
    """A value of a backward pass with its liveness."""

    __slots__ = ("is_clean", "live", "value")

    def __init__(
        self, trace: MaskTrace, value: Any, live: Liveness, *, is_clean: bool = True
    ) -> None:
        self._trace = trace
        self.aval = type_of(value)
        self.value = value
        self.live = live
        self.is_clean = is_clean
        """Whether dead elements are zero. Results of products may have any value there until they are used."""

    def cleaned(self) -> Any:
        """The value with its dead elements set to zero."""
        if not self.is_clean:
            with use_trace(self._trace.parent), plumbing("masked"):
                self.value = guarded(self.live, self.value)
            self.is_clean = True
        return self.value

    def concrete(self) -> Any:
        return concrete_value(self.cleaned())

    def asked_for(self, use: str, kind: type[ConcretizationTypeError], do: str) -> Any:
        value = self.cleaned()
        return value.asked_for(use, kind, do) if isinstance(value, Tracer) else None

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
        return x.cleaned() if type(x) is MaskTracer and x._trace is self else x

    def joined(
        self, values: Sequence[Any], lives: Sequence[Liveness], *, are_clean: bool = True
    ) -> Values:
        """Tracers of values with their liveness; plain values for those that don't depend on cotangents."""
        return [
            x if live is None else self._tracer(x, live, are_clean)
            for x, live in strict_zip(values, lives)
        ]

    def _tracer(self, x: Any, live: Liveness, is_clean: bool) -> MaskTracer:
        if isinstance(live, Elements) and marks_of(type_of(x)).unreduced:
            # Addends of a live element may be on any device.
            with use_trace(self.parent):
                return MaskTracer(self, x if is_clean else guarded(live, x), LIVE)
        return MaskTracer(self, x, live, is_clean=is_clean or not isinstance(live, Elements))

    def interpret(self, primitive: Primitive, operands: Operands, params: Any) -> Values:
        lives = [self.live(x) for x in operands]
        if not any(map(is_cotangent, lives)):
            values = tuple([self.value(x) for x in operands])
            with use_trace(self.parent):
                results = self.parent.interpret(primitive, values, params)
            # Movement of zeros results in zeros.
            if primitive.name in _KEEPS_ZEROS and (lives[0] is ZERO or is_zero(values[0])):
                return self.joined(results, [ZERO] * len(results))
            return results
        if keeps_to_elements(primitive, operands, lives, params):
            # Dead elements don't mix with others there, so they may keep any value.
            raw = [
                (x.value, x.is_clean) if self.live(x) is not None else (x, True) for x in operands
            ]
            values, are_clean = [x for x, _ in raw], all(is_clean for _, is_clean in raw)
            with use_trace(self.parent):
                results, lives, makes_any = rule_for(primitive)(primitive, values, lives, params)
            return self.joined(results, lives, are_clean=are_clean and not makes_any)
        values = tuple([self.value(x) for x in operands])
        with use_trace(self.parent):
            if isinstance(primitive, Masked):
                results, lives = primitive.masked(values, lives, params)
            else:
                results, lives, _ = rule_for(primitive)(primitive, values, lives, params)
        return self.joined(results, lives)

    def custom_call(self, call: Any, operands: Operands) -> Values:
        # User rules work on plain values: their results for cotangents are cotangents without known structural zeros.
        is_live = any(is_cotangent(self.live(x)) for x in operands)
        with use_trace(self.parent):
            results = self.parent.custom_call(call, tuple(map(self.value, operands)))
        return self.joined(results, [LIVE if is_live else None] * len(results))


_KEEPS_ZEROS = frozenset(
    (
        "broadcast_in_dim", "reshape", "transpose", "squeeze", "convert_element_type", "copy", "pvary", "neg",
        "sharding_constraint", "reshard", "device_put",
    )
)  # fmt: skip


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


def masked_if_asked(
    pulled_back: Callable[[Operands], Values], cotangents: Operands, are_unit_vectors: bool = False
) -> Values:
    """`pulled_back(cotangents)`, with masks if the option `masked_gradients` is set.

    Only for unit vectors, elements that are zero count as structural zeros.
    """
    if not config.masked_gradients.value:
        return pulled_back(cotangents)
    lives = [
        Elements(lambda ct=ct: ne(ct, full_as(ct, 0)))
        if are_unit_vectors and is_maskable(ct)
        else LIVE
        for ct in cotangents
    ]
    return masked_pass(pulled_back, cotangents, lives)


def kind_of_live(live: Liveness) -> Kind:
    """Liveness of a value, without the array."""
    return ARRAY if isinstance(live, Elements) else live


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
                lives.append(kind)  # type: ignore[arg-type]
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

    found: Any = Elements(arrays)
    out: list[Liveness] = []
    for kind in mask:
        position = sum(isinstance(live, Elements) for live in out)
        out.append(Elements(lambda i=position: found.array()[i]) if kind == ARRAY else kind)  # type: ignore[arg-type]
    return out


def as_mask(aval: Any) -> Any:
    """The type of the liveness array of a value of type `aval`."""
    return aval.update(dtype=_BOOL, weak_type=False)


_BOOL = np.dtype(bool)
