"""Programs at any stage of compilation as records, with costs."""

from __future__ import annotations

import dataclasses
from typing import Any

from pellucid._machine.base import ArgumentTypeError, by_tool
from pellucid._machine.higher_order.stages import Compiled, Lowered, Traced, make_jaxpr
from pellucid._machine.ir import ClosedJaxpr, Jaxpr
from pellucid.introspect import schema
from pellucid.introspect.program import JaxprReading, read_jaxpr

from .costs import jaxpr_costs
from .hlo_program import hlo_program
from .stablehlo import stablehlo_program


@by_tool
def program(
    x: Any,
    *args: Any,
    key: str | None = None,
    listing: bool = True,
    source_lines: bool = True,
) -> schema.ProgramRecord:
    """The record of a program.

    `x` is a jaxpr (open or closed), a stage (`Traced` and jaxprs give a jaxpr, `Lowered` StableHLO, `Compiled`
    optimized HLO), or a function, jitted or not, whose example arguments follow. `key` names the program in
    links; `listing` and `source_lines` say whether its text and the text of the user's lines come along.

    Raises: ArgumentTypeError for what is no program, and for arguments after a program.

    >>> record = program(lambda x: -x, 1.0)
    >>> record.dialect, [record.strings[i] for i in record.equations.primitive]
    ('jaxpr', ['neg'])
    """
    if isinstance(x, (Jaxpr, ClosedJaxpr, Traced, Lowered, Compiled)):
        if args:
            raise ArgumentTypeError(
                f"program: a {type(x).__name__} takes no example arguments.",
                got=f"got {len(args)} of them",
                do="Pass the function itself, or leave the arguments out.",
            )
    elif callable(x):
        x = x.trace(*args) if hasattr(x, "trace") else make_jaxpr(x)(*args)
    else:
        raise ArgumentTypeError(
            "program takes a function, a jaxpr or a stage of a jitted function.",
            got=f"got {type(x).__name__}",
        )
    if isinstance(x, Lowered):
        return stablehlo_program(x, key=key, listing=listing, source_lines=source_lines)
    if isinstance(x, Compiled):
        return hlo_program(x, key=key, listing=listing, source_lines=source_lines)
    name = None
    if isinstance(x, Traced):
        x, name = x.jaxpr, x.fun_name
    jaxpr = x.jaxpr if isinstance(x, ClosedJaxpr) else x
    return jaxpr_program(jaxpr, name=name, key=key, listing=listing, source_lines=source_lines)


def jaxpr_program(jaxpr: Jaxpr, **options: Any) -> schema.ProgramRecord:
    """The record of a jaxpr with costs; `options` are those of `introspect.program.read_jaxpr`."""
    return with_costs(read_jaxpr(jaxpr, **options))


def with_costs(reading: JaxprReading) -> schema.ProgramRecord:
    """The record of a jaxpr that was read, with the costs of its equations."""
    return dataclasses.replace(reading.record, costs=jaxpr_costs(reading))
