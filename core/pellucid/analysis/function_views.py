"""Views of a program in the cache of a jitted function."""

from __future__ import annotations

from typing import Literal

from pellucid._machine.base import by_tool
from pellucid.introspect import schema
from pellucid.introspect.functions import function_entry

from .compiled import compiled
from .function_sharding import traced_sharding
from .programs import program

View = Literal["jaxpr", "stablehlo", "hlo", "sharding", "memory"]


@by_tool
def function_view(
    entry_id: int, view: View = "jaxpr"
) -> schema.ProgramRecord | schema.FunctionShardingRecord | schema.CompiledRecord:
    """One view of the program that `introspect.functions` lists under `entry_id`.

    All but `jaxpr` and `stablehlo` compile it for the placements of its last compilation, unless that executable still
    exists.

    Raises: ArgumentValueError if no function's cache has the program any more.

    >>> f = pl.jit(lambda x: x * 31)
    >>> _ = f(2.0)
    >>> [entry] = pl.introspect.function(f).entries
    >>> function_view(entry.id, "stablehlo").dialect
    'stablehlo'
    """
    traced = function_entry(entry_id)
    if view == "jaxpr":
        return program(traced)
    if view == "sharding":
        return traced_sharding(traced)
    lowered = traced.lower()
    if view == "stablehlo":
        return program(lowered)
    stage = lowered.compile()
    return program(stage) if view == "hlo" else compiled(stage)
