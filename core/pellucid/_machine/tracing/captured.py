"""Derivative and batching rules that close over traced values.

A rule of a custom derivative or batching runs later than its function, when the trace of the values that it captured
may have ended. So these values become operands of the call, and the rule runs under a trace that substitutes the
operands for the captured values.
"""

# Tracers and their traces share attributes with private names.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from pellucid._machine.base import Function, strict_zip
from pellucid._machine.ir import Operands, Primitive, Results, ShapedArray, Values
from pellucid._machine.xla import ARRAY_TYPES, flatten

from .current import context, use_trace
from .trace import ExecutionPlan, Trace
from .tracer import Tracer

_MAX_LOOKED_AT = 10_000
"""Maximum number of objects searched for traced values. Values that aren't found raise when a rule uses them."""
_HOLD_NOTHING = frozenset(
    (
        bool,
        int,
        float,
        complex,
        str,
        bytes,
        type(None),
        BuiltinFunctionType,
        ModuleType,
        *ARRAY_TYPES,
    )
)


def traced_values_in(*functions: Any) -> list[Tracer]:
    """The traced arrays that functions refer to through closures, defaults, bound objects, containers and pytrees, each
    once.

    Tracers whose trace has ended are left out, unless a value is substituted for them.
    """
    seen: set[int] = set()
    found: list[Tracer] = []
    pending: list[object] = [*functions]
    while pending and len(seen) < _MAX_LOOKED_AT:
        x = pending.pop()
        kind = type(x)
        if kind in _HOLD_NOTHING or isinstance(x, type) or id(x) in seen:
            continue
        seen.add(id(x))
        if isinstance(x, Tracer):
            is_alive = getattr(x._trace, "alive", True) or substitute(x, context.trace) is not x
            if is_alive and type(x.aval) is ShapedArray:
                found.append(x)
        else:
            pending += _references(x, kind)
    return found


def _references(x: Any, kind: type) -> Iterator[Any]:
    """Objects that `x`, of type `kind`, refers to."""
    if kind is FunctionType:
        for cell in x.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # a closure variable without a value yet
                continue
        yield from x.__defaults__ or ()
        yield from (x.__kwdefaults__ or {}).values()
        if hasattr(x, "__wrapped__"):
            yield x.__wrapped__
    elif kind is MethodType:
        yield x.__self__
        yield x.__func__
    elif isinstance(x, functools.partial):
        yield x.func
        yield from x.args
        yield from x.keywords.values()
    elif isinstance(x, dict):
        yield from x.values()
    elif isinstance(x, (list, tuple, set, frozenset)):
        yield from x
    else:
        leaves, _ = flatten(x)
        yield from (leaf for leaf in leaves if leaf is not x)
        yield from getattr(x, "__dict__", {}).values()


class SubstitutingTrace(Trace):
    """Runs primitives under the parent trace, after substituting values for tracers of other traces."""

    __slots__ = ("parent", "used", "values")

    def __init__(self, parent: Trace, values: dict[int, Any]) -> None:
        self.parent = parent
        self.values = values
        """Substitutes by the id of the traced value."""
        self.used: set[int] = set()
        """Ids of the values that were substituted."""

    def of(self, x: Any) -> Any:
        """The substitute of `x`, or `x` itself."""
        key = id(x)
        if key not in self.values or not isinstance(x, Tracer):
            return x
        self.used.add(key)
        return self.values[key]

    def as_tangent(self, value: Any) -> Any:
        return self.parent.as_tangent(value)

    def interpret(self, primitive: Primitive, operands: Operands, params: Any) -> Values:
        with use_trace(self.parent):
            return self.parent.interpret(primitive, tuple(map(self.of, operands)), params)

    def run_plan(self, plan: ExecutionPlan, operands: Values) -> Results:
        with use_trace(self.parent):
            return self.parent.run_plan(plan, [*map(self.of, operands)])

    def custom_call(self, call: Any, operands: Operands) -> Values:
        # The call's function runs under this trace, because it may use the same values.
        return self.parent.custom_call(call, tuple(map(self.of, operands)))

    def name_of_argument(self, x: Any) -> str | None:
        return self.parent.name_of_argument(x)


class Captured:
    """The traced values captured by the rules of one function, which become the leading operands of its calls."""

    def __init__(self, owner: object, tracers: Sequence[Tracer]) -> None:
        self.owner = owner
        """The object to which the rules belong."""
        self.tracers = tuple(tracers)
        self.used: set[int] | None = None
        """Indices of the captured values that the function itself uses; None until it has run."""

    def split(self, values: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        """(operands for the captured values, other operands)."""
        n = len(self.tracers)
        return values[:n], values[n:]

    def run(self, rule: Function, values: Operands, *arguments: Any) -> Any:
        """`rule(*arguments)` with `values` substituted for the captured values."""
        return self._run(rule, values, arguments)[0]

    def in_function(self, function: Function) -> Function:
        """Adds the captured values as leading operands to `function`, a function of flat values."""

        def convert(*operands: Any) -> Any:
            values, rest = self.split(operands)
            results, used = self._run(function, values, rest)
            self.used = {i for i, x in enumerate(self.tracers) if id(x) in used}
            return results

        return convert

    def _run(
        self, function: Function, values: Operands, arguments: Sequence[Any]
    ) -> tuple[Any, set[int]]:
        standing_in = {id(x): v for x, v in strict_zip(self.tracers, values)}
        trace = SubstitutingTrace(context.trace, standing_in)
        with use_trace(trace):
            result = function(*arguments)
        leaves, tree = flatten(result)  # a result may be a captured value
        return tree.unflatten([*map(trace.of, leaves)]), trace.used


def substitute(x: Any, trace: Any) -> Any:
    """Applies the substitutions of `trace` and of the traces around it to `x`."""
    while trace is not None:
        if type(trace) is SubstitutingTrace:
            x = trace.of(x)
        trace = getattr(trace, "parent", None)
    return x
