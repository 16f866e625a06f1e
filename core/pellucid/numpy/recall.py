"""Under a trace, a NumPy function writes again the equations that it wrote for the same types of operands.

Promotion, checks of axes and choices between primitives are Python; for one function, the types of its operands
and its static arguments they always come out the same. So what they bind is remembered when a kind of call comes for the second time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from pellucid.base import PellucidError, Symbol, cached
from pellucid.ir import ShapedArray
from pellucid.tracing import Plan, StagingTrace, Tracer, as_operand, context, plan_of, use_trace
from pellucid.xla.arrays import ARRAY_TYPES
from pellucid.xla.flags import trace_context

_NEW = Plan([], [], [], [])
_SEEN = Plan([], [], [], [])
"""Of a kind that was seen once."""


class _Kind:
    """A kind of calls of one function; its plan is None where none can be used again."""

    __slots__ = ("plan",)

    def __init__(self) -> None:
        self.plan: Plan | None = _NEW


@cached(1 << 16)
def _kind(function: Callable[..., Any], *key: Any) -> _Kind:
    return _Kind()


class _Draft(StagingTrace):
    """A trace whose equations are no part of a program."""

    __slots__ = ()
    is_heard = False


def remembering(
    function: Callable[..., Any], static_nums: tuple[int, ...], static_names: tuple[str, ...]
) -> Callable[..., Any]:
    """`function` for use under a trace; calls of a kind that was seen before bind what they bound then.

    A kind is the types of arrays and tracers, the values of Python numbers and of the arguments in `static_nums`
    and `static_names`, and the options that tracing depends on. Other calls (of lists, of NumPy arrays) simply run.
    """
    static_positions = frozenset(static_nums)
    static = frozenset(static_names)

    def plainly(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        args, kwargs = with_operands(args, kwargs)
        return function(*args, **kwargs)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        key: list[Any] = [function, trace_context()]
        operands: list[Any] = []
        for i, x in enumerate(args):
            if i in static_positions:
                if _is_operand(x):
                    return function(*args, **kwargs)
                key.append((type(x), x))
            elif not _noted(x, key, operands):
                return plainly(args, kwargs)
        for name, x in kwargs.items():
            key.append(name)
            if name in static:
                if _is_operand(x):
                    return function(*args, **kwargs)
                key.append((type(x), x))
            elif not _noted(x, key, operands):
                return plainly(args, kwargs)
        try:
            kind = _kind(*key)
        except TypeError:  # a static argument that can't be hashed
            return function(*args, **kwargs)
        plan = kind.plan
        if plan is _NEW:  # what happens once only is not worth a plan
            kind.plan = _SEEN
            return function(*args, **kwargs)
        if plan is _SEEN:
            plan = kind.plan = _plan(function, args, kwargs, operands)
        if plan is None:
            return function(*args, **kwargs)
        results = context.trace.run_plan(plan, operands)
        return results[0] if plan.container is None else plan.container(results)

    return call


def with_operands(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call, with arrays in place of objects that have `__jax_array__`, also in sequences."""
    return tuple(map(_operand, args)), {name: _operand(x) for name, x in kwargs.items()}


def _operand(x: Any) -> Any:
    kind = type(x)
    return kind(map(_operand, x)) if kind in (list, tuple) else as_operand(x)


def _noted(x: Any, key: list[Any], operands: list[Any]) -> bool:
    """Note what of `x` decides the kind of a call; False if that isn't known."""
    kind = type(x)
    if _is_operand(x):
        aval = x.aval
        key.append(aval)
        operands.append(x)
        return type(aval) is ShapedArray
    if x is None or kind is int or kind is bool or isinstance(x, Symbol):
        key.append((kind, x))
        return True
    if kind is float and x != 0 and x == x:  # noqa: PLR0124  (zeros of both signs are equal, NaN isn't)
        key.append((kind, x))
        return True
    return False


def _is_operand(x: Any) -> bool:
    return type(x) in ARRAY_TYPES or isinstance(x, Tracer)


def _plan(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], operands: list[Any]
) -> Plan | None:
    """The operations that the call binds; None if they can't be used again."""
    containers: list[Any] = []

    def run(*tracers: Any) -> list[Any]:
        arguments = iter(tracers)
        result = function(
            *[next(arguments) if _is_operand(x) else x for x in args],
            **{name: next(arguments) if _is_operand(x) else x for name, x in kwargs.items()},
        )
        several = type(result) in (list, tuple)
        containers.append(type(result) if several else None)
        return list(result) if several else [result]

    trace = _Draft()
    arguments = [trace.new_argument(x.aval) for x in operands]
    try:
        with use_trace(trace):
            results = run(*arguments)
        jaxpr, consts = trace.finish(results)
    except (PellucidError, TypeError, ValueError, IndexError):
        return None  # the call itself will raise it, about the user's own values
    finally:
        trace.close()
    if any(_is_operand(c) for c in consts):
        return None
    return plan_of(jaxpr, consts, containers[0])
