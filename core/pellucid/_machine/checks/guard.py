"""Conditions that compiled programs raise at run time if they fail, without `checkify`."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pellucid._machine.ir import Operands, guard_effect
from pellucid._machine.lowering.custom_calls import HostFunction, calls_python, host_call
from pellucid._machine.lowering.loops import case
from pellucid._machine.runtime.failures import mark_error
from pellucid._machine.tracing import bind

from .check import Check, CheckParams
from .errors import CheckError, CheckSite, error_of

_GUARDS = frozenset({guard_effect})


class Guard(Check):
    """Raises at run time if the first operand, an error code, isn't 0.

    `checkify` converts those of the requested categories to values. They are omitted in exported programs, and on
    devices that can't call Python.
    """

    name = "guard"

    def effects(self, avals, params):
        return _GUARDS

    def lower(self, ctx, operands, params):
        if not ctx.options.identifies_equations or not calls_python(ctx.platform):
            return []
        raising = _Raising(params.sites, goes_on=ctx.sharding_attributes is not None)

        def fail() -> list[Any]:
            host_call(ctx, raising, operands, has_side_effect=True, of_parts=True)
            return []

        # Python is called only on failure: the code selects the first branch if it is 0, else the last.
        case(ctx, operands[0], [], [list, fail])
        return []


@dataclass(frozen=True, eq=False)
class _Raising(HostFunction):
    """The host function that raises the failure of one of `sites`; `failures` is as in `CheckedFunction`."""

    sites: tuple[CheckSite, ...]
    goes_on: bool
    failures: list[BaseException] | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "failures", [] if self.goes_on else None)

    @property
    def identity(self) -> Hashable:
        """The sites; each is a distinct object."""
        return "guard", self.sites, self.goes_on

    def __call__(self, code: Any, *values: Any) -> tuple[Any, ...]:
        try:
            error_of(np.asarray(code), [*map(np.asarray, values)], self.sites).throw()
        except CheckError as error:
            if self.failures is not None:
                self.failures.append(error)
                return ()
            mark = mark_error(error)
        else:
            return ()
        raise RuntimeError(mark)


guard_p = Guard()


def guard(code: Any, values: Operands, sites: Sequence[CheckSite]) -> None:
    """Raise unless `code` is 0; otherwise it is the number of the failed site, from 1. `values` are those of all sites'
    messages.

    Raises: CheckError with the message of that site, outside of traces at once, else when the program runs.
    """
    bind(guard_p, code, *values, params=CheckParams(False, tuple(sites)))
