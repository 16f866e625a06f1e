"""Records of the user's jitted functions and of their caches."""

from __future__ import annotations

import inspect
import itertools
from typing import Any

from pellucid._machine.base import ArgumentValueError
from pellucid._machine.higher_order.jitted import Jitted, all_jitted_functions
from pellucid._machine.higher_order.misses import TracedFunctionKey
from pellucid._machine.higher_order.shape_dtype_struct import ShapeDtypeStruct
from pellucid._machine.higher_order.stages import Traced
from pellucid._machine.higher_order.traced_function import TracedFunction
from pellucid._machine.ir import AbstractRef

from . import schema
from .bodies import programs_within
from .misses import miss_record
from .spans import source_record


def functions() -> schema.FunctionsRecord:
    """The user's jitted functions that are alive and were called, the most recently traced first.

    >>> f = pl.jit(lambda x: x + 1)
    >>> _ = f(2.0), f(2)
    >>> found = functions().functions[0]
    >>> found.name, [entry.arguments for entry in found.entries]
    ('<lambda>', [['x: f32[]'], ['x: i32[]']])
    """
    users = [
        jitted for jitted in all_jitted_functions() if jitted.options.share and _programs_of(jitted)
    ]
    users.sort(key=_last_trace_time, reverse=True)
    return schema.FunctionsRecord(functions=[_function_record(jitted) for jitted in users])


def function(f: Any) -> schema.FunctionRecord | None:
    """The record of one jitted function, called or not; None for pellucid's own and for functions that aren't jitted.

    >>> f = pl.jit(lambda x, n=2: x**n, static_argnames="n")
    >>> function(f).signature
    '(x, n=2), static n'
    """
    jitted = getattr(f, "jitted", None)
    return _function_record(jitted) if isinstance(jitted, Jitted) and jitted.options.share else None


def function_entry(entry_id: int) -> Traced:
    """The traced program that `functions` lists under this id, ready to be lowered with the placements of its last
    compilation.

    Raises: ArgumentValueError if no function's cache has it any more.
    """
    for jitted in all_jitted_functions():
        for traced_function in list(jitted.cache.programs.values()):
            if id(traced_function) == entry_id:
                return Traced(jitted, traced_function, _stand_ins(traced_function))
    raise ArgumentValueError(
        "this program is gone: its function was defined again, or the caches were cleared.",
        do="Call the function again, and look at its newest program.",
    )


def _stand_ins(traced_function: TracedFunction) -> list[Any]:
    """Abstract arguments with the types of a program, and with the placements of its last compilation."""
    avals = traced_function.call.avals
    places = list(traced_function.executables)
    closed_over = len(traced_function.values.closed_over)
    shardings = places[-1].shardings[closed_over:] if places else [None] * len(avals)
    return [
        ShapeDtypeStruct(
            aval.shape, aval.dtype, sharding=sharding, weak_type=aval.weak_type,
            is_ref=isinstance(aval, AbstractRef),
        )
        for aval, sharding in zip(avals, shardings, strict=True)
    ]  # fmt: skip


def _last_trace_time(jitted: Jitted) -> int:
    return max((p.miss.time_ns for _, p in _programs_of(jitted) if p.miss), default=0)


def _programs_of(jitted: Jitted) -> list[tuple[TracedFunctionKey, TracedFunction]]:
    """The programs in a function's cache that a call has used; views also trace programs to show them."""
    return [(key, each) for key, each in list(jitted.cache.programs.items()) if not each.is_of_tool]


def _function_record(jitted: Jitted) -> schema.FunctionRecord:
    code = getattr(inspect.unwrap(jitted.spec.function), "__code__", None)
    return schema.FunctionRecord(
        id=id(jitted),
        name=jitted.spec.name,
        source=None if code is None else source_record(code.co_filename, None),
        line=None if code is None else code.co_firstlineno,
        signature=_signature(jitted),
        entries=[
            _entry_record(jitted, key, traced_function)
            for key, traced_function in _programs_of(jitted)
        ],
    )


def _signature(jitted: Jitted) -> str:
    spec = jitted.spec
    try:
        parts = [str(inspect.signature(spec.function))]
    except (TypeError, ValueError):  # builtin functions have no signature
        parts = ["(…)"]
    for word, names, positions in (
        ("static", spec.static_names, spec.static_nums),
        ("donated", spec.donated_names, spec.donated_nums),
    ):
        if names or positions:
            parts.append(f"{word} {', '.join(map(str, names or positions))}")
    return ", ".join(parts)


def _entry_record(
    jitted: Jitted, key: Any, traced_function: TracedFunction
) -> schema.FunctionEntryRecord:
    code = getattr(inspect.unwrap(jitted.spec.function), "__code__", None)
    parameters = () if code is None else code.co_varnames[: code.co_argcount]
    static = [
        (parameters[place] if place < len(parameters) else "", repr(value))
        for place, _, value in key.static.positions
    ]
    static += [(name, repr(value)) for name, _, value in key.static.keywords]
    names = jitted.spec.debug_info(traced_function.call).argument_names
    types = [aval.text() for aval in key.avals]
    traced = itertools.zip_longest(names[: len(types)], types, fillvalue="")
    return schema.FunctionEntryRecord(
        id=id(traced_function),
        arguments=[f"{name}: {text}".removeprefix(": ") for name, text in (*traced, *static)],
        equation_count=sum(
            len(each.equations) for each in programs_within(traced_function.values.closed.jaxpr)
        ),
        executable_count=len(traced_function.executables),
        miss=None if traced_function.miss is None else miss_record(traced_function.miss),
    )
