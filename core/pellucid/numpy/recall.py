"""Replays the equations of a NumPy function under a trace for operand types with which it was called before.

Promotion, checks of axes and choices between primitives are Python; for one function, the types of its operands
and its static arguments they always come out the same. So what they bind is remembered when a kind of call comes for the second time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import chain
from typing import Any

from pellucid._machine.base import PellucidError, Symbol, cached
from pellucid._machine.ir import Literal, ShapedArray
from pellucid._machine.runtime.transfer import from_host
from pellucid._machine.tracing import (
    Draft,
    ExecutionPlan,
    as_operand,
    context,
    execution_plan,
    is_array_like,
    name_operands,
    type_of,
    use_trace,
    value_types,
)
from pellucid._machine.xla.flags import trace_context
from pellucid._machine.xla.pytree import flatten

_NEW = ExecutionPlan([], [], [], [], list)
_SEEN = ExecutionPlan([], [], [], [], list)
"""The plan of a kind of calls that was seen once."""


class _Kind:
    """Calls of one function with equal operand types and static arguments; `plan` is None if their equations can't be
    replayed.
    """

    __slots__ = ("plan",)

    def __init__(self) -> None:
        self.plan: ExecutionPlan | None = _NEW


@cached(1 << 16)
def _kind(function: Callable[..., Any], *key: Any) -> _Kind:
    return _Kind()


def remembering(
    function: Callable[..., Any], static_nums: tuple[int, ...], static_names: tuple[str, ...]
) -> Callable[..., Any]:
    """`function` for use under a trace: repeated calls of a kind replay the equations of an earlier one.

    A kind is the types of arrays and tracers, the values of Python numbers and of the arguments in `static_nums`
    and `static_names`, and the options that tracing depends on. Other calls (of lists, of NumPy arrays) simply run.
    Errors name arguments. Numbers of the host among the results are arrays: folded ones would compute on by NumPy's rules.
    """
    static = frozenset((*static_nums, *static_names))

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        args, kwargs = with_operands(args, kwargs)
        result = function(*args, **kwargs)
        kind = type(result)
        return kind(map(_as_array, result)) if kind in (list, tuple) else _as_array(result)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        key: list[Any] = [function, trace_context(), len(args), *kwargs]
        operands: list[Any] = []
        try:
            for place, x in chain(enumerate(args), kwargs.items()):
                kind = type(x)
                if kind in value_types:
                    aval = x.aval
                    if place in static or type(aval) is not ShapedArray:
                        return run(args, kwargs)
                    key.append(aval)
                    operands.append(x)
                elif place in static or _is_known_by_value(x, kind):
                    key += kind, x
                else:
                    return run(args, kwargs)
            try:
                remembered = _kind(*key)
            except TypeError:  # a static argument that can't be hashed
                return run(args, kwargs)
            plan = remembered.plan
            if plan is _NEW:  # a plan is made at the second call of its kind
                remembered.plan = _SEEN
                return run(args, kwargs)
            if plan is _SEEN:
                plan = remembered.plan = _plan(function, args, kwargs, operands)
            if plan is None:
                return run(args, kwargs)
            results = context.trace.run_plan(plan, operands)
            return results[0] if plan.container is None else plan.container(results)
        except PellucidError as error:
            name_operands(error, [x for x in flatten((args, kwargs))[0] if is_array_like(x)])
            raise

    return call


def with_operands(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call, with arrays in place of objects that have `__jax_array__`, also in sequences."""
    return tuple(map(_operand, args)), {name: _operand(x) for name, x in kwargs.items()}


def _operand(x: Any) -> Any:
    kind = type(x)
    return kind(map(_operand, x)) if kind in (list, tuple) else as_operand(x)


def _as_array(x: Any) -> Any:
    if type(x) in value_types:
        return x
    operand = as_operand(x)
    if operand is not x:
        return _as_array(operand)
    return from_host(x, weak_type=type_of(x).weak_type)


def _is_known_by_value(x: Any, kind: type) -> bool:
    """Whether equal values of this kind are interchangeable; not a zero float (either sign is equal) and not NaN."""
    if kind is float:
        return x != 0 and x == x  # noqa: PLR0124
    return x is None or kind is int or kind is bool or isinstance(x, Symbol)


def _plan(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], operands: list[Any]
) -> ExecutionPlan | None:
    """The plan of the equations that a call binds; None if they can't be replayed."""
    containers: list[Any] = []

    def run(*tracers: Any) -> list[Any]:
        arguments = iter(tracers)
        result = function(
            *[next(arguments) if type(x) in value_types else x for x in args],
            **{
                name: next(arguments) if type(x) in value_types else x for name, x in kwargs.items()
            },
        )
        several = type(result) in (list, tuple)
        containers.append(type(result) if several else None)
        return list(result) if several else [result]

    trace = Draft()
    arguments = [trace.new_argument(x.aval) for x in operands]
    try:
        with use_trace(trace):
            results = run(*arguments)
        jaxpr, consts = trace.finish(results)
    except (PellucidError, TypeError, ValueError, IndexError):
        return None  # the call itself will raise the error, about the user's own values
    finally:
        trace.close()
    if consts or any(type(a) is Literal for a in jaxpr.outvars):
        return None
    return execution_plan(jaxpr, containers[0])
