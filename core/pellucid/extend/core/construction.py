"""Parts of programs that interpreters of libraries make: variables, equations, calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import dtypes
from pellucid._machine.base.errors import ArgumentTypeError, ArgumentValueError
from pellucid._machine.base.typing import Function
from pellucid._machine.higher_order.calls import ClosedCall, ClosedCallParams, call_p
from pellucid._machine.ir.effects import Effects
from pellucid._machine.ir.jaxpr import (
    Atom,
    DebugInfo,
    Equation,
    Jaxpr as Program,
    JaxprEqn,
    Var,
    subjaxprs as programs_among,
)
from pellucid._machine.ir.primitive import Primitive, params_of
from pellucid._machine.tracing.current import context
from pellucid._machine.tracing.operands import types_of
from pellucid._machine.tracing.trace import bind
from pellucid._machine.transforms.derived import stage_open
from pellucid.extend.linear_util import WrappedFun
from pellucid.extend.source_info_util import as_scope

array_types: set[type] = {np.ndarray, *[dtype.type for dtype in dtypes.ALL]}
"""Types of NumPy's values that are taken as arrays."""
literalable_types: set[type] = {bool, int, float, complex, *array_types}
"""Types of scalars that an equation may contain as a `Literal`."""


def gensym() -> Callable[[Any], Var]:
    """A function that makes a new variable of a type.

    >>> new_variable = gensym()
    >>> new_variable(pl.typeof(1.0)).aval
    ShapedArray(float32[], weak_type=True)
    """
    return Var


def new_jaxpr_eqn(
    invars: Sequence[Atom],
    outvars: Sequence[Var],
    primitive: Primitive[Any],
    params: Mapping[str, Any],
    effects: Effects | set[Any],
    source_info: Any = None,
    ctx: Any = None,
) -> JaxprEqn:
    """An equation of a program; `source_info` has its traceback and name stack, and `ctx` changes nothing.

    Raises: ArgumentTypeError for params that the primitive lacks or needs.

    >>> program = pl.make_jaxpr(pl.lax.sin)(1.0).jaxpr
    >>> y = gensym()(program.out_avals[0])
    >>> eqn = new_jaxpr_eqn(program.invars, [y], pl.lax.cos_p, program.eqns[0].params, set())
    >>> program.replace(eqns=[eqn], outvars=[y])
    { lambda ; a:f32[]. let b:f32[] = cos a in (b,) }
    """
    stack = None if source_info is None else source_info.traceback
    scope = None if source_info is None else as_scope(source_info.name_stack)
    return JaxprEqn(
        Equation(
            tuple(invars), tuple(outvars), primitive, params_of(primitive, params), frozenset(effects),
            source=stack, scope=scope,
        )
    )  # fmt: skip


class _CountsPrograms(type):
    """Makes every program an instance of `Jaxpr`."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Program)


class Jaxpr(Program, metaclass=_CountsPrograms):
    """A program of its variables, result atoms and equations, in the order of arguments that libraries use.

    Effects are those that are passed and those of the equations. `is_high` must be False: programs hold arrays alone.

    Raises: ArgumentTypeError for equations that are none; ArgumentValueError for a program that `is_high`.

    >>> program = pl.make_jaxpr(pl.lax.sin)(1.0).jaxpr
    >>> Jaxpr([], program.invars, [*program.outvars, *program.invars], program.eqns)
    { lambda ; a:f32[]. let b:f32[] = sin a in (b, a) }
    """

    def __new__(  # pyright: ignore[reportInconsistentConstructor]  # makes a program, not an instance
        cls,
        constvars: Sequence[Var],
        invars: Sequence[Var],
        outvars: Sequence[Atom],
        eqns: Sequence[JaxprEqn],
        effects: Effects | set[Any] = frozenset(),
        debug_info: DebugInfo | None = None,
        is_high: bool = False,
    ) -> Program:
        if is_high:
            raise ArgumentValueError(
                "Jaxpr: `is_high` must be False, as programs hold arrays alone.", got="is_high=True"
            )
        bad = [e for e in eqns if not isinstance(e, JaxprEqn)]
        if bad:
            raise ArgumentTypeError(
                "Jaxpr needs equations as `new_jaxpr_eqn` makes them.",
                got=f"got {type(bad[0]).__name__} among eqns",
            )
        program = Program(constvars, invars, [e.equation for e in eqns], outvars, debug=debug_info)
        more = frozenset(effects) - program.effects
        if more:
            program.effects = program.effects | more
        return program


def subjaxprs(jaxpr: Program) -> Iterator[Program]:
    """The programs among the params of the equations of `jaxpr`, without those within them.

    >>> [len(inner.eqns) for inner in subjaxprs(pl.make_jaxpr(pl.jit(lambda x: x + 1))(1.0).jaxpr)]
    [1]
    """
    return (inner for equation in jaxpr.equations for inner in programs_among(equation.params))


class _CountsCalls(type):
    """Makes the primitives of calls instances of `CallPrimitive`."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, ClosedCall)


class CallPrimitive(ClosedCall, metaclass=_CountsCalls):
    """A new primitive called `name` that calls functions: `bind(*operands, subfuns=(function,))`.

    >>> from pellucid.extend.linear_util import wrap_init
    >>> layer_p = CallPrimitive("layer")
    >>> double = wrap_init(lambda x: [2 * x])
    >>> print(pl.make_jaxpr(lambda x: layer_p.bind(x, subfuns=(double,)))(1.0))
    { lambda ; a:f32[]. let
        b:f32[] = layer[
          call_jaxpr={ lambda ; c:f32[]. let d:f32[] = mul 2.0:f32[] c in (d,) }
        ] a
      in (b,) }
    """

    def __init__(self, name: str) -> None:
        # The registry of built-in primitives must keep them, whatever names a library chooses.
        self.name = name

    def __reduce__(self) -> Any:
        raise ArgumentTypeError(
            f"`{self.name}`, a primitive made by CallPrimitive, can't be pickled."
        )

    def bind(self, *operands: Any, **params: Any) -> Any:
        return _call(self, operands, params)


def _call(primitive: ClosedCall, operands: tuple[Any, ...], params: dict[str, Any]) -> list[Any]:
    if params.keys() == {"jaxpr"}:
        return list(bind(primitive, *operands, params=ClosedCallParams(params["jaxpr"])))
    functions = params.pop("subfuns", ())
    if len(functions) != 1 or not isinstance(functions[0], WrappedFun) or params:
        raise ArgumentTypeError(
            f"`{primitive.name}` calls one function of flat values.",
            got=f"subfuns: {', '.join(type(f).__name__ for f in functions) or 'none'}"
            + (f"; params {', '.join(params)}" if params else ""),
            do="Pass `subfuns=(linear_util.wrap_init(function),)`.",
        )
    function: Function = functions[0].call_wrapped
    if context.trace.is_eager:
        return list(function(*operands))
    program, consts = stage_open(function, types_of(operands), functions[0].debug_info)
    return list(bind(primitive, *consts, *operands, params=ClosedCallParams(program)))


def call(*operands: Any, **params: Any) -> list[Any]:
    """Applies the only function in `subfuns` to flat values; a trace stages it as an equation `call`.

    Raises: ArgumentTypeError for other params.

    >>> from pellucid.extend.linear_util import wrap_init
    >>> call(1.0, 2.0, subfuns=(wrap_init(lambda x, y: [x + y, x]),))
    [3.0, 1.0]
    """
    return _call(call_p, operands, params)
