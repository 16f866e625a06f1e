"""Rules that close over traced values: which values these are, and running a rule with others in their place.

A derivative or batching rule runs later than the function that it belongs to, when the trace of what it captured may have
ended. So the captured values become operands of the call, and a rule runs under a trace that puts the operands that
came of them in their place.
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
"""Objects that are looked at for traced values. What isn't found raises where a rule uses it, as its trace has ended."""
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
    """The traced arrays that functions refer to, each once: by closures, defaults, bound objects, containers and trees.

    Those whose trace has ended are left out, unless something stands in their place.
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
            is_alive = getattr(x._trace, "alive", True) or substituted(x, context.trace) is not x
            if is_alive and type(x.aval) is ShapedArray:
                found.append(x)
        else:
            pending += _referred(x, kind)
    return found


def _referred(x: Any, kind: type) -> Iterator[Any]:
    """What an object holds."""
    if kind is FunctionType:
        for cell in x.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # a variable without value yet
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
    """The parent trace, to which values of other traces are known by what stands in their place."""

    __slots__ = ("parent", "used", "values")

    def __init__(self, parent: Trace, values: dict[int, Any]) -> None:
        self.parent = parent
        self.values = values
        """What stands in the place of a traced value, by the value's id."""
        self.used: set[int] = set()
        """Ids of the values that something was put in the place of."""

    def of(self, x: Any) -> Any:
        """The value that stands in the place of `x`."""
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
        # Its function runs under this trace, as it may use the same values.
        return self.parent.custom_call(call, tuple(map(self.of, operands)))

    def name_of_argument(self, x: Any) -> str | None:
        return self.parent.name_of_argument(x)


class Captured:
    """The traced values that the rules of one function captured, which become the first operands of its calls."""

    def __init__(self, owner: object, tracers: Sequence[Tracer]) -> None:
        self.owner = owner
        """What the rules belong to."""
        self.tracers = tuple(tracers)
        self.used: set[int] | None = None
        """Positions of those that the function itself depends on; None as long as it wasn't run."""

    def split(self, values: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        """(values for what was captured, the others)."""
        n = len(self.tracers)
        return values[:n], values[n:]

    def run(self, rule: Function, values: Operands, *arguments: Any) -> Any:
        """`rule(*arguments)` with `values` in the place of what was captured."""
        return self._run(rule, values, arguments)[0]

    def in_function(self, function: Function) -> Function:
        """`function` of flat values with the values for what was captured as first operands."""

        def converted(*operands: Any) -> Any:
            values, rest = self.split(operands)
            results, used = self._run(function, values, rest)
            self.used = {i for i, x in enumerate(self.tracers) if id(x) in used}
            return results

        return converted

    def _run(
        self, function: Function, values: Operands, arguments: Sequence[Any]
    ) -> tuple[Any, set[int]]:
        standing_in = {id(x): v for x, v in strict_zip(self.tracers, values)}
        trace = SubstitutingTrace(context.trace, standing_in)
        with use_trace(trace):
            result = function(*arguments)
        leaves, tree = flatten(result)  # they may be what was captured
        return tree.unflatten([*map(trace.of, leaves)]), trace.used


def substituted(x: Any, trace: Any) -> Any:
    """What stands in the place of `x` under `trace` and those around it; `x` where nothing does."""
    while trace is not None:
        if type(trace) is SubstitutingTrace:
            x = trace.of(x)
        trace = getattr(trace, "parent", None)
    return x
