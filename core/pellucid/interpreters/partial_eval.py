"""Dead code, and programs of what is unknown, under the names of `jax.interpreters.partial_eval`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pellucid.base.functional import strict_zip
from pellucid.extend.linear_util import WrappedFun
from pellucid.higher_order.calls import closed_call_p, jit_p
from pellucid.higher_order.custom_jvp import CustomJvpCall
from pellucid.ir.jaxpr import Jaxpr
from pellucid.ir.primitive import called
from pellucid.ir.rewriting import remove_dead_equations
from pellucid.ir.rules import Operands, Values
from pellucid.tracing.context import use_trace
from pellucid.tracing.staging import StagingTrace, StagingTracer, replay
from pellucid.tracing.trace import Trace


def dce_jaxpr(
    jaxpr: Jaxpr, used_outputs: Sequence[bool], instantiate: bool = False
) -> tuple[Jaxpr, list[bool]]:
    """`jaxpr` without what its `used_outputs` don't need, and whether each of its inputs is needed.

    Inputs that aren't needed are dropped unless `instantiate`. Equations with effects stay.

    >>> jaxpr = pl.make_jaxpr(lambda x, y: (pl.lax.sin(x), pl.lax.cos(y)))(1.0, 2.0).jaxpr
    >>> print(*dce_jaxpr(jaxpr, [True, False]))
    { lambda ; a:f32[]. let b:f32[] = sin a in (b,) } [True, False]
    """
    return remove_dead_equations(jaxpr, used_outputs, keep_inputs=instantiate)


class PartialVal(tuple[Any, Any]):
    """A value that is known, as (None, value), or the type of one that isn't, as (type, None).

    >>> PartialVal.unknown(pl.typeof(3.0)), PartialVal.known(3.0)
    ((ShapedArray(float32[], weak_type=True), None), (None, 3.0))
    """

    __slots__ = ()

    @classmethod
    def known(cls, const: Any) -> PartialVal:
        """A known value.

        >>> PartialVal.known(3).get_known()
        3
        """
        return cls((None, const))

    @classmethod
    def unknown(cls, aval: Any) -> PartialVal:
        """A value of type `aval`.

        >>> PartialVal.unknown(pl.typeof(3.0)).is_known()
        False
        """
        return cls((aval, None))

    def is_known(self) -> bool:
        """Whether the value is known."""
        return self[0] is None

    def get_known(self) -> Any:
        """The value; None where it isn't known."""
        return self[1]

    def get_aval(self) -> Any:
        """The type of an unknown value; None where it is known."""
        return self[0]


class _PartialTrace(StagingTrace):
    """Stages what depends on an unknown value; the rest is its parent's. Known parts of jitted calls are, too."""

    __slots__ = ()
    parent: Trace

    def is_unknown(self, x: Any) -> bool:
        """Whether `x` depends on an unknown value."""
        return type(x) is StagingTracer and x._trace is self

    def interpret(self, primitive, operands, params) -> Values:
        if not any(map(self.is_unknown, operands)):
            with use_trace(self.parent):
                return self.parent.interpret(primitive, operands, params)
        if primitive is jit_p or primitive is closed_call_p:
            with use_trace(self):
                return replay(called(primitive, params), (), *operands)
        return super().interpret(primitive, operands, params)

    def run_plan(self, plan, operands):
        return Trace.run_plan(self, plan, operands)

    def custom_call(self, call, operands):
        if not any(map(self.is_unknown, operands)):
            with use_trace(self.parent):
                return self.parent.custom_call(call, operands)
        if isinstance(call, CustomJvpCall):
            return list(call.function(*operands))
        return call.staged(self, operands)


def trace_to_jaxpr_nounits(
    fun: WrappedFun, pvals: Sequence[PartialVal], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[PartialVal], Values]:
    """Run a function of flat values some of which are unknown: what depends on these becomes a program.

    Returns: the program, from the unknown values of `pvals` to the unknown results; the results, those that are
    `instantiate` unknown in any case; and the constants of the program.

    >>> from pellucid.extend.linear_util import wrap_init
    >>> pvals = [PartialVal.known(2.0), PartialVal.unknown(pl.typeof(1.0))]
    >>> f = wrap_init(lambda x, y: [x + 1, pl.lax.sin(y)])
    >>> jaxpr, (known, unknown), consts = trace_to_jaxpr_nounits(f, pvals)
    >>> print(jaxpr, known, unknown.get_aval())
    { lambda ; a:f32[]. let b:f32[] = sin a in (b,) } (None, 3.0) ~float32[]
    """
    trace = _PartialTrace(fun.debug_info)
    operands: Operands = [
        pval.get_known() if pval.is_known() else trace.new_argument(pval.get_aval())
        for pval in pvals
    ]
    try:
        with use_trace(trace):
            results = list(fun.call_wrapped(*operands))
        always = [instantiate] * len(results) if isinstance(instantiate, bool) else instantiate
        unknown = [w or trace.is_unknown(x) for w, x in strict_zip(always, results)]
        jaxpr, consts = trace.finish([x for x, u in strict_zip(results, unknown) if u])
    finally:
        trace.close()
    avals = iter(jaxpr.out_avals)
    out_pvals = [
        PartialVal.unknown(next(avals)) if u else PartialVal.known(x)
        for x, u in strict_zip(results, unknown)
    ]
    return jaxpr, out_pvals, consts


__all__ = ["PartialVal", "dce_jaxpr", "trace_to_jaxpr_nounits"]
