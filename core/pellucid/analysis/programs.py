"""Records of programs at any stage of compilation, with costs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from pellucid._machine.base import ArgumentTypeError, by_tool
from pellucid._machine.higher_order.stages import Compiled, Lowered, Traced, make_jaxpr
from pellucid._machine.ir import ClosedJaxpr, Jaxpr
from pellucid.introspect import schema
from pellucid.introspect.program import JaxprReading, read_jaxpr

from .costs import FREE, CostTable, jaxpr_costs, rows_of
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

    `x` is a jaxpr (open or closed), a stage (`Traced` is shown as a jaxpr, `Lowered` as StableHLO, `Compiled` as
    optimized HLO), or a function, jitted or not, followed by example arguments. `key` identifies the program in links.
    `listing` and `source_lines` include its text and the text of the user's lines.

    Raises: ArgumentTypeError if `x` isn't a program, or if arguments follow a program.

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
        x = x.trace(*args) if hasattr(x, "trace") else make_jaxpr(x)(*args)  # pyright: ignore[reportFunctionMemberAccess]  # a jitted function has it
    else:
        raise ArgumentTypeError(
            "program needs a function, a jaxpr or a stage of a jitted function.",
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
    """The record of a jaxpr, with the costs of its equations."""
    return dataclasses.replace(reading.record, costs=jaxpr_costs(reading).columns())


def timed(
    record: schema.ProgramRecord, seconds: Mapping[int, float], *, is_of_run: bool = True
) -> schema.ProgramRecord:
    """The record with one more cost: the time of one run of each equation, including its inner programs.

    `seconds` maps the number of an equation to the total time of its runs in one run of the program or, if not
    `is_of_run`, to the time of one of its runs. Runs of a loop of unknown length are added up.

    >>> record = program(lambda x: -x, 1.0)
    >>> timed(record, {0: 2e-6}).costs[-1].values
    [2.0]
    """
    kinds, strings, names = record.kinds, record.strings, record.equations.primitive
    control = [kinds.get(strings[name], "control") == "control" for name in names]
    table = CostTable(rows_of(record, [(FREE, "all" if each else None) for each in control]))
    values: dict[int, float | None] = {}

    def value(row: int) -> float | None:
        if row not in values:
            runs = table.least_runs[row] if is_of_run else 1
            own = seconds.get(row)
            parts = [] if own is None or runs == 0 else [own * 1e6 / runs]
            for body, trips in table.rows[row].uses if control[row] else ():
                inside = [value(each) for each in table.ranges[body]]
                parts += [
                    (1 if trips is None else trips) * each for each in inside if each is not None
                ]
            values[row] = sum(parts) if parts else None
        return values[row]

    microseconds = [value(row) for row in range(len(names))]
    time = schema.CostColumn(name="time", unit="us", basis="measured", values=microseconds)
    return dataclasses.replace(record, costs=[*record.costs, time])
