"""Dead-code elimination and partial evaluation, under the names of `jax.interpreters.partial_eval`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress
from typing import Any

from pellucid._machine.base.errors import UnsupportedError
from pellucid._machine.base.functional import copy_with_name, strict_zip
from pellucid._machine.base.typing import Function
from pellucid._machine.higher_order.calls import closed_call_p, jit_p
from pellucid._machine.higher_order.custom_jvp import CustomJvpCall
from pellucid._machine.higher_order.remat_policies import decision
from pellucid._machine.ir.jaxpr import ClosedJaxpr, DebugInfo, Equation, Jaxpr, JaxprEqn
from pellucid._machine.ir.primitive import (
    HigherOrderPrimitive,
    Primitive,
    called_program,
    params_of,
)
from pellucid._machine.ir.rewriting import remove_dead_equations
from pellucid._machine.ir.rules import Operands, Values
from pellucid._machine.tracing.current import use_trace
from pellucid._machine.tracing.operands import types_of
from pellucid._machine.tracing.staging import (
    StagingTrace,
    StagingTracer,
    StagingTracer as DynamicJaxprTracer,
    replay,
    stage,
)
from pellucid._machine.tracing.trace import Trace, bind
from pellucid.extend.linear_util import WrappedFun
from pellucid.interpreters.tables import RuleTable, checked_list


def dce_jaxpr(
    jaxpr: Jaxpr, used_outputs: Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[bool]]:
    """`jaxpr` with only its `used_outputs` and the equations that they need, and for each of its inputs whether it is
    needed.

    Inputs that aren't needed are dropped unless they are to be instantiated. Equations with effects stay.

    >>> jaxpr = pl.make_jaxpr(lambda x, y: (pl.lax.sin(x), pl.lax.cos(y)))(1.0, 2.0).jaxpr
    >>> print(*dce_jaxpr(jaxpr, [True, False]))
    { lambda ; a:f32[]. let b:f32[] = sin a in (b,) } [True, False]
    """
    return remove_dead_equations(jaxpr, used_outputs, keep_inputs=instantiate)


def trace_to_jaxpr_dynamic(
    fun: WrappedFun,
    in_avals: Sequence[Any],
    *,
    keep_inputs: Sequence[bool] | None = None,
    lower: bool = False,
    auto_dce: bool = False,
) -> tuple[Jaxpr, list[Any], Values]:
    """The program of a function of flat values, the types of its results, and the values of its constants.

    Inputs that aren't in `keep_inputs` belong to the program alone. `lower` changes nothing; with `auto_dce` equations that
    no result needs are removed.

    >>> from pellucid.extend.linear_util import wrap_init
    >>> print(trace_to_jaxpr_dynamic(wrap_init(lambda x: [x + 1]), [pl.typeof(1)])[0])
    { lambda ; a:i32[]. let b:i32[] = add a 1:i32[] in (b,) }
    """
    keep = [True] * len(in_avals) if keep_inputs is None else keep_inputs

    def function(*arguments: Any) -> Values:
        return list(fun.call_wrapped(*[x for x, k in strict_zip(arguments, keep) if k]))

    jaxpr, consts = stage(function, tuple(in_avals), fun.debug_info)
    if auto_dce:
        jaxpr, used, _ = dce_jaxpr_consts(jaxpr, [True] * len(jaxpr.outvars), instantiate=True)
        consts = [c for c, u in strict_zip(consts, used) if u]
    return jaxpr, list(jaxpr.out_avals), consts


def dce_jaxpr_consts(
    jaxpr: Jaxpr, used_outputs: Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[bool], list[bool]]:
    """Like `dce_jaxpr`, also of constants: the program, and whether each constant and each input is needed.

    >>> jaxpr = pl.make_jaxpr(lambda x, y: (x + np.arange(2), y + np.ones(2)))(1, 2).jaxpr
    >>> dce_jaxpr_consts(jaxpr, [False, True])[1:]
    ([False, True], [False, True])
    """
    pruned, used_inputs = dce_jaxpr(jaxpr, used_outputs, instantiate)
    needed = set(pruned.constvars)
    return pruned, [v in needed for v in jaxpr.constvars], used_inputs


def _adapted_dead_code(primitive: Primitive[Any], rule: Function) -> Function:
    def dead_code(used: list[bool], equation: Equation) -> tuple[list[bool], Equation | None]:
        answer = checked_list(primitive, "dce", rule(used, JaxprEqn(equation)), 2)
        used_operands = checked_list(primitive, "dce", answer[0], len(equation.operands))
        return used_operands, None if answer[1] is None else answer[1].equation

    return dead_code


def _stated_dead_code(primitive: Primitive[Any], dead_code: Function) -> Function:
    def rule(used_outputs: Sequence[bool], eqn: JaxprEqn) -> tuple[list[bool], JaxprEqn | None]:
        used, remaining = dead_code(list(used_outputs), eqn.equation)
        return used, None if remaining is None else JaxprEqn(remaining)

    return rule


dce_rules = RuleTable("dead_code", _adapted_dead_code, _stated_dead_code)
"""Rules (whether each result is used, equation) -> (whether each operand is, the equation that remains or None).

