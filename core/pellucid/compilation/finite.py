"""`debug_nans` and `debug_infs`: results are looked at, and the equation that went wrong is found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pellucid.base import config, dtypes
from pellucid.base.errors import NonFiniteError
from pellucid.base.source import capture, describe
from pellucid.ir.jaxpr import ClosedJaxpr, Equation
from pellucid.ir.rules import Operands, Results
from pellucid.tracing.replay import steps
from pellucid.tracing.values import type_of
from pellucid.xla.arrays import ARRAY_TYPES

_nans, _infs = config.debug_nans.state, config.debug_infs.state


def is_checking() -> bool:
    """Whether results must be looked at in this thread."""
    return _nans.value or _infs.value


def check_results(
    name: str,
    results: Results,
    program: ClosedJaxpr | None = None,
    leaves: Operands = (),
) -> None:
    """Raise NonFiniteError if a result is NaN or infinite where the options forbid it.

    `program`, run again on `leaves` one equation at a time, tells which equation made it.
    """
    found = _found(results, nans=_nans.value, infs=_infs.value)
    if found is None:
        return
    got, source = [], capture()
    if program is not None and any(type(x) in ARRAY_TYPES and x.is_deleted() for x in leaves):
        got = ["its arguments were donated, so it can't be run again to find where"]
    elif program is not None:
        with config.debug_nans(False), config.debug_infs(False):
            equation = _first_bad_equation(
                program, leaves, nans=found == "NaN", infs=found != "NaN"
            )
        if equation is not None:
            got, source = [f"first made by `{equation.primitive.name}`"], equation.source
    option = "debug_nans" if found == "NaN" else "debug_infs"
    raise NonFiniteError(
        f"`{name}` gave a result with {found} in it.",
        got=got,
        where=describe(source),
        do=f"Turn off the option `{option}` to get the value nevertheless.",
    )


def _found(values: Operands, *, nans: bool, infs: bool) -> str | None:
    """What is wrong with some of `values`: NaN or infinity; None if all is well."""
    for value in values:
        dtype = getattr(value, "dtype", None)
        if not isinstance(dtype, np.dtype) or not dtypes.is_inexact(dtype):
            continue
        host = np.asarray(value)
        if dtype.kind not in "fc":  # NumPy's own tests don't know the small floating dtypes
            host = host.astype(np.float32)
        if nans and np.isnan(host).any():
            return "NaN"
        if infs and np.isinf(host).any():
            return "infinity"
    return None


def _first_bad_equation(
    program: ClosedJaxpr, leaves: Operands, *, nans: bool, infs: bool
) -> Equation | None:
    """The first equation whose results are bad, inside called programs too."""
    run = steps(program.jaxpr, program.consts, *leaves)
    pause = next(run, None)
    while pause is not None:
        equation, operands, values = pause
        pause = next(run, None)
        results = [values.get(var) for var in equation.results]
        if _found(results, nans=nans, infs=infs) is None:
            continue
        inner = getattr(equation.params, "jaxpr", None)
        if isinstance(inner, ClosedJaxpr) and _takes(inner, operands) and not _is_mapped(equation):
            return _first_bad_equation(inner, operands, nans=nans, infs=infs) or equation
        return equation
    return None


def _takes(program: ClosedJaxpr, operands: Operands) -> bool:
    """Whether `program` can be run on `operands`: a loop's body takes slices of some."""
    taken: list[Any] = list(program.in_avals)
    given = [type_of(x) for x in operands]
    return [a.shape for a in taken] == [a.shape for a in given]


def _is_mapped(equation: Equation) -> bool:
    """Whether the program of an equation runs in a context of its own: on parts of operands, over mesh axes."""
    return hasattr(equation.params, "scope")
