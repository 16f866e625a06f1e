"""`debug_nans` and `debug_infs`: results are looked at, and the equation that went wrong is found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pellucid._machine.base import NonFiniteError, capture, config, describe, dtypes
from pellucid._machine.ir import ClosedJaxpr, Equation, Operands, Results
from pellucid._machine.tracing import steps, type_of
from pellucid._machine.xla import ARRAY_TYPES, flatten

from .launches import Launch, Listener

_nans, _infs = config.debug_nans.state, config.debug_infs.state
_KINDS = {"NaN": (np.isnan, config.debug_nans), "infinity": (np.isinf, config.debug_infs)}
"""Test and option of each kind of value that may be forbidden."""


class FiniteCheck(Listener):
    """Looks at the results of each launch; that of an operation says itself where they were made."""

    def hears(self, launch: Launch) -> bool:
        return _nans.value or _infs.value

    def around(self, launch: Launch, run: Callable[[], Results]) -> Results:
        results = run()
        launch.needs_python = True
        program = None if launch.is_operation else launch.program
        check_results(launch.name, results, program, launch.operands)
        return results


def check_results(
    name: str, results: Results, program: ClosedJaxpr | None = None, leaves: Operands = ()
) -> None:
    """Raise NonFiniteError if a result is NaN or infinite where the options forbid it.

    `program`, run again on `leaves` one equation at a time, finds the equation that made it.
    """
    kind = _kind_of_bad([kind for kind, (_, option) in _KINDS.items() if option.value], results)
    if kind is None:
        return
    got, source = [], capture()
    if program is not None and any(type(x) in ARRAY_TYPES and x.is_deleted() for x in leaves):
        got = ["its arguments were donated, so it can't be run again to find where"]
    elif program is not None:
        with config.debug_nans(False), config.debug_infs(False):
            equation = _first_bad_equation(kind, program, leaves)
        if equation is not None:
            got = [f"first made by `{equation.primitive.name}`"]
            source = equation.source or source
    raise NonFiniteError(
        f"`{name}` gave a result with {kind} in it.",
        got=got,
        where=describe(source),
        do=f"Turn off the option `{_KINDS[kind][1].name}` to get the value nevertheless.",
    )


def check_library_result(name: str, result: Any) -> None:
    """Raise NonFiniteError if arrays in the result of a library function hold what the options forbid."""
    check_results(name, [x for x in flatten(result)[0] if type(x) in ARRAY_TYPES])


def _kind_of_bad(kinds: Sequence[str], values: Operands) -> str | None:
    """The first of `kinds` ("NaN", "infinity") that is in the first of `values` with any; None if none is."""
    for value in values:
        dtype = getattr(value, "dtype", None)
        if not isinstance(dtype, np.dtype) or not dtypes.is_inexact(dtype):
            continue
        host = np.asarray(value)
        if dtype.kind not in "fc":  # NumPy's own tests don't know the small floating dtypes
            host = host.astype(np.float32)
        for kind in kinds:
            if _KINDS[kind][0](host).any():
                return kind
    return None


def _first_bad_equation(kind: str, program: ClosedJaxpr, leaves: Operands) -> Equation | None:
    """The first equation with a NaN or an infinity in its results, inside called programs too."""
    run = steps(program.jaxpr, program.consts, *leaves)
    pause = next(run, None)
    while pause is not None:
        equation, operands, values = pause
        pause = next(run, None)
        results = [values.get(var) for var in equation.results]
        if _kind_of_bad([kind], results) is None:
            continue
        inner = getattr(equation.params, "jaxpr", None)
        # One with a scope runs on parts of operands, over mesh axes.
        is_mapped = hasattr(equation.params, "scope")
        if isinstance(inner, ClosedJaxpr) and _takes(inner, operands) and not is_mapped:
            return _first_bad_equation(kind, inner, operands) or equation
        return equation
    return None


def _takes(program: ClosedJaxpr, operands: Operands) -> bool:
    """Whether `program` can be run on `operands`: a loop's body takes slices of some."""
    shapes = [
        [getattr(aval, "shape", None) for aval in avals]
        for avals in (program.in_avals, map(type_of, operands))
    ]
    return shapes[0] == shapes[1]
