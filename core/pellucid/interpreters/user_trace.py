"""Traces that libraries define: `process_primitive` interprets each operation on their tracers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from pellucid._machine.base.errors import UnsupportedError
from pellucid._machine.higher_order.custom_jvp import custom_jvp_call_p
from pellucid._machine.higher_order.custom_rules import SymbolicZero, as_rule_argument
from pellucid._machine.higher_order.custom_vjp import custom_vjp_call_p
from pellucid._machine.ir import Zero
from pellucid._machine.ir.primitive import Primitive
from pellucid._machine.tracing.trace import Trace as BuiltIn
from pellucid.extend.linear_util import WrappedFun, wrap_init
from pellucid.interpreters.user_primitive import as_list


class TraceTag:
    """Identity of a transformation, for tracers of several traces that belong to one.

    Tags are compared by `is`: all are equal, so that caches serve calls under different ones.

    >>> TraceTag() == TraceTag(), TraceTag() is TraceTag()
    (True, False)
    """

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TraceTag)

    def __hash__(self) -> int:
        return hash(TraceTag)


class _CountsBuiltIns(type):
    """Makes every trace an instance of `Trace`; subclasses stay apart."""

    def __instancecheck__(cls, instance: object) -> bool:
        if cls is not Trace:
            return type.__instancecheck__(cls, instance)
        # The bottom trace is of another class until it is first used.
        return isinstance(instance, BuiltIn) or getattr(instance, "is_eager", False)


class Trace(BuiltIn, metaclass=_CountsBuiltIns):
    """Base class of traces of libraries, which are current between `set_current_trace(trace)` and the end of its block.

    Subclasses define `process_primitive(primitive, tracers, params)`, which returns the result or, of primitives with
    `multiple_results`, a list; it evaluates by `primitive.bind_with_trace(parent, values, avals, params)`. Their tracers are
    subclasses of `core.Tracer`, made by `super().__init__(trace, aval)`.

    >>> from pellucid.extend.core import set_current_trace, take_current_trace
    >>> class Counting(Trace):
    ...     count = 0
    ...     def process_primitive(self, primitive, tracers, params):
    ...         self.count += 1
    ...         return primitive.bind_with_trace(self.parent, tracers, pl.typeof(tracers[0]), params)
    >>> counting = Counting()
    >>> with take_current_trace() as counting.parent, set_current_trace(counting):
    ...     y = pl.lax.sin(pl.lax.cos(np.float32(0)))
    >>> counting.count, y
    (2, Array(0.84147096, dtype=float32))
    """

    evaluates_its_tracers = True

    def __init__(self) -> None:
        self.alive = True

    def invalidate(self) -> None:
        """Refuse uses of the trace's tracers from now on."""
        self.alive = False

    def full_raise(self, x: Any) -> Any:
        """`x`: values of other traces are the subclass's to wrap."""
        return x

    def stage_value(self, val: Any) -> Any:
        """A value of the enclosing trace as this trace's; subclasses make tracers."""
        return val

    def process_primitive(
        self, primitive: Primitive[Any], tracers: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        """The result of one operation; subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__}.process_primitive")

    def process_custom_jvp_call(
        self, primitive: Any, fun: WrappedFun, jvp: WrappedFun, tracers: Sequence[Any], *, symbolic_zeros: bool
    ) -> Sequence[Any]:  # fmt: skip
        """Flat results of a function with a forward rule; subclasses define it.

        `jvp` takes primals and tangents in one list; `primitive.bind(*values, subfuns=(fun, jvp), symbolic_zeros=...)`
        calls the function under another trace.
        """
        raise NotImplementedError(f"{type(self).__name__}.process_custom_jvp_call")

    def process_custom_vjp_call(
        self, primitive: Any, fun: WrappedFun, fwd: Any, bwd: Any, tracers: Sequence[Any], *, out_trees: Any, symbolic_zeros: bool
    ) -> Sequence[Any]:  # fmt: skip
        """Flat results of a function with a backward rule; subclasses define it.

        `primitive.bind(*values, subfuns=(fun, fwd, bwd))` calls the function under another trace. `out_trees` is None here;
        calling `fwd` or `bwd` raises UnsupportedError.
        """
        raise NotImplementedError(f"{type(self).__name__}.process_custom_vjp_call")

    # Our contract of a trace -----------------------------------------------------------------------

    def interpret(self, primitive, operands, params):
        result = self.process_primitive(primitive, list(operands), params._asdict())
        return as_list(primitive, result, f"{type(self).__name__}.process_primitive")

    def custom_call(self, call, operands):
        fun = wrap_init(call.function)
        if call.has_forward_mode:

            def jvp(*values: Any) -> list[Any]:
                n = len(values) // 2
                tangents = [Zero(t.aval) if type(t) is SymbolicZero else t for t in values[n:]]
                primals_out, tangents_out = call.rule(values[:n], tangents)
                return [*primals_out, *[as_rule_argument(t, True) for t in tangents_out]]

            results = self.process_custom_jvp_call(
                custom_jvp_call_p, fun, wrap_init(jvp), list(operands), symbolic_zeros=call.symbolic_zeros
            )  # fmt: skip
        else:
            rules = _Rule("fwd", call), _Rule("bwd", call)
            results = self.process_custom_vjp_call(
                custom_vjp_call_p, fun, *rules, list(operands), out_trees=None, symbolic_zeros=False
            )  # fmt: skip
        return list(results)


@dataclass(frozen=True)
class _Rule:
    """A rule of a custom_vjp, which a trace can pass on and not call."""

    name: str
    call: Any

    def call_wrapped(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise UnsupportedError(
            f"a trace of a library can't call the rule `{self.name}` of a custom_vjp.",
            do="Call `fun`, and differentiate outside of the trace.",
        )

    __call__ = call_wrapped


__all__ = ["Trace", "TraceTag"]