Equations of primitives without a rule need all of their operands.
"""


def _adapt_saved_rule(primitive: Primitive[Any], rule: Function) -> Function:
    name = "partial_eval_jaxpr_custom"

    def save(policy: Function, equation: Equation) -> dict[Any, bool]:
        def saveable(*operation: Any, **params: Any) -> Any:
            return decision(policy(*operation, **params))

        n, eqn = len(equation.operands), JaxprEqn(equation)
        answer = checked_list(primitive, name, rule(saveable, [False] * n, [True] * n, eqn), 5)
        first, staged, unknown, instantiated, residuals = answer
        values = [*equation.operands, *equation.results]
        if (
            any(unknown)
            or not _is_equation(first, equation)
            or not (not any(instantiated) if staged is None else _is_equation(staged, equation))
            or any(all(x is not v for v in values) for x in residuals)
        ):
            raise UnsupportedError(
                f"the {name} rule of `{primitive.name}` can only choose whether `checkpoint` keeps its results.",
                got=f"got {answer!r:.200}",
                do="Return (eqn, None, [False, ...], [False, ...], eqn.outvars) to keep them, and (eqn, eqn, [False, ...], "
                "[True, ...], []) to compute them again; `custom_vjp` defines other residuals.",
            )
        return {v: True for v in equation.results if staged is None}

    return save


def _is_equation(eqn: Any, equation: Equation) -> bool:
    return isinstance(eqn, JaxprEqn) and eqn.equation is equation


def _refuse_rule(primitive: Primitive[Any], rule: Function) -> Function:
    raise UnsupportedError(
        f"`{primitive}` can't have a rule of partial evaluation: no transformation asks for one.",
        got="custom_partial_eval_rules[...] = rule",
        do="Define its jvp rule, `ad.primitive_jvps[p] = rule`: what that computes of primals alone is known, and what "
        "tangents take part in is unknown.",
    )


def _refuse_lookup(primitive: Primitive[Any], rule: Function) -> Function:
    raise KeyError(primitive)


custom_partial_eval_rules = RuleTable("partial_eval", _refuse_rule, _refuse_lookup)
"""Rules of partial evaluation, of which there are none: jvp rules split derivatives into what is known and what isn't.

Raises: UnsupportedError where a rule is set.
"""
partial_eval_jaxpr_custom_rules = RuleTable("saved", _adapt_saved_rule, _refuse_lookup)
"""Rules by which `checkpoint` keeps results of primitives of libraries or computes them again.

`rule(policy, [False, ...], [True, ...], equation)` returns (equation, None, [False, ...], [False, ...], results) to keep
them, and (equation, equation, [False, ...], [True, ...], []) to compute them again.
"""


def dce_jaxpr_call_rule(
    used_outputs: Sequence[bool], eqn: JaxprEqn
) -> tuple[list[bool], JaxprEqn | None]:
    """A rule of `dce_rules` for primitives that call the program of their param `call_jaxpr` once.

    What the used results don't need leaves the program, and operands and results leave the equation.

    >>> from pellucid.extend.core import Primitive
    >>> p = Primitive("called")
    >>> p.multiple_results = True
    >>> _ = p.def_abstract_eval(lambda *avals, call_jaxpr: call_jaxpr.out_avals)
    >>> dce_rules[p] = dce_jaxpr_call_rule
    >>> program = pl.make_jaxpr(lambda x, y: (pl.lax.sin(x), pl.lax.cos(y)))(1.0, 2.0)
    >>> jaxpr = pl.make_jaxpr(lambda x, y: p.bind(x, y, call_jaxpr=program))(1.0, 2.0).jaxpr
    >>> dce_jaxpr(jaxpr, [False, True])[1]
    [False, True]
    """
    equation, program = eqn.equation, eqn.params["call_jaxpr"]
    is_closed = isinstance(program, ClosedJaxpr)
    jaxpr, used_consts, used = dce_jaxpr_consts(
        program.jaxpr if is_closed else program, used_outputs
    )
    if not any(used_outputs) and not jaxpr.effects:
        return [False] * len(used), None
    call = ClosedJaxpr(jaxpr, list(compress(program.consts, used_consts))) if is_closed else jaxpr
    remaining = equation.replace(
        operands=tuple(compress(equation.operands, used)),
        results=tuple(compress(equation.results, used_outputs)),
        params=params_of(equation.primitive, {**eqn.params, "call_jaxpr": call}),
        effects=jaxpr.effects,
    )
    return used, JaxprEqn(remaining)


dce_jaxpr_closed_call_rule = copy_with_name(dce_jaxpr_call_rule, "dce_jaxpr_closed_call_rule")


class PartialVal(tuple[Any, Any]):
    """A known value, as (None, value), or the type of an unknown one, as (type, None).

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
        """The value; None if unknown."""
        return self[1]

    def get_aval(self) -> Any:
        """The type of an unknown value; None if it is known."""
        return self[0]


