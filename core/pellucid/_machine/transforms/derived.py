"""Programs derived from inner programs by a transformation, cached on the inner program."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from pellucid._machine.base import Function, Names
from pellucid._machine.base.narrowing import is_list, is_tuple
from pellucid._machine.ir import (
    Avals,
    ClosedJaxpr,
    DebugInfo,
    Jaxpr,
    Lineage,
    Mask,
    Values,
    constants_as_inputs,
)
from pellucid._machine.tracing import Tracer, stage, use_lineage
from pellucid._machine.xla import trace_context


class Derived(NamedTuple):
    """A derived program without constants: its leading inputs are the values `consts` of its former constants.

    `mask` contains the transformation's flag, batch axis or kind of liveness for each result.
    """

    program: ClosedJaxpr
    consts: Values
    mask: tuple[Any, ...]


D = TypeVar("D", bound=Any)
F = TypeVar("F", bound=Function)


def cache_on_program(jaxpr: Jaxpr, key: tuple[Any, ...], derive: Callable[[], D]) -> D:
    """Result of `derive()`, a program derived from `jaxpr`; cached on `jaxpr` by `key` and the options in force.

    A result whose `consts` contain values of a running trace is not cached. Equations that don't come from one of
    `jaxpr` are marked as plumbing, independent of the caller. Programs derived from a batched program have that program
    as `memo["batched"]`.
    """
    key = (*key, trace_context())
    derived = jaxpr.memo.get(key)
    if derived is None:
        with use_lineage(Lineage(key[0], ())):
            derived = derive()
        batched = jaxpr if "lanes" in jaxpr.memo else jaxpr.memo.get("batched")
        if batched is not None:
            fields: Any = derived
            for program in fields if is_tuple(fields) else ():
                if isinstance(program, ClosedJaxpr):
                    program.jaxpr.memo["batched"] = batched
        if not any(isinstance(c, Tracer) for c in derived.consts):
            jaxpr.memo[key] = derived
    return derived


def _without_list(setting: Any) -> Any:
    return tuple(setting) if is_list(setting) and type(setting) is list else setting


def derivation(name: str) -> Callable[[F], F]:
    """Decorator for functions of a program without constants and static settings: caches results on the program."""

    def decorate(derive: F) -> F:
        @functools.wraps(derive)
        def derive_once(jaxpr: Jaxpr, *settings: Any, **keywords: Any) -> Any:
            listless = [_without_list(s) for s in settings]
            key = (name, *listless, *keywords.items())
            return cache_on_program(jaxpr, key, lambda: derive(jaxpr, *settings, **keywords))

        return derive_once  # pyright: ignore[reportReturnType]

    return decorate


def stage_open(
    function: Callable[..., Sequence[Any]], avals: Avals, debug: DebugInfo | None
) -> tuple[ClosedJaxpr, Values]:
    """(program of `function` with its constants as leading inputs, values of these).

    Its leading results are named by `debug`.
    """
    source = debug
    if source is not None:

        def names() -> Names:
            # Names of arguments don't apply to a program with other arguments.
            return source.argument_names if len(source.argument_names) == len(avals) else ()

        debug = DebugInfo(
            source.traced_for, source.func_src_info, names, lambda: source.result_names, notes=source.notes
        )  # fmt: skip
    jaxpr, consts = stage(function, avals, debug)
    return ClosedJaxpr(constants_as_inputs(jaxpr)), consts


def without_names(debug: DebugInfo | None) -> DebugInfo | None:
    """`debug` for a derived program with other arguments: residuals, tangents, cotangents."""
    if debug is None:
        return None
    return DebugInfo(debug.traced_for, debug.func_src_info, notes=debug.notes)


def flag_list(mask: bool | Mask, length: int) -> Mask:
    """A flag for each of `length` results; a single flag is repeated."""
    return (mask,) * length if isinstance(mask, bool) else tuple(mask)