class _PartialTrace(StagingTrace):
    """Stages what depends on an unknown value; the rest is its parent's, also within calls, loops and branches.

    A result of a loop is known where nothing that it needs is unknown. What unknown results need is computed again for them.
    """

    __slots__ = ("is_split",)
    parent: Trace

    def __init__(self, debug: DebugInfo | None) -> None:
        super().__init__(debug)
        self.is_split = False
        """Whether the current equation belongs to a part that is staged as a whole."""

    def is_unknown(self, x: Any) -> bool:
        """Whether `x` depends on an unknown value."""
        return type(x) is StagingTracer and x._trace is self

    def interpret(self, primitive, operands, params) -> Values:
        if not any(map(self.is_unknown, operands)):
            with use_trace(self.parent):
                return self.parent.interpret(primitive, operands, params)
        if primitive is jit_p or primitive is closed_call_p:
            with use_trace(self):
                return replay(called_program(primitive, params), (), *operands)
        is_whole = self.is_split or all(map(self.is_unknown, operands))
        if isinstance(primitive, HigherOrderPrimitive) and not is_whole:
            return self._in_parts(primitive, operands, params)
        return super().interpret(primitive, operands, params)

    def _in_parts(self, primitive, operands, params) -> Values:
        """The results of a primitive with programs; those that depend only on known values are computed by the parent
        trace.
        """

        def function(*arguments: Any) -> Values:
            return bind(primitive, *arguments, params=params)

        debug = DebugInfo("partial_eval", primitive.name)
        jaxpr, consts = stage(function, types_of(operands), debug)
        n, is_unknown = len(jaxpr.outvars), [*map(self.is_unknown, operands)]

        def needs_unknown(i: int) -> bool:
            _, used = dce_jaxpr(jaxpr, [i == j for j in range(n)])
            return any(u and needed for u, needed in strict_zip(is_unknown, used))

        staged = [*map(needs_unknown, range(n))] if not (jaxpr.effects or consts) else [True] * n
        if all(staged):
            return super().interpret(primitive, operands, params)

        def results(trace: Trace, chosen: Sequence[bool]) -> Iterator[Any]:
            part, used = dce_jaxpr(jaxpr, chosen)
            with use_trace(trace):
                return iter(replay(part, (), *compress(operands, used)))

        computed = results(self.parent, [not s for s in staged])
        self.is_split = True
        try:
            recorded = results(self, staged)
        finally:
            self.is_split = False
        return [next(recorded if s else computed) for s in staged]

    def run_plan(self, plan, operands):
        return Trace.run_plan(self, plan, operands)

    def custom_call(self, call, operands):
        if not any(map(self.is_unknown, operands)):
            with use_trace(self.parent):
                return self.parent.custom_call(call, operands)
        if isinstance(call, CustomJvpCall):
            return list(call.function(*operands))
        return call.stage(self, operands)


def trace_to_jaxpr_nounits(
    fun: WrappedFun, pvals: Sequence[PartialVal], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[PartialVal], Values]:
    """Run a function of flat values some of which are unknown: what depends on these becomes a program.

    Results of calls, loops and branches are known if they don't depend on unknown values.

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


__all__ = [
    "DynamicJaxprTracer", "PartialVal", "custom_partial_eval_rules", "dce_jaxpr", "dce_jaxpr_call_rule",
    "dce_jaxpr_closed_call_rule", "dce_jaxpr_consts", "dce_rules", "partial_eval_jaxpr_custom_rules", "trace_to_jaxpr_dynamic", "trace_to_jaxpr_nounits",
]  # fmt: skip
